//! Finds the starts of answers in the bytes that are sent.

use forebay_proto::{RESPONSE_HEADER_LEN, ResponseHeader, Status, page};
use std::io::IoSlice;

/// Cuts the bytes that are sent over TLS at the starts of answers, so that each answer starts a record.
///
/// The reference client (5.5.3) decrypts a record when its socket has one, and takes one answer at a time: of an answer that
/// starts in the middle of a record it learns only with the next record, which may never come.
#[derive(Debug, Default)]
pub(crate) struct FrameCutter {
    /// Bytes of the current answer that are still to be sent.
    rest_len: u64,
}

impl FrameCutter {
    /// Cuts `bytes`, which follow those of the last call, and appends the pieces to `slices`. The header of an answer must be
    /// in one piece.
    pub(crate) fn cut<'a>(&mut self, bytes: &'a [u8], slices: &mut Vec<IoSlice<'a>>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.rest_len == 0 {
                // A header that is not whole here cannot be cut: the rest is sent as one piece.
                self.rest_len = frame_len(rest).unwrap_or(rest.len() as u64);
            }
            let len = usize::try_from(self.rest_len).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at(len);
            slices.push(IoSlice::new(piece));
            self.rest_len -= len as u64;
            rest = behind;
        }
    }
}

/// Length of the answer that starts here, including the pages that follow a status frame.
fn frame_len(bytes: &[u8]) -> Option<u64> {
    let (header, body) = bytes.split_first_chunk::<RESPONSE_HEADER_LEN>()?;
    let header = ResponseHeader::decode(header).ok()?;
    let pages_len = match header.status {
        Status::STATUS => {
            let body = body.first_chunk::<{ page::STATUS_BODY_LEN as usize }>()?;
            u64::from(page::StatusFrame::decode(header.stream_id, body).ok()?.data_len)
        }
        _ => 0,
    };
    Some(RESPONSE_HEADER_LEN as u64 + u64::from(header.body_len) + pages_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::{ReplyTo, StreamId};
    use forebay_types::ByteRange;

    fn cut(cutter: &mut FrameCutter, bytes: &[u8]) -> Vec<usize> {
        let mut slices = Vec::new();
        cutter.cut(bytes, &mut slices);
        slices.iter().map(|slice| slice.len()).collect()
    }

    #[test]
    fn each_answer_is_a_piece_however_it_was_appended() {
        let mut bytes = Vec::new();
        let reply = ReplyTo::direct(StreamId([1, 0]));
        reply.ok(&mut bytes);
        reply.ok_with(b"body", &mut bytes);
        reply.header(Status::OK, 100, &mut bytes);
        bytes.extend([7; 60]);
        let mut cutter = FrameCutter::default();
        assert_eq!(cut(&mut cutter, &bytes), [8, 12, 68]);
        let mut rest = vec![7; 40];
        reply.ok(&mut rest);
        assert_eq!(cut(&mut cutter, &rest), [40, 8]);
        // Pages belong to the frame before them.
        let mut bytes = Vec::new();
        let (stream_id, range) = (StreamId([1, 0]), ByteRange::at(0, 5));
        page::StatusFrame::page_read(stream_id, page::FrameKind::Final, range).encode(&mut bytes);
        bytes.extend([9; 9]);
        let frame_len = bytes.len();
        ReplyTo::direct(stream_id).ok(&mut bytes);
        assert_eq!(cut(&mut FrameCutter::default(), &bytes), [frame_len, 8]);
    }
}
