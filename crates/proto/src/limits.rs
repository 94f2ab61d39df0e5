//! Every limit of the protocol layer, with its reason.

use crate::code::RequestCode;

/// Longest argument (path with opaque data, query text, credentials) in bytes. Tokens in opaque data reach 16 KiB and
/// more; longer arguments are drained and refused with `ArgTooLong`.
pub const ARGUMENT_LEN_MAX: u32 = 64 << 10;

/// Longest payload that is drained rather than answered with a close, for requests that carry no data.
pub const DRAIN_LEN_MAX: u32 = 1 << 20;

/// Elements of one vector read or write, as the reference server announces in `readv_iov_max`.
pub const VECTOR_ELEMENTS_MAX: u32 = 1024;

/// Bytes of one element of a vector read, as the reference server announces in `readv_ior_max`: its buffer of 2 MiB
/// less the element's header.
pub const VECTOR_ELEMENT_LEN_MAX: u32 = (2 << 20) - 16;

/// Bytes of a whole vector read with its headers; the length of a response is a signed 32-bit number.
pub const VECTOR_LEN_MAX: u64 = i32::MAX.unsigned_abs() as u64;

/// Pre-read hints after a read; they get no answer, so this only bounds the work.
pub const PREREADS_MAX: u32 = 1024;

/// Parallel streams of one session besides the main connection; the path id is their number.
pub const BOUND_STREAMS_MAX: u8 = 15;

/// Bytes of data in one frame of a read's answer: the I/O buffer of the reference server.
pub const READ_FRAME_LEN_MAX: u32 = 2 << 20;

/// Pages in one frame of a page read's answer, as in the reference server.
pub const PAGE_FRAME_PAGES_MAX: u32 = 512;

/// Bytes of one frame of a directory listing that we send.
pub const DIRLIST_FRAME_LEN_MAX: usize = 64 << 10;

/// Redirects that one request may follow, as in the reference client.
pub const REDIRECTS_MAX: u32 = 16;

/// Bytes that a server reads before it must have seen a whole request: the size to which its input buffer may grow.
pub const REQUEST_LEN_MAX: usize = 24 + (64 << 10);

/// Bytes of a set-up reply (protocol, login with its security text) that a client accepts.
pub const SETUP_BODY_LEN_MAX: u32 = 64 << 10;

/// Bytes of an error, redirect, wait or other short text that a client accepts; redirects carry capabilities of
/// kilobytes.
pub const TEXT_BODY_LEN_MAX: u32 = 64 << 10;

/// Bytes of one name in a directory listing that a client accepts: longer ones come from no file system.
pub const DIRLIST_LINE_LEN_MAX: usize = 8 << 10;

/// Longest payload of a request that carries no file data; longer ones are drained and refused.
pub const fn payload_len_max(code: RequestCode) -> u32 {
    match code {
        RequestCode::READV | RequestCode::WRITEV => VECTOR_ELEMENTS_MAX * 16,
        RequestCode::READ => 8 + PREREADS_MAX * 16,
        _ => ARGUMENT_LEN_MAX,
    }
}
