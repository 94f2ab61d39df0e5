//! How requests lie in their parameters and payload.

use crate::code::{ErrorCode, QueryKind, RequestCode};
use crate::flags::{Abilities, DirlistOptions, LocateOptions, OpenOptions, ProtocolRequestFlags};
use crate::header::{FileHandle, Params, SessionId};

/// Why a request cannot be understood; sent to the client. The connection stays usable.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text} ({code})")]
pub struct RequestError {
    pub code: ErrorCode,
    pub text: &'static str,
}

impl RequestError {
    pub(crate) const fn new(code: ErrorCode, text: &'static str) -> Self {
        Self { code, text }
    }

    pub(crate) const fn invalid(text: &'static str) -> Self {
        Self::new(ErrorCode::ARG_INVALID, text)
    }
}

/// A request as its header's parameters and its payload.
pub(super) trait Body<'a>: Sized {
    fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError>;

    fn to_parts(self) -> Parts<'a>;
}

/// A request taken apart for encoding: parameters, the fixed arguments that open the payload, the rest of it.
pub(super) struct Parts<'a> {
    pub(super) params: Params,
    pub(super) args: Args,
    pub(super) payload: &'a [u8],
}

/// Arguments of fixed width that some requests put before their payload proper.
pub(super) enum Args {
    None,
    PageRead([u8; 2]),
    Read([u8; 8]),
}

impl<'a> Parts<'a> {
    pub(super) const fn new(params: Params, payload: &'a [u8]) -> Self {
        Self { params, args: Args::None, payload }
    }
}

impl Args {
    pub(super) const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::PageRead(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Implements [`Body`] for a request with these fields, each after its offset in the parameters. The payload, if it has one, is
/// checked by a function.
macro_rules! layout {
    ($request:ty { $($at:literal: $field:ident),* $(; $payload:ident = $check:expr)? }) => {
        impl<'a> $crate::request::layout::Body<'a> for $request {
            fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
                // Some requests have no parameters, others no payload.
                let _ = (params, payload);
                Ok(Self { $($field: Field::take::<$at>(params),)* $($payload: $check(payload)?)? })
            }

            fn to_parts(self) -> Parts<'a> {
                let params = Params::default();
                $(let params = self.$field.put::<$at>(params);)*
                let [payload, ..] = [$(self.$payload,)? &[]];
                Parts::new(params, payload)
            }
        }
    };
}
pub(super) use layout;

/// A field of the parameters, in its wire form.
pub(super) trait Field: Copy {
    fn take<const AT: usize>(params: &Params) -> Self;

    fn put<const AT: usize>(self, params: Params) -> Params;
}

/// Implements [`Field`] for types of these widths, by their conversions from and to bytes.
macro_rules! fields {
    ($($field:ty: $len:literal, $from:expr, $to:expr;)*) => {$(
        impl Field for $field {
            fn take<const AT: usize>(params: &Params) -> Self {
                $from(params.field::<AT, $len>())
            }

            fn put<const AT: usize>(self, params: Params) -> Params {
                params.with::<AT, $len>($to(self))
            }
        }
    )*};
}

fields! {
    u8: 1, u8::from_be_bytes, u8::to_be_bytes;
    u16: 2, u16::from_be_bytes, u16::to_be_bytes;
    u32: 4, u32::from_be_bytes, u32::to_be_bytes;
    u64: 8, u64::from_be_bytes, u64::to_be_bytes;
    Params: 16, Params, |params: Self| params.0;
    [u8; 4]: 4, std::convert::identity, std::convert::identity;
    FileHandle: 4, FileHandle, |handle: Self| handle.0;
    SessionId: 16, SessionId, |id: Self| id.0;
    Abilities: 1, |[bits]: [u8; 1]| Self(bits), |flags: Self| [flags.0];
    DirlistOptions: 1, |[bits]: [u8; 1]| Self(bits), |flags: Self| [flags.0];
    ProtocolRequestFlags: 1, |[bits]: [u8; 1]| Self(bits), |flags: Self| [flags.0];
    LocateOptions: 2, |bits| Self(u16::from_be_bytes(bits)), |flags: Self| flags.0.to_be_bytes();
    OpenOptions: 2, |bits| Self(u16::from_be_bytes(bits)), |flags: Self| flags.0.to_be_bytes();
    QueryKind: 2, |bits| Self(u16::from_be_bytes(bits)), |kind: Self| kind.0.to_be_bytes();
    RequestCode: 2, |bits| Self(u16::from_be_bytes(bits)), |code: Self| code.0.to_be_bytes();
}

/// A payload as it is.
pub(super) const fn raw(payload: &[u8]) -> Result<&[u8], RequestError> {
    Ok(payload)
}

/// A text payload without the one NUL that may end it.
pub(super) fn text(payload: &[u8]) -> Result<&[u8], RequestError> {
    Ok(payload.strip_suffix(b"\0").unwrap_or(payload))
}

/// A payload that must be there.
pub(super) const fn required<'a>(payload: &'a [u8], missing: &'static str) -> Result<&'a [u8], RequestError> {
    if payload.is_empty() { Err(RequestError::new(ErrorCode::ARG_MISSING, missing)) } else { Ok(payload) }
}
