//! A file of an origin that is open, and what the cache holds of it.

use crate::{
    Error, Segment,
    account::{Account, Bytes},
    budget::Budget,
    coalesced::Coalesced,
    fill::{self, Fill},
    read::{Bypass, Piece},
    routes::OriginTarget,
    shared::Shared,
};
use forebay_cache::{BlockMap, BlockState, CacheKey, Cinfo, FillId, Geometry, PlanLimits, plan_read};
use forebay_origin::{FileIdentity, OriginError, OriginFile};
use forebay_store::{DataFile, Entry, OriginMark};
use forebay_telemetry::{DiskOperation, DropReason, NotKept};
use forebay_types::{ByteRange, Endpoint, FileKind, FileStat, Lfn, Outcome};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A file of an origin, shared by all clients that have it open.
pub(crate) struct CachedFile {
    shared: Arc<Shared>,
    target: OriginTarget,
    geometry: Geometry,
    mtime: i64,
    kept: Option<Kept>,
    origin_file: Coalesced<Arc<dyn OriginFile>>,
    fills: Mutex<BTreeMap<u64, Arc<Fill>>>,
    account: Account,
    users: AtomicU64,
    retired: AtomicBool,
    discarded: watch::Sender<bool>,
}

/// What the disk holds of a file.
pub(crate) struct Kept {
    pub(crate) data: Arc<dyn DataFile>,
    pub(crate) map: BlockMap,
    record: Mutex<Record>,
}

/// What goes into the cinfo beside the blocks.
pub(crate) struct Record {
    pub(crate) cinfo: Cinfo,
    pub(crate) mark: Option<OriginMark>,
    /// When something changed that is not on disk yet.
    pub(crate) dirty_since: Option<Instant>,
    pub(crate) is_syncing: bool,
    /// The account when the access period began.
    period_start: Bytes,
}

/// Longest range asked for at once when it is not kept, in bytes.
const BYPASS_LEN_MAX: u64 = 1 << 20;

impl Kept {
    pub(crate) fn new(entry: Entry) -> Self {
        let Entry { data, cinfo, origin } = entry;
        let map = BlockMap::from_cinfo(&cinfo);
        let period_start = Bytes::default();
        let record = Record { cinfo, mark: origin, dirty_since: None, is_syncing: false, period_start };
        Self { data, map, record: Mutex::new(record) }
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    pub(crate) fn note_change(&mut self) {
        self.dirty_since.get_or_insert_with(forebay_net::clock::monotonic);
    }
}

impl CachedFile {
    pub(crate) fn new(
        shared: Arc<Shared>,
        target: OriginTarget,
        geometry: Geometry,
        mtime: i64,
        kept: Option<Kept>,
        origin_file: Option<Arc<dyn OriginFile>>,
    ) -> Self {
        Self {
            shared,
            target,
            geometry,
            mtime,
            kept,
            origin_file: origin_file.map_or_else(Coalesced::default, Coalesced::ready),
            fills: Mutex::new(BTreeMap::new()),
            account: Account::default(),
            users: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            discarded: watch::Sender::new(false),
        }
    }

    pub(crate) const fn key(&self) -> Option<&CacheKey> {
        self.target.key.as_ref()
    }

    pub(crate) const fn lfn(&self) -> &Lfn {
        &self.target.path.lfn
    }

    pub(crate) const fn server(&self) -> &Endpoint {
        &self.target.server
    }

    pub(crate) const fn size(&self) -> u64 {
        self.geometry.file_size()
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) const fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn read_window(&self) -> u64 {
        self.shared.options.read_window
    }

    pub(crate) fn is_disk_paused(&self) -> bool {
        self.shared.pause.is_on()
    }

    pub(crate) fn stat(&self) -> FileStat {
        let cached = self.kept.as_ref().is_some_and(|kept| kept.map.is_complete());
        file_stat(&self.target, self.size(), self.mtime, cached)
    }

    pub(crate) fn account(&self, outcome: Outcome, bytes: u64) {
        self.account.add(outcome, bytes);
    }

