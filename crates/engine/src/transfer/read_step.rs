//! The pieces a read is planned as.

use crate::{entries::fill::Fill, link::memory_budget::Reservation};
use forebay_origin::Chunks;
use forebay_types::{ByteRange, Outcome};
use std::sync::Arc;

/// How a part of a read is obtained.
pub(crate) enum ReadStep {
    /// On disk when it was planned.
    Disk(ByteRange),
    /// On disk, and not checked yet when it was planned.
    Check(ByteRange),
    /// By a fill, this read's own or another's.
    Fill { fill: Arc<Fill>, range: ByteRange, outcome: Outcome },
    /// Straight from the origin, not kept.
    Bypass(Bypass),
}

/// A range that is asked for without keeping it.
pub(crate) struct Bypass {
    pub(crate) range: ByteRange,
    /// Its bytes and the memory for them, once it is under way.
    pub(crate) stream: Option<(Chunks, Reservation)>,
}

/// Longest range asked for at once when it is not kept, in bytes.
const BYPASS_LEN_MAX: u64 = 1 << 20;

impl Bypass {
    pub(crate) const fn new(range: ByteRange) -> Self {
        Self { range, stream: None }
    }
}

/// `wanted` as pieces that are not kept.
pub(crate) fn bypassed(wanted: ByteRange) -> impl Iterator<Item = ReadStep> {
    let mut rest = wanted;
    std::iter::from_fn(move || {
        let piece = rest.clipped_to(rest.start().saturating_add(BYPASS_LEN_MAX));
        rest = ByteRange::between(piece.end(), rest.end());
        (!piece.is_empty()).then(|| ReadStep::Bypass(Bypass::new(piece)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bypassed_bytes_are_asked_for_in_bounded_pieces() {
        assert_eq!(bypassed(ByteRange::at(5, (1 << 20) + 1)).count(), 2);
        assert_eq!(bypassed(ByteRange::at(5, 0)).count(), 0);
    }
}
