//! Planning a read: which bytes are present, which are on their way, which are to be fetched.

use crate::Geometry;
use forebay_types::{BlockIndex, ByteRange};

/// Most bytes one fill fetches by default: large enough that the round trip costs little.
pub const FILL_LEN_MAX: u64 = 4 << 20;

/// Most bytes of one check of blocks on disk: reading them costs a disk a few milliseconds, which is what a reader waits.
pub const CHECK_LEN_MAX: u64 = 1 << 20;

/// Names a fill in flight, within one file.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FillId(pub u64);

/// Where a block is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockState {
    Present,
    /// In the data file, to be checked before anybody gets it.
    Unchecked,
    InFlight(FillId),
    Missing,
}

/// A part of a read, and how to get it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece {
    Hit(ByteRange),
    /// These bytes are in the data file, when a check finds them whole.
    Check {
        /// The whole blocks to check.
        blocks: ByteRange,
        wanted: ByteRange,
    },
    /// These bytes come with a fill in flight.
    Join {
        fill: FillId,
        range: ByteRange,
    },
    Fill {
        /// The whole blocks to fetch.
        blocks: ByteRange,
        wanted: ByteRange,
    },
}

/// Bounds of a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlanLimits {
    /// Most bytes of one fill; a fill has at least one block, however large.
    pub fill_len_max: u64,
    /// Most bytes of one check; likewise.
    pub check_len_max: u64,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { fill_len_max: FILL_LEN_MAX, check_len_max: CHECK_LEN_MAX }
    }
}

impl Piece {
    /// The bytes of the read that this piece answers.
    pub const fn wanted(self) -> ByteRange {
        match self {
            Self::Hit(range)
            | Self::Join { range, .. }
            | Self::Check { wanted: range, .. }
            | Self::Fill { wanted: range, .. } => range,
        }
    }

    /// This piece and the one right after it as one piece, or `None` when they must stay apart.
    fn merged(self, next: Self, limits: PlanLimits) -> Option<Self> {
        match (self, next) {
            (Self::Hit(a), Self::Hit(b)) => Some(Self::Hit(joined(a, b))),
            (Self::Join { fill, range: a }, Self::Join { fill: other, range: b }) if fill == other => {
                Some(Self::Join { fill, range: joined(a, b) })
            }
            (Self::Check { blocks: a, wanted }, Self::Check { blocks: b, wanted: more })
                if joined(a, b).len() <= limits.check_len_max =>
            {
                Some(Self::Check { blocks: joined(a, b), wanted: joined(wanted, more) })
            }
            (Self::Fill { blocks: a, wanted }, Self::Fill { blocks: b, wanted: more })
                if joined(a, b).len() <= limits.fill_len_max =>
            {
                Some(Self::Fill { blocks: joined(a, b), wanted: joined(wanted, more) })
            }
            _ => None,
        }
    }
}

/// Divides a read of `range` into pieces: in order, without gap or overlap, as few as the limits allow. Bytes after the
/// end of the file are left out.
///
/// `state` is asked once for each block, in order. When it looks into a fill table, the caller holds that table's lock
/// over the call and registers the planned fills before it lets go, so that no two reads fetch one block.
pub fn plan_read(
    range: ByteRange,
    geometry: Geometry,
    limits: PlanLimits,
    mut state: impl FnMut(BlockIndex) -> BlockState,
) -> Vec<Piece> {
    let range = range.clipped_to(geometry.file_size());
    let mut pieces: Vec<Piece> = Vec::new();
    for index in geometry.blocks_of(range).map(BlockIndex) {
        let block = geometry.range_of(index);
        let wanted = block.intersection(range).expect("blocks_of names blocks that share bytes with the range");
        let piece = match state(index) {
            BlockState::Present => Piece::Hit(wanted),
            BlockState::Unchecked => Piece::Check { blocks: block, wanted },
            BlockState::InFlight(fill) => Piece::Join { fill, range: wanted },
            BlockState::Missing => Piece::Fill { blocks: block, wanted },
        };
        match pieces.last_mut().and_then(|last| last.merged(piece, limits).map(|merged| (last, merged))) {
            Some((last, merged)) => *last = merged,
            None => pieces.push(piece),
        }
    }
    pieces
}

