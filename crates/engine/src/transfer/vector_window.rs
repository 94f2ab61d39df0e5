//! Reads of one request, which share the window in which they are planned ahead.
//!
//! A vector of many elements keeps the way to its origin as busy as one long read does: while one of its reads is delivered, those
//! after it are planned.

use crate::{
    entries::cached_file::CachedFile,
    transfer::planner::{ReadStep, plan},
};
use forebay_types::ByteRange;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// The reads of one request, delivered in their order.
pub(crate) struct VectorWindow {
    ranges: Vec<ByteRange>,
    state: Mutex<State>,
}

/// The plan of one read, from its start on.
pub(crate) struct Planned {
    pub(crate) pieces: VecDeque<ReadStep>,
    /// The plan reaches up to this offset of the file.
    pub(crate) end: u64,
}

#[derive(Default)]
struct State {
    /// Of reads that have not begun, by their position.
    planned: VecDeque<(usize, Planned)>,
    /// The first read of which nothing is planned.
    next: usize,
    /// Bytes planned of reads that have not begun.
    bytes: u64,
}

impl VectorWindow {
    pub(crate) fn start(file: &Arc<CachedFile>, ranges: &[ByteRange]) -> Arc<Self> {
        let vector = Self { ranges: ranges.to_vec(), state: Mutex::default() };
        vector.plan_ahead(file, 0);
        Arc::new(vector)
    }

    /// The plan of the read at `position`, which begins.
    pub(crate) fn begin(&self, position: usize) -> Option<Planned> {
        let mut state = self.state.lock();
        while let Some((planned_position, _)) = state.planned.front() {
            // It belongs to a later read, which has not begun.
            if *planned_position > position {
                break;
            }
            let (planned_position, planned) = state.planned.pop_front()?;
            state.bytes -= planned.end - self.start_of(planned_position);
            if planned_position == position {
                return Some(planned);
            }
        }
        // The read plans itself from now on: it must not be planned here as well.
        state.next = state.next.max(position + 1);
        None
    }

    /// Plans reads that have not begun, when less than half of the window is planned: of the read that is delivered these are
    /// `bytes_before`.
    pub(crate) fn plan_ahead(&self, file: &Arc<CachedFile>, bytes_before: u64) {
        let window = file.context.options.read_window;
        let mut state = self.state.lock();
        let ahead = bytes_before.saturating_add(state.bytes);
        // Refilled at half of the window, so that several reads are planned together.
        if state.next >= self.ranges.len() || ahead > window / 2 {
            return;
        }
        let parts = fitting(self.ranges.get(state.next..).unwrap_or_default(), window - ahead);
        for (part, pieces) in parts.iter().zip(plan(file, &parts)) {
            let position = state.next;
            state.planned.push_back((position, Planned { pieces, end: part.end() }));
            (state.next, state.bytes) = (position + 1, state.bytes + part.len());
        }
    }

    fn start_of(&self, position: usize) -> u64 {
        self.ranges.get(position).map_or(0, |range| range.start())
    }
}

/// As many of `ranges` as have room for all of their bytes, and at least a part of the first.
fn fitting(ranges: &[ByteRange], room: u64) -> Vec<ByteRange> {
    let Some(first) = ranges.first() else { return Vec::new() };
    let mut left = room;
    let whole = ranges.iter().take_while(|range| {
        let fits = range.len() <= left;
        left = left.saturating_sub(range.len());
        fits
    });
    let whole: Vec<ByteRange> = whole.copied().collect();
    if whole.is_empty() { vec![first.clipped_to(first.start().saturating_add(room))] } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ranges_are_taken_and_a_part_of_one_that_is_too_long() {
        let ranges = [ByteRange::at(0, 4), ByteRange::at(10, 0), ByteRange::at(20, 6), ByteRange::at(30, 1)];
        assert_eq!(fitting(&ranges, 10), ranges[..3]);
        assert_eq!(fitting(&ranges, 9), ranges[..2]);
        assert_eq!(fitting(&ranges, 3), [ByteRange::at(0, 3)]);
        assert_eq!(fitting(&[], 3), []);
    }
}
