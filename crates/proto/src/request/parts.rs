//! The parts of a request's payload.

use super::error::RequestError;
use crate::code::{ErrorCode, RequestCode};
use crate::header::{Params, RequestHeader, StreamId};

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

    pub(super) const fn bare(params: Params) -> Self {
        Self::new(params, &[])
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

pub(super) const fn required(payload: &[u8], text: &'static str) -> Result<(), RequestError> {
    if payload.is_empty() { Err(RequestError::new(ErrorCode::ARG_MISSING, text)) } else { Ok(()) }
}

/// A text payload without the one NUL that may end it.
pub(super) fn text(payload: &[u8]) -> &[u8] {
    payload.strip_suffix(b"\0").unwrap_or(payload)
}

pub(super) fn encode_header(
    stream_id: StreamId,
    code: RequestCode,
    params: Params,
    payload_len: usize,
    out: &mut Vec<u8>,
) {
    let payload_len = i32::try_from(payload_len).expect("a payload that we build is far below 2 GiB").unsigned_abs();
    RequestHeader { stream_id, code, params, payload_len }.encode(out);
}