/// The range from the start of `a` to the end of `b`.
const fn joined(a: ByteRange, b: ByteRange) -> ByteRange {
    ByteRange::between(a.start(), b.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE_SIZE: u64 = 1995;

    /// One letter for each block of 10 bytes: `x` present, `?` unchecked, `.` missing, a digit names the fill in flight. Checks
    /// take 20 bytes.
    fn plan(blocks: &str, range: ByteRange, fill_len_max: u64) -> Vec<Piece> {
        let geometry = Geometry::new(10, FILE_SIZE).unwrap();
        plan_read(range, geometry, PlanLimits { fill_len_max, check_len_max: 20 }, |index| {
            match blocks.as_bytes()[usize::try_from(index.0).unwrap()] {
                b'x' => BlockState::Present,
                b'?' => BlockState::Unchecked,
                b'.' => BlockState::Missing,
                digit => BlockState::InFlight(FillId(u64::from(digit - b'0'))),
            }
        })
    }

    fn hit(start: u64, end: u64) -> Piece {
        Piece::Hit(ByteRange::between(start, end))
    }

    fn join(fill: u64, start: u64, end: u64) -> Piece {
        Piece::Join { fill: FillId(fill), range: ByteRange::between(start, end) }
    }

    fn fill(blocks: (u64, u64), wanted: (u64, u64)) -> Piece {
        Piece::Fill { blocks: ByteRange::between(blocks.0, blocks.1), wanted: ByteRange::between(wanted.0, wanted.1) }
    }

    #[test]
    fn adjacent_blocks_of_one_state_are_one_piece() {
        let pieces = plan("xx..112x", ByteRange::between(3, 77), FILL_LEN_MAX);
        assert_eq!(pieces, [hit(3, 20), fill((20, 40), (20, 40)), join(1, 40, 60), join(2, 60, 70), hit(70, 77)]);
    }

    #[test]
    fn fills_take_whole_blocks_and_keep_the_wanted_range() {
        assert_eq!(plan("..", ByteRange::between(3, 4), FILL_LEN_MAX), [fill((0, 10), (3, 4))]);
        assert_eq!(plan("...", ByteRange::between(9, 21), FILL_LEN_MAX), [fill((0, 30), (9, 21))]);
    }

    #[test]
    fn unchecked_blocks_are_checked_whole_and_a_few_at_a_time() {
        let check = |blocks: (u64, u64), wanted: (u64, u64)| Piece::Check {
            blocks: ByteRange::between(blocks.0, blocks.1),
            wanted: ByteRange::between(wanted.0, wanted.1),
        };
        let pieces = plan("x???.", ByteRange::between(3, 45), FILL_LEN_MAX);
        assert_eq!(
            pieces,
            [hit(3, 10), check((10, 30), (10, 30)), check((30, 40), (30, 40)), fill((40, 50), (40, 45))]
        );
        assert_eq!(plan("?", ByteRange::between(3, 4), FILL_LEN_MAX), [check((0, 10), (3, 4))]);
    }

    #[test]
    fn fills_end_at_the_limit_and_have_one_block_at_least() {
        let range = ByteRange::between(0, 50);
        let apart = [fill((0, 20), (0, 20)), fill((20, 40), (20, 40)), fill((40, 50), (40, 50))];
        assert_eq!(plan(".....", range, 20), apart);
        assert_eq!(plan(".....", range, 29), apart);
        assert_eq!(plan(".....", range, 30).len(), 2);
        assert_eq!(plan(".....", range, 0).len(), 5);
    }

    #[test]
    fn reads_end_with_the_file() {
        let blocks = ".".repeat(200);
        let last = fill((1990, 1995), (1992, 1995));
        assert_eq!(plan(&blocks, ByteRange::at(1992, 5000), FILL_LEN_MAX), [last]);
        assert_eq!(plan(&blocks, ByteRange::at(1995, 10), FILL_LEN_MAX), []);
        assert_eq!(plan(&blocks, ByteRange::at(100, 0), FILL_LEN_MAX), []);
        let geometry = Geometry::new(10, 0).unwrap();
        let pieces = plan_read(ByteRange::at(0, 10), geometry, PlanLimits::default(), |_| BlockState::Missing);
        assert_eq!(pieces, []);
    }

    proptest! {
        #[test]
        fn pieces_cover_the_read_once_and_in_order(
            blocks in "[x?.12]{200}",
            start in 0_u64..2500,
            len in 0_u64..2500,
            fill_len_max in 0_u64..200,
        ) {
            let range = ByteRange::at(start, len);
            let pieces = plan(&blocks, range, fill_len_max);
            let mut at = start.min(FILE_SIZE);
            for piece in &pieces {
                prop_assert_eq!(piece.wanted().start(), at);
                prop_assert!(!piece.wanted().is_empty());
                at = piece.wanted().end();
                if let Piece::Fill { blocks, wanted } = *piece {
                    prop_assert_eq!(blocks.intersection(wanted), Some(wanted));
                    prop_assert!(blocks.start() % 10 == 0 && (blocks.end() % 10 == 0 || blocks.end() == FILE_SIZE));
                    prop_assert!(blocks.len() <= fill_len_max.max(10));
                }
            }
            prop_assert_eq!(at, range.clipped_to(FILE_SIZE).end());
        }
    }
}
