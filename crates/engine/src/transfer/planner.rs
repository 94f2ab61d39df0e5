//! Planning reads: what is on disk, what is on its way, what is to be fetched. Missing blocks are claimed under the lock
//! under which they were found missing.

use crate::{
    base::options::BYPASS_LEN_MAX,
    entries::{
        cached_file::CachedFile,
        claims::{Checks, Fills, covering},
        fill::Fill,
    },
    link::{
        admission::{Permit, Purpose},
        memory_budget::Reservation,
    },
    transfer::{block_check, driver},
};
use forebay_cache::{AheadSource, BlockMap, BlockState, CHECK_LEN_MAX, FillId, PlanLimits, plan_read};
use forebay_origin::Chunks;
use forebay_telemetry::{NotKept, NotReadAhead};
use forebay_types::{BlockIndex, ByteRange, Outcome};
use std::{collections::VecDeque, sync::Arc};

/// Blocks that are not being fetched yet, as bytes, and the requested part of them.
type Missing = (ByteRange, ByteRange);

/// Bytes that may be fetched in excess of one request, to make its blocks whole, before they count as a burden.
const SURPLUS_MAX: u64 = 128 << 10;

/// How many times the wanted bytes of a fill its surplus must be to be a burden. Bytes that are fetched and not kept are
/// fetched again by the next reader; below this, the rest of the blocks is cheaper.
const BURDEN_RATIO: u64 = 2;

/// Plans reads of several ranges of `file` and starts the fills they need, under one lock: no block is fetched twice.
pub(crate) fn plan(file: &Arc<CachedFile>, ranges: &[ByteRange]) -> Vec<VecDeque<ReadStep>> {
    plan_with(file, ranges, None)
}

/// Like [`plan`], with `memory` for all blocks of the ranges, if there is any.
pub(crate) fn plan_with(
    file: &Arc<CachedFile>,
    ranges: &[ByteRange],
    memory: Option<Reservation>,
) -> Vec<VecDeque<ReadStep>> {
    // In this order everywhere: fills, then checks.
    let mut fills = file.claims.fills.lock();
    let mut checks = file.claims.checks.lock();
    start_checks(file, &fills, &mut checks, ranges);
    let started = start_fills(file, &mut fills, &checks, ranges, memory);
    ranges.iter().map(|range| pieces(file, &fills, &checks, &started, *range)).collect()
}

/// Starts checks of blocks in any of `ranges` that are on disk and not trusted yet.
fn start_checks(file: &Arc<CachedFile>, fills: &Fills, checks: &mut Checks, ranges: &[ByteRange]) {
    // The common case: every block is trusted, and nothing has to be planned here.
    if !file.stored.as_ref().is_some_and(|stored| stored.map.has_untrusted()) {
        return;
    }
    for range in ranges {
        for piece in planned(file, fills, checks, *range) {
            if let forebay_cache::Piece::Check { blocks, .. } = piece {
                block_check::start(file, checks, blocks);
            }
        }
    }
}

/// The fills that were started for a plan.
#[derive(Default)]
struct Started {
    fills: Vec<FillId>,
    /// Whether no memory was free for more.
    is_short: bool,
}

