//! The fixed headers of requests and responses, and the opaque identifiers in them.

use crate::code::{RequestCode, Status};
use crate::wire::{Reader, unsigned32};
use std::fmt;

/// Length of a request's header in bytes.
pub const REQUEST_HEADER_LEN: usize = 24;

/// Length of a response's header in bytes.
pub const RESPONSE_HEADER_LEN: usize = 8;

/// Which request a response belongs to: chosen by the client, echoed byte for byte by the server.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct StreamId(pub [u8; 2]);

impl StreamId {
    /// The id of session set-up and of unsolicited messages.
    pub const ZERO: Self = Self([0, 0]);
}

impl From<u16> for StreamId {
    fn from(number: u16) -> Self {
        Self(number.to_be_bytes())
    }
}

impl From<StreamId> for u16 {
    fn from(id: StreamId) -> Self {
        Self::from_be_bytes(id.0)
    }
}

/// An open file: chosen by the server, opaque to the client.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FileHandle(pub [u8; 4]);

/// A login session. Its bearer can bind to the session and end it, so it is never printed.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

/// The sixteen bytes of a request's header whose meaning depends on the request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Params(pub [u8; 16]);

impl Params {
    /// The `N` bytes at offset `AT`; a field outside the parameters does not compile.
    pub fn field<const AT: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(AT + N <= 16, "field lies outside the parameters") };
        self.0.get(AT..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    /// These parameters with `field` at offset `AT`; a field outside the parameters does not compile.
    pub fn with<const AT: usize, const N: usize>(mut self, field: [u8; N]) -> Self {
        const { assert!(AT + N <= 16, "field lies outside the parameters") };
        for (to, from) in self.0.iter_mut().skip(AT).zip(field) {
            *to = from;
        }
        self
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestHeader {
    pub stream_id: StreamId,
    pub code: RequestCode,
    pub params: Params,
    /// Bytes of payload after the header.
    pub payload_len: u32,
}

/// A header that announces a negative length: nothing after it can be understood.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a header announces a negative length")]
pub struct NegativeLength {
    pub stream_id: StreamId,
}

impl RequestHeader {
    /// # Errors
    /// When the length is negative.
    pub fn decode(bytes: &[u8; REQUEST_HEADER_LEN]) -> Result<Self, NegativeLength> {
        let [id0, id1, code0, code1, params @ .., len0, len1, len2, len3] = *bytes;
        let stream_id = StreamId([id0, id1]);
        Ok(Self {
            stream_id,
            code: RequestCode(u16::from_be_bytes([code0, code1])),
            params: Params(params),
            payload_len: unsigned32(u32::from_be_bytes([len0, len1, len2, len3]))
                .ok_or(NegativeLength { stream_id })?,
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stream_id.0);
        out.extend_from_slice(&self.code.0.to_be_bytes());
        out.extend_from_slice(&self.params.0);
        out.extend_from_slice(&self.payload_len.to_be_bytes());
    }
}

/// The header of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResponseHeader {
    pub stream_id: StreamId,
    pub status: Status,
    /// Bytes of body after the header. The data of a `status` response is extra.
    pub body_len: u32,
}

impl ResponseHeader {
    /// # Errors
    /// When the length is negative.
    pub fn decode(bytes: &[u8; RESPONSE_HEADER_LEN]) -> Result<Self, NegativeLength> {
        let [id0, id1, status0, status1, len @ ..] = *bytes;
        let stream_id = StreamId([id0, id1]);
        Ok(Self {
            stream_id,
            status: Status(u16::from_be_bytes([status0, status1])),
            body_len: unsigned32(u32::from_be_bytes(len)).ok_or(NegativeLength { stream_id })?,
        })
    }

    /// The header in its wire form, for a caller that builds a frame without a buffer.
    pub const fn to_bytes(&self) -> [u8; RESPONSE_HEADER_LEN] {
        let StreamId([id0, id1]) = self.stream_id;
        let [status0, status1] = self.status.0.to_be_bytes();
        let [len0, len1, len2, len3] = self.body_len.to_be_bytes();
        [id0, id1, status0, status1, len0, len1, len2, len3]
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}

/// Takes a handle, length and offset: the element header of vector reads and writes.
pub(crate) fn take_element(reader: &mut Reader<'_>) -> Option<(FileHandle, u32, u64)> {
    Some((FileHandle(reader.array()?), reader.u32()?, reader.u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_lengths_are_refused_on_both_sides_of_the_edge() {
        let mut request = [7; REQUEST_HEADER_LEN];
        request[20..].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(RequestHeader::decode(&request).unwrap().payload_len, i32::MAX.unsigned_abs());
        request[20] = 0x80;
        assert_eq!(RequestHeader::decode(&request), Err(NegativeLength { stream_id: StreamId([7, 7]) }));

        assert_eq!(ResponseHeader::decode(&[1, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]).unwrap().body_len, 0x7fff_ffff);
        assert!(ResponseHeader::decode(&[1, 0, 0, 0, 0x80, 0, 0, 0]).is_err());
    }

    #[test]
    fn parameters_are_read_where_they_were_put() {
        let params = Params::default().with::<12, 4>([1, 2, 3, 4]).with::<0, 2>([8, 9]);
        assert_eq!(params.field::<10, 6>(), [0, 0, 1, 2, 3, 4]);
        assert_eq!(params.field::<0, 3>(), [8, 9, 0]);
    }

    #[test]
    fn session_ids_do_not_reach_logs() {
        assert!(!format!("{:?}", SessionId([0x41; 16])).contains('4'));
    }
}
