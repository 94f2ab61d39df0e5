//! One direction of a path: a buffer before a line of a certain rate, then the way itself.

use super::random::Random;
use std::time::{Duration, Instant};

/// Delay, rate, loss and buffer of one direction of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkShape {
    /// Time that a packet is on its way once it has left the line.
    pub(super) delay: Duration,
    /// Most that a packet's delay is shorter or longer than that.
    pub(super) jitter: Duration,
    /// Bytes per second that the line carries, frames included; at least 1.
    pub(super) bytes_per_s: u64,
    /// Bytes that may wait before the line; a packet that finds more there is dropped.
    pub(super) buffer_bytes: u64,
    /// The share of packets that is lost on the way, from 0 to 1.
    pub(super) loss: f64,
}

/// One direction of a path. Knows when the packets that are put into it come out.
#[derive(Debug)]
pub(super) struct Link {
    shape: LinkShape,
    /// When the line has sent all that was put into it.
    free_at: Instant,
    /// When the last packet comes out; none overtakes another.
    last_out: Instant,
    random: Random,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It comes out then.
    Out(Instant),
    /// There was no room for it before the line.
    Dropped,
    /// It was sent, and does not arrive.
    Lost,
}

/// Length of the header that stands before each packet where pieces may be long: `struct virtio_net_hdr`.
pub(super) const VIRTIO_HEADER_LEN: usize = 10;

/// Bytes of a frame around a packet: Ethernet header, checksum, preamble and gap.
const FRAME_OVERHEAD: u64 = 38;

/// Data that one TCP segment carries, and the bytes of the line that it takes: 1500 bytes of packet, of which 20 are for IP,
/// 20 for TCP and 12 for its timestamps.
pub(super) const SEGMENT_DATA_LEN: u64 = 1_448;
pub(super) const SEGMENT_LINE_LEN: u64 = 1_500 + FRAME_OVERHEAD;

const NANOS_PER_S: u128 = 1_000_000_000;

/// Chances are parts of this.
const WHOLE: u64 = 1 << 32;

impl LinkShape {
    /// As long, and nothing else.
    pub(super) const fn delay_only(self) -> Self {
        Self { jitter: Duration::ZERO, bytes_per_s: u64::MAX, loss: 0.0, ..self }
    }
}

impl Link {
    /// The same `seed` loses the same packets.
    pub(super) const fn new(shape: LinkShape, seed: u64, now: Instant) -> Self {
        Self { shape, free_at: now, last_out: now, random: Random::new(seed) }
    }

    /// Puts in a packet that takes `line_len` bytes of the line.
    pub(super) fn put(&mut self, line_len: u64, now: Instant) -> Fate {
        let start = self.free_at.max(now);
        if start - now > self.time_of(self.shape.buffer_bytes) {
            return Fate::Dropped;
        }
        self.free_at = start + self.time_of(line_len);
        if self.loses_one() {
            return Fate::Lost;
        }
        let out = self.free_at + self.delay_of_one();
        self.last_out = self.last_out.max(out);
        Fate::Out(self.last_out)
    }

    #[expect(clippy::cast_precision_loss, reason = "32 bits fit into a float")]
    fn loses_one(&mut self) -> bool {
        self.shape.loss > 0.0 && (self.random.below(WHOLE - 1) as f64) < self.shape.loss * WHOLE as f64
    }

