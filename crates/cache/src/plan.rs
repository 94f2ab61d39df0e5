//! Planning a read: which bytes are present, which are on their way, which are to be fetched.

use crate::Geometry;
use forebay_types::{BlockIndex, ByteRange};

/// Most bytes one fill fetches unless configured otherwise: large enough that the round trip costs little.
pub const FILL_LEN_MAX: u64 = 4 << 20;

/// Names a fill in flight, within one file.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FillId(pub u64);

/// Where a block is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockState {
    /// In the data file.
    Present,
    /// Being fetched by this fill.
    InFlight(FillId),
    /// At the origin only.
    Missing,
}

/// A part of a read, and how to get it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece {
    /// These bytes are in the data file.
    Hit(ByteRange),
    /// These bytes come with a fill in flight.
    Join {
        /// The fill to wait on.
        fill: FillId,
        /// The bytes this read wants of it.
        range: ByteRange,
    },
    /// These bytes need a new fill.
    Fill {
        /// The whole blocks to fetch.
        blocks: ByteRange,
        /// The bytes this read wants of them.
        wanted: ByteRange,
    },
}

/// Bounds of a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlanLimits {
    /// Most bytes of one fill; a fill has at least one block, however large.
    pub fill_len_max: u64,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { fill_len_max: FILL_LEN_MAX }
    }
}

impl Piece {
    /// The bytes of the read that this piece answers.
    #[must_use]
    pub const fn wanted(self) -> ByteRange {
        match self {
            Self::Hit(range) | Self::Join { range, .. } | Self::Fill { wanted: range, .. } => range,
        }
    }

    /// This piece and the one right behind it as one piece, or `None` when they must stay apart.
    fn merged(self, next: Self, limits: PlanLimits) -> Option<Self> {
        match (self, next) {
            (Self::Hit(a), Self::Hit(b)) => Some(Self::Hit(joined(a, b))),
            (Self::Join { fill, range: a }, Self::Join { fill: other, range: b }) if fill == other => {
                Some(Self::Join { fill, range: joined(a, b) })
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

/// Divides a read of `range` into pieces: in order, without gap or overlap, as few as the limits allow. Bytes behind the
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