    /// The data file, when it holds all of `range`.
    pub(crate) fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        self.kept.as_ref().filter(|kept| kept.map.holds(range)).map(|kept| kept.data.file())
    }

    /// The part of `range` that is on disk in one run from its start.
    pub(crate) fn present_part(&self, range: ByteRange) -> ByteRange {
        let end = self.kept.as_ref().map_or_else(|| range.start(), |kept| kept.map.present_run(range.start()));
        ByteRange::between(range.start(), end.min(range.end()))
    }

    pub(crate) fn segment(&self, range: ByteRange) -> Result<Segment, Error> {
        let kept = self.kept.as_ref().filter(|_| !range.is_empty());
        let kept = kept.ok_or(Error::Internal { what: "bytes on disk are not there" })?;
        Ok(Segment::File { file: Arc::clone(kept.data.file()), range })
    }

    /// The file at its origin, opened when first needed; it must be the same file as the one that is cached.
    pub(crate) async fn origin_file(self: &Arc<Self>) -> Result<Arc<dyn OriginFile>, Error> {
        let open = || async {
            let file = self.target.origin.open(&self.target.path).await?;
            if self.matches(&file.identity()) {
                Ok(file)
            } else {
                self.retire(DropReason::Changed);
                Err(Error::Changed { lfn: self.lfn().clone() })
            }
        };
        self.origin_file.get_or_make(open).await
    }

    /// Whether the origin's file is the one whose blocks are here: of the same size, and unchanged at the same server.
    /// (Replicas of one file at several servers have change times of their own.)
    fn matches(&self, identity: &FileIdentity) -> bool {
        let Some(kept) = &self.kept else { return identity.size == self.size() };
        let mut record = kept.record();
        let mark = record
            .mark
            .get_or_insert_with(|| OriginMark { endpoint: identity.endpoint.clone(), mtime: identity.mtime });
        identity.size == self.geometry.file_size()
            && (mark.endpoint != identity.endpoint || mark.mtime == identity.mtime)
    }

    /// Takes note of an error on the way to the client: a changed file is not cached any longer.
    pub(crate) fn note_failure(self: &Arc<Self>, error: &Error) {
        if matches!(error, Error::Origin(OriginError::Changed { .. })) {
            self.retire(DropReason::Changed);
        }
    }

    pub(crate) fn note_written(&self, kept: &Kept, bytes: u64, verified: bool) {
        self.shared.metrics.add_disk_written(bytes);
        let mut record = kept.record();
        record.cinfo.note_fill(verified, forebay_net::clock::now_unix());
        record.note_change();
    }

    pub(crate) fn note_write_failure(&self, error: &io::Error, blocks: u64) {
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let reason = if is_full { NotKept::DiskFull } else { NotKept::DiskError };
        self.shared.metrics.add_not_kept(reason, blocks);
        self.shared.note_disk_failure(DiskOperation::Write, error);
    }
}

// Clients come and go.
impl CachedFile {
    /// One more client has the file open. Called under the table's lock.
    pub(crate) fn attach(&self) {
        let is_first = self.users.fetch_add(1, Ordering::AcqRel) == 0;
        let Some(kept) = &self.kept else { return };
        let mut record = kept.record();
        if is_first {
            record.period_start = self.account.bytes();
            record.cinfo.begin_access(forebay_net::clock::now_unix());
        }
        if let Some(access) = record.cinfo.accesses.last_mut() {
            access.opens = access.opens.saturating_add(1);
            access.detached = None;
        }
        record.note_change();
    }

    /// A client has closed the file after `open_for`; returns how many had it open until now.
    pub(crate) fn detach(&self, open_for: Duration) -> u64 {
        let users_before = self.users.fetch_sub(1, Ordering::AcqRel);
        if let Some(kept) = &self.kept {
            let mut record = kept.record();
            self.refresh_access(&mut record);
            if let Some(access) = record.cinfo.accesses.last_mut() {
                let seconds = i32::try_from(open_for.as_secs()).unwrap_or(i32::MAX);
                access.duration_seconds = access.duration_seconds.saturating_add(seconds);
                access.detached = (users_before == 1).then(forebay_net::clock::now_unix);
            }
            record.note_change();
        }
        users_before
    }

