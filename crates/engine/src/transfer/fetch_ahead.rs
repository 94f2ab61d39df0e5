//! Starting fills that no reader waits for yet.

use crate::{
    entries::{cached_file::CachedFile, fill::Fill},
    link::admission::Purpose,
    transfer::planner::{missing_in, start_fill},
};
use forebay_telemetry::NotReadAhead;
use forebay_types::ByteRange;
use std::sync::Arc;

/// Result of a request to fetch a range ahead.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The fills that were started.
    pub(crate) fills: Vec<Arc<Fill>>,
    /// From where on nothing was started, and why.
    pub(crate) refused: Option<(u64, NotReadAhead)>,
}

/// Starts fills of what is missing in `range`, in order, at most `fills_max` of them and as long as they are admitted.
pub(crate) fn fetch(file: &Arc<CachedFile>, range: ByteRange, purpose: Purpose, fills_max: usize) -> Fetched {
    let context = &file.context;
    let mut fetched = Fetched::default();
    // Bytes that cannot be kept are not fetched ahead: the reader would fetch them again.
    if file.is_retired() || file.is_disk_paused() {
        fetched.refused = Some((range.start(), NotReadAhead::Disk));
        return fetched;
    }
    let read_ahead = &file.read_ahead;
    // Locked across admission and start: no block is claimed twice.
    let mut fills = file.claims.fills.lock();
    let missing = missing_in(file, &fills, &file.claims.checks.lock(), range);
    for blocks in missing.into_iter().take(fills_max) {
        match context.admission.admit(&context.budget, read_ahead.link(), purpose, blocks.len()) {
            Ok((permit, reservation)) => {
                read_ahead.note_fetched(purpose, blocks);
                fetched.fills.push(start_fill(file, &mut fills, Fill::new(blocks, blocks), reservation, Some(permit)));
            }
            Err(reason) => {
                // Completions and idle prefetches try again by themselves: their refusals are not counted.
                if purpose == Purpose::ReadAhead {
                    context.metrics.add_not_read_ahead(reason);
                }
                fetched.refused = Some((blocks.start(), reason));
                break;
            }
        }
    }
    fetched
}
