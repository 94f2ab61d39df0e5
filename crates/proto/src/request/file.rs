//! Requests that open, close and sync a file.

use super::{RequestError, parts::required};
use crate::flags::OpenOptions;
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

impl<'a> Open<'a> {
    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        required(payload, "open names no path")?;
        Ok(Self {
            mode: u16::from_be_bytes(params.field::<0, 2>()),
            options: OpenOptions(u16::from_be_bytes(params.field::<2, 2>())),
            options_extended: u16::from_be_bytes(params.field::<4, 2>()),
            path: payload,
        })
    }

    pub(super) fn params(self) -> Params {
        Params::default()
            .with::<0, 2>(self.mode.to_be_bytes())
            .with::<2, 2>(self.options.0.to_be_bytes())
            .with::<4, 2>(self.options_extended.to_be_bytes())
    }
}

/// Closes an open file by its handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Close {
    pub handle: FileHandle,
}

impl Close {
    pub(super) fn decode(params: &Params) -> Self {
        Self { handle: FileHandle(params.field::<0, 4>()) }
    }
}

/// Makes writes durable; harmless on a file open for reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sync {
    pub handle: FileHandle,
}

impl Sync {
    pub(super) fn decode(params: &Params) -> Self {
        Self { handle: FileHandle(params.field::<0, 4>()) }
    }
}