    /// Brings the newest access record up to the account.
    pub(crate) fn refresh_access(&self, record: &mut Record) {
        let bytes = self.account.bytes().since(&record.period_start);
        if let Some(access) = record.cinfo.accesses.last_mut() {
            (access.hit_bytes, access.missed_bytes, access.bypassed_bytes) = (bytes.hit, bytes.missed, bytes.bypassed);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Whether nobody has the file open and all of it that is to be on disk is there.
    pub(crate) fn is_idle(&self) -> bool {
        let is_clean = |kept: &Kept| {
            let record = kept.record();
            record.dirty_since.is_none() && !record.is_syncing
        };
        !self.is_open() && self.fills().is_empty() && self.kept.as_ref().is_none_or(is_clean)
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes the file out of the cache; who has it open goes on reading what is there.
    pub(crate) fn retire(self: &Arc<Self>, reason: DropReason) {
        if self.retired.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(lfn = self.lfn().as_str(), reason = reason.as_str(), "dropping a file from the cache");
        self.shared.metrics.add_file_dropped(reason);
        let file = Arc::clone(self);
        tokio::spawn(async move {
            let discarding = Arc::clone(&file);
            let discarded = tokio::task::spawn_blocking(move || discarding.discard_on_disk()).await;
            if discarded.is_err() {
                tracing::error!(lfn = file.lfn().as_str(), "dropping a file from the cache broke off");
            }
            file.shared.table.remove(&file);
            file.discarded.send_replace(true);
        });
    }

    /// Waits until a retired file is out of the table and off the disk.
    pub(crate) async fn discarded(&self) {
        // The sender lives as long as this file: waiting cannot fail.
        let _ = self.discarded.subscribe().wait_for(|done| *done).await;
    }

    fn discard_on_disk(&self) {
        let (Some(_), Some(key), Some(disk)) = (&self.kept, self.key(), &self.shared.disk) else { return };
        if let Err(error) = disk.remove_entry(key) {
            self.shared.note_disk_failure(DiskOperation::Remove, &error);
        }
    }
}

// Planning and fills.
impl CachedFile {
    /// Plans reads of several ranges and starts the fills they need, under one lock: no block is fetched twice.
    pub(crate) fn plan(self: &Arc<Self>, ranges: &[ByteRange]) -> Vec<VecDeque<Piece>> {
        let mut fills = self.fills();
        let started = self.start_fills(&mut fills, ranges);
        ranges.iter().map(|range| self.pieces(&fills, &started, *range)).collect()
    }

    /// Starts fills for what is missing in any of `ranges`; adjacent blocks share one.
    fn start_fills(self: &Arc<Self>, fills: &mut BTreeMap<u64, Arc<Fill>>, ranges: &[ByteRange]) -> Vec<FillId> {
        if self.kept.is_none() || self.is_retired() || self.is_disk_paused() {
            return Vec::new();
        }
        let mut missing: Vec<(ByteRange, ByteRange)> = Vec::new();
        for piece in ranges.iter().flat_map(|range| self.planned(fills, *range)) {
            if let forebay_cache::Piece::Fill { blocks, wanted } = piece {
                missing.push((blocks, wanted));
            }
        }
        missing.sort_by_key(|(blocks, wanted)| (blocks.start(), wanted.start()));
        let mut started = Vec::new();
        for (blocks, wanted) in merged(missing, self.shared.options.fill_len_max) {
            let block_count = self.geometry.blocks_of(blocks).count() as u64;
            let Some(reservation) = self.shared.budget.try_reserve(blocks.len()) else {
                self.shared.metrics.add_not_kept(NotKept::Budget, block_count);
                continue;
            };
            self.shared.metrics.add_fills_started(block_count);
            let fill = Arc::new(Fill::new(blocks, wanted));
            fills.insert(blocks.start(), Arc::clone(&fill));
            started.push(FillId(blocks.start()));
            tokio::spawn(fill::run(Arc::clone(self), fill, reservation));
        }
        started
    }

    fn planned(&self, fills: &BTreeMap<u64, Arc<Fill>>, range: ByteRange) -> Vec<forebay_cache::Piece> {
        let limits = PlanLimits { fill_len_max: self.shared.options.fill_len_max };
        plan_read(range, self.geometry, limits, |index| {
            // Fills first: a block that its own read's fill has just written is still missed by that read.
            let offset = self.geometry.range_of(index).start();
            let fill = fills.range(..=offset).next_back().filter(|(_, fill)| fill.blocks().contains(offset));
            match fill {
                Some((start, _)) => BlockState::InFlight(FillId(*start)),
                None if self.kept.as_ref().is_some_and(|kept| kept.map.is_written(index)) => BlockState::Present,
                None => BlockState::Missing,
            }
        })
    }

    fn pieces(&self, fills: &BTreeMap<u64, Arc<Fill>>, own: &[FillId], range: ByteRange) -> VecDeque<Piece> {
        let mut pieces = VecDeque::new();
        for piece in self.planned(fills, range) {
            match piece {
                forebay_cache::Piece::Hit(range) => pieces.push_back(Piece::Disk(range)),
                forebay_cache::Piece::Join { fill: id, range } => {
                    let outcome = if own.contains(&id) { Outcome::Missed } else { Outcome::Coalesced };
                    if outcome == Outcome::Coalesced {
                        self.shared.metrics.add_fills_coalesced(self.geometry.blocks_of(range).count() as u64);
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

    /// Gives the blocks of a fill free that has ended.
    pub(crate) fn unclaim(&self, fill: &Arc<Fill>) {
        let mut fills = self.fills();
        if fills.get(&fill.blocks().start()).is_some_and(|current| Arc::ptr_eq(current, fill)) {
            fills.remove(&fill.blocks().start());
        }
    }

    /// Waits until no fill is under way.
    pub(crate) async fn fills_ended(&self) {
        loop {
            let fill = self.fills().values().next().cloned();
            match fill {
                Some(fill) => fill.ended().await,
                None => return,
            }
        }
    }

    fn fills(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Fill>>> {
        self.fills.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a file of an origin from its size and change time.
pub(crate) fn file_stat(target: &OriginTarget, size: u64, mtime: i64, cached: bool) -> FileStat {
    let mut hasher = DefaultHasher::new();
    (&target.server, &target.path.lfn).hash(&mut hasher);
    let id = hasher.finish() >> 1;
    FileStat { id, kind: FileKind::File, size, mtime, readable: true, executable: false, offline: false, cached }
}

/// `wanted` as pieces that are not kept.
fn bypassed(wanted: ByteRange) -> impl Iterator<Item = Piece> {
    let mut rest = wanted;
    std::iter::from_fn(move || {
        let piece = rest.clipped_to(rest.start().saturating_add(BYPASS_LEN_MAX));
        rest = ByteRange::between(piece.end(), rest.end());
        (!piece.is_empty()).then(|| Piece::Bypass(Bypass::new(piece)))
    })
}

/// Runs of blocks, sorted by start and perhaps overlapping, as fewest fills of at most `len_max` bytes; each with the first
/// bytes that somebody wants of it.
fn merged(missing: Vec<(ByteRange, ByteRange)>, len_max: u64) -> Vec<(ByteRange, ByteRange)> {
    let mut runs: Vec<(ByteRange, ByteRange)> = Vec::new();
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

    #[test]
    fn bypassed_bytes_are_asked_for_in_bounded_pieces() {
        assert_eq!(bypassed(ByteRange::at(5, (1 << 20) + 1)).count(), 2);
        assert_eq!(bypassed(ByteRange::at(5, 0)).count(), 0);
    }
}
