//! Requests that write: recognised far enough to refuse or redirect them.

use super::{
    RequestError, Target,
    layout::{required, text},
};
use crate::code::RequestCode;
use crate::header::{FileHandle, Params, RequestHeader};

/// A request that would change a file or the name space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change<'a> {
    pub code: RequestCode,
    /// The name that would change; for a renaming, the old one.
    pub target: Target<'a>,
    pub params: Params,
    /// The payload as sent. A server session drains the data of writes: then it is empty.
    pub payload: &'a [u8],
}

impl<'a> Change<'a> {
    /// Whether a request is of this family.
    pub const fn is_code(code: RequestCode) -> bool {
        Self::is_about_a_path(code) || Self::is_about_a_handle(code) || matches!(code, RequestCode::TRUNCATE)
    }

    const fn is_about_a_path(code: RequestCode) -> bool {
        matches!(code, RequestCode::MKDIR | RequestCode::MV | RequestCode::RM | RequestCode::RMDIR | RequestCode::CHMOD)
    }

    const fn is_about_a_handle(code: RequestCode) -> bool {
        matches!(
            code,
            RequestCode::WRITE
                | RequestCode::PGWRITE
                | RequestCode::WRITEV
                | RequestCode::CHKPOINT
                | RequestCode::CLONE
        )
    }

    /// A change of an open file whose payload has been dropped.
    pub(crate) fn without_payload(header: &RequestHeader) -> Self {
        let target = Target::Handle(FileHandle(header.params.field::<0, 4>()));
        Self { code: header.code, target, params: header.params, payload: &[] }
    }

    pub(super) fn decode(code: RequestCode, params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        let handle = Target::Handle(FileHandle(params.field::<0, 4>()));
        let target = match code {
            RequestCode::MV => Target::Path(old_name(params, payload)?),
            _ if Self::is_about_a_handle(code) => handle,
            RequestCode::TRUNCATE if payload.is_empty() => handle,
            _ => Target::Path(required(payload, "the request names no path")?),
        };
        Ok(Self { code, target, params: *params, payload })
    }
}

/// The first of the two names of a renaming: as long as the parameters say, else up to the first blank.
fn old_name<'a>(params: &Params, payload: &'a [u8]) -> Result<&'a [u8], RequestError> {
    let payload = text(payload)?;
    let len = match usize::from(u16::from_be_bytes(params.field::<14, 2>())) {
        0 => payload.iter().position(|&byte| byte == b' '),
        len => (payload.get(len) == Some(&b' ')).then_some(len),
    };
    let old_name = len.and_then(|len| payload.get(..len)).filter(|name| !name.is_empty());
    old_name.ok_or(RequestError::invalid("mv needs two names with a blank between them"))
}
