//! Requests on names: stat, statx, dirlist, locate, prepare.

use super::RequestError;
use super::parts::{Parts, required, text};
use crate::code::ErrorCode;
use crate::flags::{DirlistOptions, LocateOptions};
use crate::header::{FileHandle, Params};

/// The object of a request: a name, or an open file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target<'a> {
    Path(&'a [u8]),
    Handle(FileHandle),
}

impl<'a> Target<'a> {
    /// The path, when the request is about a name.
    pub const fn path(&self) -> Option<&'a [u8]> {
        match self {
            Self::Path(path) => Some(path),
            Self::Handle(_) => None,
        }
    }
}

/// Asks for the stat of a file, or of the space it lies in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stat<'a> {
    pub target: Target<'a>,
    /// Whether the space is asked for instead of the file; then the target is a path.
    pub vfs: bool,
}

impl<'a> Stat<'a> {
    const VFS: u8 = 0x01;

    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        let [options] = params.field::<0, 1>();
        let vfs = options & Self::VFS != 0;
        let target = if payload.is_empty() {
            if vfs {
                return Err(RequestError::new(ErrorCode::ARG_MISSING, "stat of a space names no path"));
            }
            Target::Handle(FileHandle(params.field::<12, 4>()))
        } else {
            Target::Path(payload)
        };
        Ok(Self { target, vfs })
    }

    pub(super) fn to_parts(self) -> Parts<'a> {
        let params = Params::default().with::<0, 1>([if self.vfs { Self::VFS } else { 0 }]);
        match self.target {
            Target::Path(path) => Parts::new(params, path),
            Target::Handle(handle) => Parts::bare(params.with::<12, 4>(handle.0)),
        }
    }
}

/// Asks for the kinds of several paths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Statx<'a> {
    pub paths: &'a [u8],
}

impl<'a> Statx<'a> {
    pub(super) fn decode(payload: &'a [u8]) -> Result<Self, RequestError> {
        required(payload, "statx names no path")?;
        Ok(Self { paths: text(payload) })
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        lines(self.paths)
    }
}

/// Lists a directory with the requested detail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dirlist<'a> {
    pub options: DirlistOptions,
    pub path: &'a [u8],
}

impl<'a> Dirlist<'a> {
    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        required(payload, "dirlist names no path")?;
        let [options] = params.field::<15, 1>();
        Ok(Self { options: DirlistOptions(options), path: payload })
    }

    pub(super) fn params(self) -> Params {
        Params::default().with::<15, 1>([self.options.0])
    }
}

/// Asks for the servers that have a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Locate<'a> {
    pub options: LocateOptions,
    /// Path and opaque data as sent; `*` alone asks for all servers, `*/path` for those that could have the path.
    pub path: &'a [u8],
}

impl<'a> Locate<'a> {
    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        required(payload, "locate names no path")?;
        Ok(Self { options: LocateOptions(u16::from_be_bytes(params.field::<0, 2>())), path: payload })
    }

    pub(super) fn params(self) -> Params {
        Params::default().with::<0, 2>(self.options.0.to_be_bytes())
    }
}

/// Asks to stage files, or to cancel that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prepare<'a> {
    /// 1 cancel, 2 notify, 4 no errors, 8 stage, 16 for writing, 32 together, 64 fresh.
    pub options: u8,
    /// Priority, 0 to 3.
    pub priority: u8,
    pub port: u16,
    pub options_extended: u16,
    /// The paths, one a line; to cancel, the request's id comes first.
    pub paths: &'a [u8],
}

impl<'a> Prepare<'a> {
    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Self {
        let [options, priority] = params.field::<0, 2>();
        Self {
            options,
            priority,
            port: u16::from_be_bytes(params.field::<2, 2>()),
            options_extended: u16::from_be_bytes(params.field::<4, 2>()),
            paths: text(payload),
        }
    }

    pub(super) fn params(self) -> Params {
        Params::default()
            .with::<0, 2>([self.options, self.priority])
            .with::<2, 2>(self.port.to_be_bytes())
            .with::<4, 2>(self.options_extended.to_be_bytes())
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        lines(self.paths)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}