    fn delay_of_one(&mut self) -> Duration {
        let jitter = self.shape.jitter.min(self.shape.delay);
        let nanos = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX).min(WHOLE / 4);
        self.shape.delay - jitter + Duration::from_nanos(self.random.below(2 * nanos + 1))
    }

    /// How long the line takes to send `bytes`.
    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_S / u128::from(self.shape.bytes_per_s.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Bytes of the line that a plain packet of `len` bytes takes.
pub(super) const fn plain_line_len(len: u64) -> u64 {
    len + FRAME_OVERHEAD
}

/// Bytes of the line that a packet with its virtio header takes: a piece of many TCP segments is cut into frames, each with
/// headers of its own.
pub(super) fn piece_line_len(packet: &[u8]) -> u64 {
    let field =
        |at| packet.get(at..).and_then(|field| field.first_chunk()).map_or(0, |field| u16::from_le_bytes(*field));
    let (headers_len, segment_len) = (u64::from(field(2)), u64::from(field(4)));
    let len = u64::try_from(packet.len().saturating_sub(VIRTIO_HEADER_LEN)).unwrap_or(u64::MAX);
    if segment_len == 0 {
        return plain_line_len(len);
    }
    let frames = len.saturating_sub(headers_len).div_ceil(segment_len).max(1);
    len + (frames - 1) * headers_len + frames * FRAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::clock;

    /// A thousand bytes per second, a second long.
    const SHAPE: LinkShape = LinkShape {
        delay: Duration::from_secs(1),
        jitter: Duration::ZERO,
        bytes_per_s: 1_000,
        buffer_bytes: 2_000,
        loss: 0.0,
    };

    #[test]
    fn a_packet_takes_its_turn_on_the_line_and_then_the_way() {
        let now = clock::monotonic();
        let mut link = Link::new(SHAPE, 1, now);
        assert_eq!(link.put(500, now), Fate::Out(now + Duration::from_millis(1_500)));
        assert_eq!(link.put(500, now), Fate::Out(now + Duration::from_millis(2_000)));
        let later = now + Duration::from_secs(10);
        assert_eq!(link.put(500, later), Fate::Out(later + Duration::from_millis(1_500)));
    }

    #[test]
    fn what_finds_the_buffer_full_is_dropped() {
        let now = clock::monotonic();
        let mut link = Link::new(SHAPE, 1, now);
        assert!(matches!(link.put(2_001, now), Fate::Out(_)));
        assert_eq!(link.put(1, now), Fate::Dropped);
        let later = now + Duration::from_millis(1);
        assert!(matches!(link.put(1, later), Fate::Out(_)), "as soon as there is room again");
    }

    #[test]
    fn a_steady_stream_comes_out_at_the_rate_of_the_line() {
        // A millisecond per packet, offered twice as fast: what does not fit is dropped, the rest leaves no gap.
        let shape = LinkShape { bytes_per_s: 1_538_000, buffer_bytes: 153_800, ..SHAPE };
        let start = clock::monotonic();
        let mut link = Link::new(shape, 1, start);
        let mut outs = Vec::new();
        for index in 0..20_000_u32 {
            if let Fate::Out(out) = link.put(1_538, start + Duration::from_micros(500) * index) {
                outs.push(out);
            }
        }
        assert_eq!(outs.first(), Some(&(start + Duration::from_millis(1_001))));
        assert!(outs.windows(2).all(|pair| pair[1] - pair[0] == Duration::from_millis(1)), "a packet each millisecond");
        assert_eq!(outs.len(), 10_100, "what the line carries in ten seconds, and what waits then");
    }

    #[test]
    fn losses_are_those_of_the_seed_and_as_many_as_asked_for() {
        let now = clock::monotonic();
        let lost = |loss, seed| {
            let mut link =
                Link::new(LinkShape { loss, bytes_per_s: u64::MAX, buffer_bytes: u64::MAX, ..SHAPE }, seed, now);
            (0..100_000).filter(|_| link.put(1_538, now) == Fate::Lost).collect::<Vec<u32>>()
        };
        assert_eq!(lost(0.01, 7), lost(0.01, 7));
        assert_ne!(lost(0.01, 7), lost(0.01, 8));
        assert!((950..1_050).contains(&lost(0.01, 7).len()));
        assert_eq!((lost(0.0, 7).len(), lost(1.0, 7).len()), (0, 100_000));
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_keeps_the_order() {
        let start = clock::monotonic();
        let jitter = Duration::from_millis(20);
        let mut link = Link::new(LinkShape { jitter, bytes_per_s: u64::MAX, ..SHAPE }, 3, start);
        let mut last = start;
        let (mut shortest, mut longest) = (Duration::MAX, Duration::ZERO);
        for index in 0..10_000 {
            let now = start + Duration::from_millis(index * 50);
            let Fate::Out(out) = link.put(100, now) else { panic!("nothing is lost here") };
            assert!(out >= last);
            last = out;
            (shortest, longest) = (shortest.min(out - now), longest.max(out - now));
        }
        assert!(shortest >= SHAPE.delay - jitter && shortest < SHAPE.delay - jitter / 10 * 9, "{shortest:?}");
        assert!(longest <= SHAPE.delay + jitter && longest > SHAPE.delay + jitter / 10 * 9, "{longest:?}");
    }

    #[test]
    fn each_segment_of_a_piece_has_headers_of_its_own() {
        let mut packet = vec![0; VIRTIO_HEADER_LEN + 52 + 3_000];
        assert_eq!(piece_line_len(&packet), 52 + 3_000 + 38);
        packet[2] = 52;
        packet[4..6].copy_from_slice(&1_448_u16.to_le_bytes());
        assert_eq!(piece_line_len(&packet), 3_000 + 3 * (52 + 38));
        assert_eq!(plain_line_len(1_500), SEGMENT_LINE_LEN);
    }
}