/// Starts fills for what is missing in any of `ranges`; adjacent blocks share one.
fn start_fills(
    file: &Arc<CachedFile>,
    fills: &mut Fills,
    checks: &Checks,
    ranges: &[ByteRange],
    mut memory: Option<Reservation>,
) -> Started {
    let context = &file.context;
    let mut started = Started::default();
    // Such bytes could not be kept: the read bypasses the cache.
    if file.is_retired() || file.is_disk_paused() {
        return started;
    }
    let mut missing: Vec<Missing> = Vec::new();
    for piece in ranges.iter().flat_map(|range| planned(file, fills, checks, *range)) {
        if let forebay_cache::Piece::Fill { blocks, wanted } = piece {
            missing.push((blocks, wanted));
        }
    }
    // In order of their bytes, so that blocks of neighbouring ranges can be merged.
    missing.sort_by_key(|(blocks, wanted)| (blocks.start(), wanted.start()));
    let is_full = !missing.is_empty() && file.has_no_room();
    let runs = merged(missing, context.options.fill_len_max);
    let surplus: u64 = runs.iter().map(|(blocks, wanted)| surplus_of(*blocks, *wanted)).sum();
    for (blocks, wanted) in runs {
        let block_count = file.geometry.blocks_of(blocks).count() as u64;
        if is_full {
            context.metrics.add_not_kept(NotKept::DiskFull, block_count);
            continue;
        }
        // Such blocks bypass the cache piece by piece.
        if !context.budget.fits(blocks.len()) {
            context.metrics.add_not_kept(NotKept::Budget, block_count);
            continue;
        }
        // Never waits: the claims are locked. Without memory the reader waits when it comes to these bytes: all readers of them
        // still share one fill.
        let reserve = || context.budget.try_reserve(file.read_ahead.link(), blocks.len());
        let Some(reservation) = memory.take().or_else(reserve) else {
            started.is_short = true;
            continue;
        };
        // Judged by the whole request: a single read with little surplus is cheap to complete.
        let is_burden = surplus > SURPLUS_MAX && surplus_of(blocks, wanted) > wanted.len() * BURDEN_RATIO;
        let excess = surplus_of(blocks, wanted);
        let is_paid = excess == 0 || is_paid(file, excess);
        let make = if !is_paid {
            Fill::of_demand
        } else if is_burden {
            Fill::deferring_surplus
        } else {
            Fill::new
        };
        let fill = make(blocks, wanted);
        start_fill(file, fills, fill, reservation, None, Order::of(started.fills.len()));
        started.fills.push(FillId(blocks.start()));
    }
    started
}

/// Whether `surplus` bytes may be fetched: while purges make room, hits have to pay for them.
fn is_paid(file: &CachedFile, surplus: u64) -> bool {
    let context = &file.context;
    context.purge_ledger.surplus.admits(forebay_net::clock::monotonic(), context.saved_bytes(), surplus)
}

/// Bytes of `blocks` that were not requested.
const fn surplus_of(blocks: ByteRange, wanted: ByteRange) -> u64 {
    blocks.len().saturating_sub(wanted.len())
}

/// The place of a fill among those that start together.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Order {
    First,
    Later,
}

impl Order {
    const fn of(started_count: usize) -> Self {
        if started_count == 0 { Self::First } else { Self::Later }
    }
}

/// Starts a fill of blocks that no other fill has; with a `permit` if no reader has requested them yet.
pub(crate) fn start_fill(
    file: &Arc<CachedFile>,
    fills: &mut Fills,
    fill: Fill,
    reservation: Reservation,
    permit: Option<Permit>,
    order: Order,
) -> Arc<Fill> {
    file.context.metrics.add_fills_started(file.geometry.blocks_of(fill.blocks()).count() as u64);
    let fill = Arc::new(fill);
    fills.insert(fill.blocks().start(), Arc::clone(&fill));
    let running = Arc::clone(&file.context.fills_running).try_acquire_owned();
    let driver = driver::run(Arc::clone(file), Arc::clone(&fill), reservation, permit);
    let stop = Arc::clone(&file.context);
    tokio::spawn(async move {
        // The reader comes to the first one first, and a worker would begin with the one that was spawned last.
        if order == Order::Later {
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            () = driver => {}
            () = stop.fills_stopped.wait() => {}
        }
        // After the fill has returned its memory: a shutdown waits for both.
        drop(running);
    });
    fill
}

/// The parts of `range` that are neither here nor under way, in whole blocks, in pieces for one fill each.
pub(crate) fn missing_in(file: &CachedFile, fills: &Fills, checks: &Checks, range: ByteRange) -> Vec<ByteRange> {
    let blocks_to_fetch = |piece| match piece {
        forebay_cache::Piece::Fill { blocks, .. } => Some(blocks),
        _ => None,
    };
    planned(file, fills, checks, range).into_iter().filter_map(blocks_to_fetch).collect()
}

fn planned(file: &CachedFile, fills: &Fills, checks: &Checks, range: ByteRange) -> Vec<forebay_cache::Piece> {
    let fill_len_max = file.context.options.fill_len_max;
    let geometry = file.geometry;
    let admission = PlanLimits { fill_len_max, check_len_max: CHECK_LEN_MAX };
    plan_read(range, geometry, admission, |index| {
        // Fills first: a block that its own read's fill has just written is still missed by that read.
        let offset = geometry.range_of(index).start();
        let fill = fills.range(..=offset).next_back().filter(|(_, fill)| fill.blocks().contains(offset));
        match fill {
            Some((start, _)) => BlockState::InFlight(FillId(*start)),
            // A check has the last word on its blocks: what it finds missing is off the record when it ends, and not before.
            None if covering(checks, offset).is_some() => BlockState::Unchecked,
            None => file.stored.as_ref().map_or(BlockState::Missing, |stored| state_on_disk(&stored.map, index)),
        }
    })
}

