//! Questions: checksum, configuration, space, attributes.

use super::parts::text;
use crate::code::QueryKind;
use crate::header::{FileHandle, Params};

/// Asks for a checksum, configuration values, space, and the like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Query<'a> {
    pub kind: QueryKind,
    /// The open file it is about, for the kinds that take one.
    pub handle: FileHandle,
    pub argument: &'a [u8],
}

impl<'a> Query<'a> {
    pub(super) fn decode(params: &Params, payload: &'a [u8]) -> Self {
        Self {
            kind: QueryKind(u16::from_be_bytes(params.field::<0, 2>())),
            handle: FileHandle(params.field::<4, 4>()),
            argument: text(payload),
        }
    }

    pub(super) fn params(self) -> Params {
        Params::default().with::<0, 2>(self.kind.0.to_be_bytes()).with::<4, 4>(self.handle.0)
    }

    /// The names that a configuration query asks for: words of the first line, the rest is ignored by all servers.
    pub fn config_names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let line = self.argument.split(|&byte| byte == b'\n').next().unwrap_or_default();
        line.split(|&byte| byte == b' ').filter(|name| !name.is_empty())
    }
}

/// A request on file attributes. It is recognised and kept in wire form; a read-only server supports none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fattr<'a> {
    pub params: Params,
    pub payload: &'a [u8],
}

impl<'a> Fattr<'a> {
    pub(super) const fn decode(params: &Params, payload: &'a [u8]) -> Self {
        Self { params: *params, payload }
    }
}
