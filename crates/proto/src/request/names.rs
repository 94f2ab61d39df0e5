//! Requests on names and open files: open, close, sync, stat, statx, dirlist, locate, prepare, query.

use super::layout::{Body, Field, Parts, RequestError, layout, raw, required, text};
use crate::code::QueryKind;
use crate::flags::{DirlistOptions, LocateOptions, OpenOptions};
use crate::header::{FileHandle, Params};

/// Opens a file and asks for a handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Open<'a> {
    /// Permission bits of a file to be created, `rwxrwxrwx` as `0o777`.
    pub mode: u16,
    pub options: OpenOptions,
    /// Further options of protocol 5.2.0: hints that a read-only server ignores.
    pub options_extended: u16,
    pub path: &'a [u8],
}

layout!(Open<'a> { 0: mode, 2: options, 4: options_extended; path = |path| required(path, "open names no path") });

/// Closes an open file by its handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Close {
    pub handle: FileHandle,
}

layout!(Close { 0: handle });

/// Makes writes durable; harmless on a file open for reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sync {
    pub handle: FileHandle,
}

layout!(Sync { 0: handle });

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
}

impl<'a> Body<'a> for Stat<'a> {
    fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        let vfs = u8::take::<0>(params) & Self::VFS != 0;
        let target = if vfs {
            Target::Path(required(payload, "stat of a space names no path")?)
        } else if payload.is_empty() {
            Target::Handle(Field::take::<12>(params))
        } else {
            Target::Path(payload)
        };
        Ok(Self { target, vfs })
    }

    fn to_parts(self) -> Parts<'a> {
        let options = if self.vfs { Self::VFS } else { 0 };
        let params = options.put::<0>(Params::default());
        match self.target {
            Target::Path(path) => Parts::new(params, path),
            Target::Handle(handle) => Parts::new(handle.put::<12>(params), &[]),
        }
    }
}

/// Asks for the kinds of several paths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Statx<'a> {
    pub paths: &'a [u8],
}

layout!(Statx<'a> { ; paths = |paths| required(paths, "statx names no path").and_then(text) });

impl<'a> Statx<'a> {
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

layout!(Dirlist<'a> { 15: options; path = |path| required(path, "dirlist names no path") });

/// Asks for the servers that have a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Locate<'a> {
    pub options: LocateOptions,
    /// Path and opaque data as sent; `*` alone asks for all servers, `*/path` for those that could have the path.
    pub path: &'a [u8],
}

layout!(Locate<'a> { 0: options; path = |path| required(path, "locate names no path") });

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

layout!(Prepare<'a> { 0: options, 1: priority, 2: port, 4: options_extended; paths = text });

impl<'a> Prepare<'a> {
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        lines(self.paths)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// Asks for a checksum, configuration values, space, and the like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Query<'a> {
    pub kind: QueryKind,
    /// The open file it is about, for the kinds that take one.
    pub handle: FileHandle,
    /// As sent: an empty one and one of a NUL alone have different answers.
    pub argument: &'a [u8],
}

layout!(Query<'a> { 0: kind, 4: handle; argument = raw });

impl<'a> Query<'a> {
    /// The names that a configuration query asks for: words of the first line. The rest is ignored by all servers, as is all
    /// after a NUL.
    pub fn config_names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let line = self.argument.split(|&byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default();
        line.split(|&byte| byte == b' ').filter(|name| !name.is_empty())
    }
}

/// A request on file attributes. It is recognised and kept in wire form; a read-only server supports none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fattr<'a> {
    pub params: Params,
    pub payload: &'a [u8],
}

layout!(Fattr<'a> { 0: params; payload = raw });