fn state_on_disk(map: &BlockMap, index: BlockIndex) -> BlockState {
    if map.is_trusted(index) {
        BlockState::Present
    } else if map.is_written(index) {
        BlockState::Unchecked
    } else {
        BlockState::Missing
    }
}

fn pieces(
    file: &CachedFile,
    fills: &Fills,
    checks: &Checks,
    started: &Started,
    range: ByteRange,
) -> VecDeque<ReadStep> {
    let mut pieces = VecDeque::new();
    for piece in planned(file, fills, checks, range) {
        match piece {
            forebay_cache::Piece::Hit(range) => pieces.push_back(ReadStep::Disk(range)),
            forebay_cache::Piece::Check { wanted, .. } => pieces.push_back(ReadStep::Check(wanted)),
            forebay_cache::Piece::Join { fill: id, range } => {
                let outcome = if started.fills.contains(&id) { Outcome::Missed } else { Outcome::Coalesced };
                if outcome == Outcome::Coalesced {
                    file.context.metrics.add_fills_coalesced(file.geometry.blocks_of(range).count() as u64);
                }
                if let Some(fill) = fills.get(&id.0) {
                    // Now, not when the read comes to it: it may have many such pieces.
                    fill.want(range);
                    pieces.push_back(ReadStep::Fill { fill: Arc::clone(fill), range, outcome });
                }
            }
            forebay_cache::Piece::Fill { wanted, .. } if started.is_short => pieces.push_back(ReadStep::Wait(wanted)),
            forebay_cache::Piece::Fill { wanted, .. } => pieces.extend(bypassed(wanted)),
        }
    }
    pieces
}

/// Runs of blocks, sorted by start and perhaps overlapping, as fewest fills of at most `len_max` bytes; each with what a reader
/// wants of it, and what lies in between.
fn merged(missing: Vec<Missing>, len_max: u64) -> Vec<Missing> {
    let mut runs: Vec<Missing> = Vec::new();
    for (blocks, wanted) in missing {
        let Some((last, last_wanted)) = runs.last_mut().filter(|(last, _)| blocks.start() <= last.end()) else {
            runs.push((blocks, wanted));
            continue;
        };
        let joined = ByteRange::between(last.start(), blocks.end().max(last.end()));
        let rest = ByteRange::between(last.end(), blocks.end());
        if joined.len() <= len_max {
            *last = joined;
            *last_wanted = ByteRange::between(last_wanted.start(), wanted.end().max(last_wanted.end()));
        } else if !rest.is_empty() {
            runs.push((rest, rest));
        }
    }
    runs
}

/// How a part of a read is obtained.
pub(crate) enum ReadStep {
    /// On disk when it was planned.
    Disk(ByteRange),
    /// On disk, and not checked yet when it was planned.
    Check(ByteRange),
    /// By a fill, this read's own or another's.
    Fill { fill: Arc<Fill>, range: ByteRange, outcome: Outcome },
    /// Missing, and not requested: no memory was free for it when it was planned.
    Wait(ByteRange),
    /// Straight from the origin, not kept.
    Bypass(Bypass),
}

/// A range that is asked for without keeping it.
pub(crate) struct Bypass {
    pub(crate) range: ByteRange,
    /// Its bytes and the memory for them, once it is under way.
    pub(crate) stream: Option<(Chunks, Reservation)>,
}

/// Longest range asked for at once while memory is short and the range is not kept. Clients that take their bytes slowly hold so much each.
pub(crate) const BYPASS_LEN_SHORT: u64 = 64 << 10;

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

/// Result of a request to fetch a range ahead.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The fills that were started.
    pub(crate) fills: Vec<Arc<Fill>>,
    /// From where on nothing was started, and why.
    pub(crate) refused: Option<(u64, NotReadAhead)>,
}

