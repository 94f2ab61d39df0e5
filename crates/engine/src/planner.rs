//! Planning reads: what is on disk, what is on its way, what is to be fetched. Missing blocks are claimed under the lock
//! under which they were found missing.

use crate::{
    cached::CachedFile,
    claims::Fills,
    driver,
    fill::Fill,
    piece::{Piece, bypassed},
};
use forebay_cache::{BlockState, FillId, PlanLimits, plan_read};
use forebay_telemetry::NotKept;
use forebay_types::{ByteRange, Outcome};
use std::{collections::VecDeque, sync::Arc};

/// Blocks that nobody fetches yet, as bytes, and the first of these bytes that somebody wants.
type Missing = (ByteRange, ByteRange);

/// Plans reads of several ranges of `file` and starts the fills they need, under one lock: no block is fetched twice.
pub(crate) fn plan(file: &Arc<CachedFile>, ranges: &[ByteRange]) -> Vec<VecDeque<Piece>> {
    let mut fills = file.claims().fills();
    let started = start_fills(file, &mut fills, ranges);
    ranges.iter().map(|range| pieces(file, &fills, &started, *range)).collect()
}

/// Starts fills for what is missing in any of `ranges`; adjacent blocks share one.
fn start_fills(file: &Arc<CachedFile>, fills: &mut Fills, ranges: &[ByteRange]) -> Vec<FillId> {
    let shared = file.shared();
    if file.kept().is_none() || file.is_retired() || shared.pause.is_on() {
        return Vec::new();
    }
    let mut missing: Vec<Missing> = Vec::new();
    for piece in ranges.iter().flat_map(|range| planned(file, fills, *range)) {
        if let forebay_cache::Piece::Fill { blocks, wanted } = piece {
            missing.push((blocks, wanted));
        }
    }
    missing.sort_by_key(|(blocks, wanted)| (blocks.start(), wanted.start()));
    let mut started = Vec::new();
    for (blocks, wanted) in merged(missing, shared.options.fill_len_max) {
        let block_count = file.geometry().blocks_of(blocks).count() as u64;
        let Some(reservation) = shared.budget.try_reserve(blocks.len()) else {
            shared.metrics.add_not_kept(NotKept::Budget, block_count);
            continue;
        };
        shared.metrics.add_fills_started(block_count);
        let fill = Arc::new(Fill::new(blocks, wanted));
        fills.insert(blocks.start(), Arc::clone(&fill));
        started.push(FillId(blocks.start()));
        tokio::spawn(driver::run(Arc::clone(file), fill, reservation));
    }
    started
}

fn planned(file: &CachedFile, fills: &Fills, range: ByteRange) -> Vec<forebay_cache::Piece> {
    let (geometry, limits) = (file.geometry(), PlanLimits { fill_len_max: file.shared().options.fill_len_max });
    plan_read(range, geometry, limits, |index| {
        // Fills first: a block that its own read's fill has just written is still missed by that read.
        let offset = geometry.range_of(index).start();
        let fill = fills.range(..=offset).next_back().filter(|(_, fill)| fill.blocks().contains(offset));
        match fill {
            Some((start, _)) => BlockState::InFlight(FillId(*start)),
            None if file.kept().is_some_and(|kept| kept.map.is_written(index)) => BlockState::Present,
            None => BlockState::Missing,
        }
    })
}

fn pieces(file: &CachedFile, fills: &Fills, own: &[FillId], range: ByteRange) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    for piece in planned(file, fills, range) {
        match piece {
            forebay_cache::Piece::Hit(range) => pieces.push_back(Piece::Disk(range)),
            forebay_cache::Piece::Join { fill: id, range } => {
                let outcome = if own.contains(&id) { Outcome::Missed } else { Outcome::Coalesced };
                if outcome == Outcome::Coalesced {
                    file.shared().metrics.add_fills_coalesced(file.geometry().blocks_of(range).count() as u64);
                }
                if let Some(fill) = fills.get(&id.0) {
                    pieces.push_back(Piece::Fill { fill: Arc::clone(fill), range, outcome });
                }
            }
            forebay_cache::Piece::Fill { wanted, .. } => pieces.extend(bypassed(wanted)),
        }
    }
    pieces
}

/// Runs of blocks, sorted by start and perhaps overlapping, as fewest fills of at most `len_max` bytes; each with the first
/// bytes that somebody wants of it.
fn merged(missing: Vec<Missing>, len_max: u64) -> Vec<Missing> {
    let mut runs: Vec<Missing> = Vec::new();
    for (blocks, wanted) in missing {
        let Some((last, _)) = runs.last_mut().filter(|(last, _)| blocks.start() <= last.end()) else {
            runs.push((blocks, wanted));
            continue;
        };
        let joined = ByteRange::between(last.start(), blocks.end().max(last.end()));
        let rest = ByteRange::between(last.end(), blocks.end());
        if joined.len() <= len_max {
            *last = joined;
        } else if !rest.is_empty() {
            runs.push((rest, rest));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_and_overlapping_runs_become_one_fill() {
        let run = |start, end| (ByteRange::between(start, end), ByteRange::between(start, end));
        let fills = |missing, len_max| {
            let blocks = merged(missing, len_max).into_iter().map(|(blocks, _)| (blocks.start(), blocks.end()));
            blocks.collect::<Vec<_>>()
        };
        assert_eq!(fills(vec![run(0, 4), run(4, 8), run(6, 10), run(12, 16)], 100), [(0, 10), (12, 16)]);
        assert_eq!(fills(vec![run(0, 4), run(4, 8), run(8, 12)], 8), [(0, 8), (8, 12)]);
        assert_eq!(fills(vec![run(0, 8), run(4, 12)], 8), [(0, 8), (8, 12)]);
    }
}
