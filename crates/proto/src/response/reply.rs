//! Where an answer goes: the headers of ordinary and deferred answers.

use super::failure::{ASYNC_RESPONSE, DEFERRED_PREFIX_LEN};
use crate::code::{ErrorCode, Status};
use crate::header::{RESPONSE_HEADER_LEN, ResponseHeader, StreamId};

/// The request that an answer belongs to, and whether the answer was promised by a `waitresp` before.
///
/// Every method appends whole frames to `out` and allocates nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplyTo {
    pub stream_id: StreamId,
    /// Whether the answer goes out as an unsolicited message, because a `waitresp` went before.
    pub is_deferred: bool,
}

impl ReplyTo {
    pub const fn direct(stream_id: StreamId) -> Self {
        Self { stream_id, is_deferred: false }
    }

    /// An answer that a `waitresp` has promised. It consists of one frame; page reads are answered directly even then.
    pub const fn deferred(stream_id: StreamId) -> Self {
        Self { stream_id, is_deferred: true }
    }

    /// Bytes of the header that [`ReplyTo::header`] appends.
    pub const fn header_len(self) -> usize {
        if self.is_deferred { RESPONSE_HEADER_LEN + DEFERRED_PREFIX_LEN as usize } else { RESPONSE_HEADER_LEN }
    }

    /// Appends the header of a frame whose `body_len` bytes of body the caller sends after it.
    pub fn header(self, status: Status, body_len: u32, out: &mut Vec<u8>) {
        if self.is_deferred {
            let body_len = body_len.saturating_add(DEFERRED_PREFIX_LEN);
            ResponseHeader { stream_id: StreamId::ZERO, status: Status::ATTN, body_len }.encode(out);
            out.extend_from_slice(&ASYNC_RESPONSE.to_be_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        ResponseHeader { stream_id: self.stream_id, status, body_len }.encode(out);
    }

    /// Appends a frame whose body `build` appends.
    pub(super) fn frame(self, status: Status, out: &mut Vec<u8>, build: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        self.header(status, 0, out);
        let body_start = out.len();
        build(out);
        let body_len = u32::try_from(out.len() - body_start).expect("a body that we build is far below 4 GiB");
        let end = out.len();
        self.header(status, body_len, out);
        out.copy_within(end.., start);
        out.truncate(end);
    }

    /// Appends an empty final answer.
    pub fn ok(self, out: &mut Vec<u8>) {
        self.header(Status::OK, 0, out);
    }

    /// Appends a final answer with `body`.
    pub fn ok_with(self, body: &[u8], out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| out.extend_from_slice(body));
    }

    /// Appends a final answer with `text` and a NUL.
    pub fn ok_text(self, text: &str, out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        });
    }

    /// Appends an error. The text always ends with a NUL, since an empty text makes client processes abort.
    pub fn error(self, code: ErrorCode, text: &str, out: &mut Vec<u8>) {
        self.frame(Status::ERROR, out, |out| {
            out.extend_from_slice(&code.0.to_be_bytes());
            out.extend(text.bytes().filter(|&byte| byte != 0).take(ERROR_TEXT_LEN_MAX));
            out.push(0);
        });
    }

    /// Appends a request to ask again in `seconds`, which is not 0: some clients would ask in a loop.
    pub fn wait(self, seconds: u32, text: &str, out: &mut Vec<u8>) {
        self.frame(Status::WAIT, out, |out| {
            out.extend_from_slice(&seconds.clamp(1, i32::MAX.unsigned_abs()).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        });
    }

    /// Appends the promise that the answer comes by itself within `seconds`. Only for clients that said at login that
    /// they understand it, and once per request.
    pub fn wait_response(self, seconds: u32, out: &mut Vec<u8>) {
        self.frame(Status::WAITRESP, out, |out| {
            out.extend_from_slice(&seconds.min(i32::MAX.unsigned_abs()).to_be_bytes());
        });
    }
}

/// Bytes of an error's text that we send: enough for the longest path and what happened to it.
const ERROR_TEXT_LEN_MAX: usize = 8 << 10;
