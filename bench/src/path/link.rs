//! One direction of a long path: a queue before a line of a certain rate, then the way itself.

use std::time::{Duration, Instant};

/// What one direction of a path is like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LinkShape {
    /// Time that a packet is on its way once it has left the line.
    pub(crate) delay: Duration,
    /// Bytes per second that the line carries, frames included; at least 1.
    pub(crate) bytes_per_s: u64,
    /// Bytes that may wait before the line; a packet that finds more there is lost.
    pub(crate) queue_bytes_max: u64,
}

/// One direction of a path. Knows when the packets that are put into it come out.
#[derive(Debug)]
pub(crate) struct Link {
    shape: LinkShape,
    /// When the line has sent all that was put into it.
    free_at: Instant,
}

/// Length of the header that stands before each packet: `struct virtio_net_hdr`.
pub(crate) const VIRTIO_HEADER_LEN: usize = 10;

/// Bytes of a frame around a packet: Ethernet header, checksum, preamble and gap.
const FRAME_OVERHEAD: u64 = 38;

const NANOS_PER_S: u128 = 1_000_000_000;

impl Link {
    pub(crate) const fn new(shape: LinkShape, now: Instant) -> Self {
        Self { shape, free_at: now }
    }

    /// Puts in a packet that takes `line_len` bytes of the line; when it comes out, or `None` when it is lost.
    pub(crate) fn put(&mut self, line_len: u64, now: Instant) -> Option<Instant> {
        let start = self.free_at.max(now);
        if start - now > self.time_of(self.shape.queue_bytes_max) {
            return None;
        }
        self.free_at = start + self.time_of(line_len);
        Some(self.free_at + self.shape.delay)
    }

    /// How long the line takes to send `bytes`.
    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_S / u128::from(self.shape.bytes_per_s.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Bytes of the line that a packet with its virtio header takes: a piece of many TCP segments is cut into frames, each with
/// headers of its own.
pub(crate) fn line_len(packet: &[u8]) -> u64 {
    let field =
        |at| packet.get(at..).and_then(|field| field.first_chunk()).map_or(0, |field| u16::from_le_bytes(*field));
    let (headers_len, segment_len) = (u64::from(field(2)), u64::from(field(4)));
    let len = u64::try_from(packet.len().saturating_sub(VIRTIO_HEADER_LEN)).unwrap_or(u64::MAX);
    if segment_len == 0 {
        return len + FRAME_OVERHEAD;
    }
    let frames = len.saturating_sub(headers_len).div_ceil(segment_len).max(1);
    len + (frames - 1) * headers_len + frames * FRAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::clock;

    /// A thousand bytes per second, a second long.
    const SHAPE: LinkShape = LinkShape { delay: Duration::from_secs(1), bytes_per_s: 1_000, queue_bytes_max: 2_000 };

    #[test]
    fn a_packet_takes_its_turn_on_the_line_and_then_the_way() {
        let now = clock::monotonic();
        let mut link = Link::new(SHAPE, now);
        assert_eq!(link.put(500, now), Some(now + Duration::from_millis(1_500)));
        assert_eq!(link.put(500, now), Some(now + Duration::from_millis(2_000)));
        let later = now + Duration::from_secs(10);
        assert_eq!(link.put(500, later), Some(later + Duration::from_millis(1_500)));
    }

    #[test]
    fn what_finds_the_queue_full_is_lost() {
        let now = clock::monotonic();
        let mut link = Link::new(SHAPE, now);
        assert!(link.put(2_001, now).is_some());
        assert_eq!(link.put(1, now), None);
        assert!(link.put(1, now + Duration::from_millis(1)).is_some(), "as soon as there is room again");
    }

    #[test]
    fn each_segment_of_a_piece_has_headers_of_its_own() {
        let mut packet = vec![0; VIRTIO_HEADER_LEN + 52 + 3_000];
        assert_eq!(line_len(&packet), 52 + 3_000 + 38);
        packet[2] = 52;
        packet[4..6].copy_from_slice(&1_448_u16.to_le_bytes());
        assert_eq!(line_len(&packet), 3_000 + 3 * (52 + 38));
    }
}