/// Starts fills of what is missing in `range`, expected because of `source`, in order, at most `fills_max` of them and as long as they are admitted.
pub(crate) fn fetch(
    file: &Arc<CachedFile>,
    range: ByteRange,
    purpose: Purpose,
    source: AheadSource,
    fills_max: usize,
) -> Fetched {
    let mut fetched = Fetched::default();
    // Bytes that cannot be kept are not fetched ahead: the reader would fetch them again.
    if file.is_retired() || file.keeps_nothing() {
        fetched.refused = Some((range.start(), NotReadAhead::Disk));
        return fetched;
    }
    // Locked across admission and start: no block is claimed twice.
    let mut fills = file.claims.fills.lock();
    let missing = missing_in(file, &fills, &file.claims.checks.lock(), range);
    for blocks in missing.into_iter().take(fills_max) {
        if !fetched.start(file, &mut fills, Fill::new(blocks, blocks), purpose, source) {
            break;
        }
    }
    fetched
}

/// Starts fills of what is missing in `ranges`, in which a reader is expected to read: as [`fetch`]. The rests of blocks that would more
/// than double the bytes are fetched once the reader has come.
pub(crate) fn fetch_expected(file: &Arc<CachedFile>, ranges: &[ByteRange], source: AheadSource) -> Fetched {
    let mut fetched = Fetched::default();
    // As above.
    if file.is_retired() || file.keeps_nothing() {
        fetched.refused = ranges.first().map(|range| (range.start(), NotReadAhead::Disk));
        return fetched;
    }
    let mut fills = file.claims.fills.lock();
    let mut missing: Vec<Missing> = Vec::new();
    {
        let checks = file.claims.checks.lock();
        for piece in ranges.iter().flat_map(|range| planned(file, &fills, &checks, *range)) {
            match piece {
                forebay_cache::Piece::Fill { blocks, wanted } => missing.push((blocks, wanted)),
                // The rest of a block of which another part is under way, or was fetched ahead.
                forebay_cache::Piece::Join { fill: id, range } => {
                    if let Some(fill) = fills.get(&id.0) {
                        fill.want(range);
                    }
                }
                _ => {}
            }
        }
    }
    for (blocks, wanted) in without_overlaps(missing) {
        let expected = Fill::of_expected(blocks, wanted);
        let is_to_defer = surplus_of(blocks, wanted) > wanted.len();
        let fill = if is_to_defer && file.context.admission.may_hold(expected.urgent_len()) {
            expected
        } else {
            Fill::new(blocks, blocks)
        };
        if !fetched.start(file, &mut fills, fill, Purpose::ReadAhead, source) {
            break;
        }
    }
    fetched
}

/// Joins those that have a block in common.
fn without_overlaps(missing: Vec<Missing>) -> Vec<Missing> {
    let mut joined: Vec<Missing> = Vec::new();
    for (blocks, wanted) in missing {
        match joined.last_mut() {
            Some((last, last_wanted)) if blocks.start() < last.end() => {
                *last = ByteRange::between(last.start(), blocks.end().max(last.end()));
                *last_wanted = ByteRange::between(last_wanted.start(), wanted.end().max(last_wanted.end()));
            }
            _ => joined.push((blocks, wanted)),
        }
    }
    joined
}

impl Fetched {
    /// Starts a fill, if it is admitted.
    fn start(
        &mut self,
        file: &Arc<CachedFile>,
        fills: &mut Fills,
        fill: Fill,
        purpose: Purpose,
        source: AheadSource,
    ) -> bool {
        let (context, read_ahead, blocks) = (&file.context, &file.read_ahead, fill.blocks());
        match context.admission.admit(&context.budget, read_ahead.link(), purpose, fill.urgent_len()) {
            Ok((permit, reservation)) => {
                read_ahead.note_fetched(purpose, source, blocks);
                self.fills.push(start_fill(file, fills, fill, reservation, Some(permit), Order::First));
                true
            }
            Err(reason) => {
                // Completions and idle prefetches try again by themselves: their refusals are not counted.
                if purpose == Purpose::ReadAhead {
                    context.metrics.add_not_read_ahead(reason);
                }
                self.refused = Some((blocks.start(), reason));
                false
            }
        }
    }
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
        let joined =
            merged(vec![(ByteRange::at(0, 8), ByteRange::at(2, 1)), (ByteRange::at(8, 8), ByteRange::at(9, 2))], 100);
        assert_eq!(joined, [(ByteRange::at(0, 16), ByteRange::between(2, 11))]);
    }

    #[test]
    fn bypassed_bytes_are_asked_for_in_bounded_pieces() {
        assert_eq!(bypassed(ByteRange::at(5, (1 << 20) + 1)).count(), 2);
        assert_eq!(bypassed(ByteRange::at(5, 0)).count(), 0);
    }
}
