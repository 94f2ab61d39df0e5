//! Frames: a header of 8 bytes and up to 16 KiB of data.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Length of the header of a frame.
pub const HEADER_LEN: usize = 8;

/// Longest data of a frame. Stock managers (5.5.3 to 6.2.1) close the connection beyond it.
pub const DATA_LEN_MAX: usize = 16_384;

/// One message, as it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// In questions a number that answers repeat; otherwise mostly 0.
    pub stream: u32,
    pub code: u8,
    pub modifier: u8,
    pub data: Bytes,
}

/// A frame that no manager sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a message of {len} bytes with code {code}; at most {DATA_LEN_MAX} are allowed")]
pub struct FrameError {
    code: u8,
    len: usize,
}

/// Received bytes, cut into frames.
#[derive(Debug, Default)]
pub struct Frames {
    received: BytesMut,
}

impl Frame {
    /// A frame without data.
    #[must_use]
    pub fn empty(code: u8, modifier: u8) -> Self {
        Self { stream: 0, code, modifier, data: Bytes::new() }
    }

    /// Appends the frame to `out`, or nothing if its data is too long; returns whether it fits.
    #[must_use]
    pub fn encode(&self, out: &mut BytesMut) -> bool {
        let Some(len) = u16::try_from(self.data.len()).ok().filter(|&len| usize::from(len) <= DATA_LEN_MAX) else {
            return false;
        };
        out.put_u32(self.stream);
        out.put_u8(self.code);
        out.put_u8(self.modifier);
        out.put_u16(len);
        out.put_slice(&self.data);
        true
    }
}

impl Frames {
    /// Takes in received bytes.
    pub fn handle(&mut self, received: &[u8]) {
        self.received.extend_from_slice(received);
    }

    /// The next complete frame, if it has arrived.
    ///
    /// # Errors
    /// If its data is longer than [`DATA_LEN_MAX`]. The rest of the connection is unusable.
    pub fn poll(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(mut header) = self.received.get(..HEADER_LEN) else { return Ok(None) };
        let (stream, code, modifier) = (header.get_u32(), header.get_u8(), header.get_u8());
        let len = usize::from(header.get_u16());
        if len > DATA_LEN_MAX {
            return Err(FrameError { code, len });
        }
        if self.received.len() < HEADER_LEN.saturating_add(len) {
            return Ok(None);
        }
        self.received.advance(HEADER_LEN);
        let data = self.received.split_to(len).freeze();
        Ok(Some(Frame { stream, code, modifier, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(len: usize) -> Frame {
        Frame { stream: 7, code: 20, modifier: 0x20, data: vec![b'x'; len].into() }
    }

    #[test]
    fn data_has_a_limit_in_both_directions() {
        let mut out = BytesMut::new();
        assert!(frame(DATA_LEN_MAX).encode(&mut out));
        assert!(!frame(DATA_LEN_MAX + 1).encode(&mut out));
        let mut frames = Frames::default();
        frames.handle(&out);
        assert_eq!(frames.poll(), Ok(Some(frame(DATA_LEN_MAX))));
        frames.handle(&[0, 0, 0, 0, 20, 0, 0x40, 1]);
        assert_eq!(frames.poll(), Err(FrameError { code: 20, len: DATA_LEN_MAX + 1 }));
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(lens in prop::collection::vec(0..64_usize, 1..6), cut in 1..32_usize) {
            let mut out = BytesMut::new();
            let sent: Vec<_> = lens.into_iter().map(frame).collect();
            for frame in &sent {
                prop_assert!(frame.encode(&mut out));
            }
            let (mut frames, mut received) = (Frames::default(), Vec::new());
            for piece in out.chunks(cut) {
                frames.handle(piece);
                while let Some(frame) = frames.poll().unwrap() {
                    received.push(frame);
                }
            }
            prop_assert_eq!(received, sent);
        }
    }
}
