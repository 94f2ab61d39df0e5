//! The task that purges, by time and when a write meets a mark.

use crate::{
    accounting::{
        disk_headroom::FillRate,
        purge_ledger::{PurgeReport, milliseconds},
    },
    catalog::state::IndexState,
    entries::{file_context::FileContext, open_files::OpenFiles},
    upkeep::purge_by_walk::purge_by_walk,
};
use forebay_cache::{
    CacheKey, DiskSpace, Extent, Footprint, Goal, PurgeRun, Scope, Victim, headroom, plan_purge,
    plan_purge_of_full_disk,
};
use forebay_index::Index;
use forebay_store::{Disk, VolumeId, VolumeInfo};
use forebay_telemetry::{CacheLevel, DiskOperation};
use forebay_types::PurgeReason;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::MissedTickBehavior;

/// Pause after a purge that could not make enough room: everything is in use or pinned, and writes keep requesting space.
const UNMET_PAUSE: Duration = Duration::from_millis(250);

/// The same without an index: each attempt walks over a disk.
const WALK_PAUSE: Duration = Duration::from_secs(5);

/// How often it is asked whether the index has been read after a start.
const INDEX_PAUSE: Duration = Duration::from_millis(250);

/// How often entries that were not used for too long are looked for, at most.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// Entries looked at together while those are sought.
const EXPIRY_SCAN: usize = 10_000;

/// Removes entries when disks or quotas are full, or entries have expired.
pub(crate) struct Purge {
    context: Arc<FileContext>,
    open_files: Arc<OpenFiles>,
    turn: tokio::sync::Mutex<()>,
    fill_rate: Mutex<FillRate>,
}

impl Purge {
    pub(crate) fn new(context: Arc<FileContext>, open_files: Arc<OpenFiles>) -> Self {
        Self { context, open_files, turn: tokio::sync::Mutex::default(), fill_rate: Mutex::default() }
    }

    /// Purges by time, and when a write reaches a limit, until the engine stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let ledger = &self.context.purge_ledger;
        self.measure().await;
        // Without the entries every purge would remove nothing and report that space is missing.
        while self.index_state() == IndexState::Loading {
            tokio::time::sleep(INDEX_PAUSE).await;
        }
        let mut ticks = tokio::time::interval(ledger.options.interval);
        // Delayed, not made up for: purges after a long one would follow without a pause.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_met = true;
        let mut expired_since = None;
        loop {
            tokio::select! {
                biased;
                () = ledger.due.notified() => {}
                _ = ticks.tick() => {}
            }
            let disks = self.measure().await;
            let now = tokio::time::Instant::now();
            let lifetime_min = ledger.options.rules.lifetime_min();
            if lifetime_min
                .is_some_and(|lifetime| expired_since.is_none_or(|last| now - last >= EXPIRY_INTERVAL.min(lifetime)))
            {
                expired_since = Some(now);
                self.purge_expired().await;
            }
            let goals = self.goals(&disks);
            let is_met = goals.is_empty() || self.meet(&goals, was_met).await;
            if !is_met {
                // Logged once until it is met again.
                if was_met {
                    tracing::warn!(
                        "the purge frees less space than required: the remaining entries are in use, pinned or guaranteed"
                    );
                }
                self.measure().await;
                // Writers keep asking for space: without a pause the purge would run in a loop.
                let has_index = self.index_state() != IndexState::Off;
                tokio::time::sleep(if has_index { UNMET_PAUSE } else { WALK_PAUSE }).await;
            }
            was_met = is_met;
        }
    }

    fn index_state(&self) -> IndexState {
        self.context.catalog.as_ref().map_or(IndexState::Off, |catalog| catalog.index_state())
    }

    /// Purges for `goals`; whether they are met. A purge that frees nothing is logged only if the last one met its goals.
    async fn meet(&self, goals: &[Goal], was_met: bool) -> bool {
        let report = match self.index_state() {
            IndexState::Off => self.purge_without_index(goals).await,
            _ => self.remove_for(goals).await,
        };
        let is_met = report.unmet.is_zero();
        if is_met || was_met || report.files > 0 {
            self.log(&report, goals);
        }
        is_met
    }

    /// Measures the disks, and how much room there is before the next purge.
    pub(crate) async fn measure(&self) -> Vec<DiskSpace> {
        let Some(disk) = self.context.disk.clone() else { return Vec::new() };
        // Read before the measurement: see `DiskHeadroom::set`.
        let added = self.context.purge_ledger.headroom.added();
        let measured = self.context.options.workers.run(move || spaces(disk.as_ref())).await;
        let disks = measured.unwrap_or_default();
        let level = {
            let purge_ledger = &self.context.purge_ledger;
            let rules = &purge_ledger.options.rules;
            let ledger = purge_ledger.ledger.lock();
            let lead = self.fill_rate.lock().update(&added, &disks);
            let mut room = headroom(rules, &disks, &ledger);
            room.until_purge.bytes = room.until_purge.bytes.saturating_sub(lead);
            purge_ledger.headroom.set(&added, &room, rules, &disks);
            let used = ledger.usage();
            CacheLevel {
                used_bytes: used.bytes,
                used_inodes: used.inodes,
                files: u64::try_from(ledger.len()).unwrap_or(u64::MAX),
                bytes_until_purge: room.until_purge.bytes,
                inodes_until_purge: room.until_purge.inodes,
            }
        };
        self.context.metrics.set_cache_level(level);
        disks
    }

    fn goals(&self, disks: &[DiskSpace]) -> Vec<Goal> {
        let ledger = self.context.purge_ledger.ledger.lock();
        let disks = self.fill_rate.lock().after_lead(disks);
        let goals = plan_purge(&self.context.purge_ledger.options.rules, &disks, &ledger);
        // The flag is taken in any case: it must not start another purge after this one.
        if self.context.purge_ledger.take_is_disk_full() && goals.is_empty() {
            plan_purge_of_full_disk(&ledger)
        } else {
            goals
        }
    }

    /// Removes entries until the goals are met, or nothing more may go, and logs that.
    pub(crate) async fn purge(&self, goals: &[Goal]) -> PurgeReport {
        let report = self.remove_for(goals).await;
        self.log(&report, goals);
        report
    }

    /// Removes entries while no index names them: see [`purge_by_walk`].
    async fn purge_without_index(&self, goals: &[Goal]) -> PurgeReport {
        let _turn = self.turn.lock().await;
        let begun = forebay_net::clock::monotonic();
        let mut report = PurgeReport::default();
        for (volume, to_free) in self.by_volume(goals) {
            let context = Arc::clone(&self.context);
            let open_files = Arc::clone(&self.open_files);
            let purged =
                self.context.options.workers.run(move || purge_by_walk(&context, &open_files, volume, to_free));
            let (files, freed) = match purged.await {
                Ok(Ok(purged)) => purged,
                Ok(Err(error)) => {
                    self.context.note_store_failure(DiskOperation::Remove, Some(volume), &error);
                    (0, Footprint::ZERO)
                }
                Err(_) => (0, Footprint::ZERO),
            };
            report.files += files;
            report.freed += freed;
            report.unmet += to_free - freed;
        }
        report.duration = forebay_net::clock::monotonic().saturating_duration_since(begun);
        self.context.metrics.observe_purge(report.duration, report.unmet.is_zero());
        self.make_room_known(&report).await;
        report
    }

    /// What `goals` require of each disk; goals that no disk is named in require it of the one with most entries.
    fn by_volume(&self, goals: &[Goal]) -> BTreeMap<VolumeId, Footprint> {
        let volumes = self.context.volumes.lock();
        let used =
            |volume: &VolumeInfo| volume.space.map_or(0, |space| space.total_bytes.saturating_sub(space.free_bytes));
        let fullest = volumes.iter().filter(|volume| volume.health.is_online()).max_by_key(|volume| used(volume));
        let mut by_volume = BTreeMap::new();
        for goal in goals {
            let volume = match goal.scope {
                Scope::Disk(disk) => Some(VolumeId(disk)),
                Scope::All | Scope::Quota(_) => fullest.map(|volume| volume.id),
            };
            if let Some(volume) = volume {
                let to_free = by_volume.entry(volume).or_insert(Footprint::ZERO);
                *to_free += goal.to_free;
            }
        }
        by_volume
    }

    async fn remove_for(&self, goals: &[Goal]) -> PurgeReport {
        let _turn = self.turn.lock().await;
        let begun = forebay_net::clock::monotonic();
        // Pins that have ended count from now on, so that their entries can be picked.
        self.context.purge_ledger.ledger.lock().end_pins(forebay_net::clock::now_unix());
        let mut run = PurgeRun::new(goals);
        let mut refused = 0;
        self.learn().await;
        loop {
            let slice: Vec<Victim> = {
                // Locked per slice: writes account their growth in between.
                let mut ledger = self.context.purge_ledger.ledger.lock();
                std::iter::from_fn(|| run.next(&mut ledger)).take(SLICE).collect()
            };
            if slice.is_empty() {
                break;
            }
            refused += self.remove_slice(&mut run, slice).await;
        }
        let report = self.finish(run, refused, begun);
        self.make_room_known(&report).await;
        report
    }

    /// Counts the entries that a purge for `goals` would remove.
    pub(crate) async fn preview(&self, goals: &[Goal]) -> PurgeReport {
        let _turn = self.turn.lock().await;
        self.learn().await;
        let ledger = &self.context.purge_ledger.ledger;
        ledger.lock().end_pins(forebay_net::clock::now_unix());
        let mut run = PurgeRun::new(goals);
        let mut report = PurgeReport::default();
        let mut victims = Vec::new();
        loop {
            let slice: Vec<Victim> = {
                // Locked per slice: writes account their growth in between.
                let mut ledger = ledger.lock();
                std::iter::from_fn(|| run.next(&mut ledger)).take(SLICE).collect()
            };
            if slice.is_empty() {
                break;
            }
            victims.extend(slice.iter().map(|victim| victim.id));
            let (unused, used) = self.split_by_use(slice).await;
            used.iter().for_each(|victim| run.refused(victim));
            report.refused += u64::try_from(used.len()).unwrap_or(u64::MAX);
            report.files += u64::try_from(unused.len()).unwrap_or(u64::MAX);
            report.freed += unused.iter().map(|victim| victim.footprint).sum::<Footprint>();
        }
        run.give_up(&victims, &mut ledger.lock());
        report.unmet = goals.iter().map(|goal| goal.to_free).sum::<Footprint>() - report.freed;
        report
    }

    /// The victims that could be removed now, and those that are in use.
    async fn split_by_use(&self, slice: Vec<Victim>) -> (Vec<Victim>, Vec<Victim>) {
        let Some(index) = self.context.catalog.as_ref().and_then(|catalog| catalog.index()) else {
            return (slice, Vec::new());
        };
        let victims = slice.clone();
        let Ok(Some(named)) = self.context.options.workers.run(move || names(&index, &victims)).await else {
            return (slice, Vec::new());
        };
        let unused = self.open_files.unused(named.iter().filter_map(|(_, key)| key.as_ref()));
        let (unused, used): (Vec<_>, Vec<_>) =
            named.iter().partition(|(_, key)| key.as_ref().is_none_or(|key| unused.contains(key)));
        let victims = |named: Vec<&(Victim, Option<CacheKey>)>| named.into_iter().map(|(victim, _)| *victim).collect();
        (victims(unused), victims(used))
    }

    /// Has the room that a purge has made used.
    async fn make_room_known(&self, report: &PurgeReport) {
        if report.files > 0 {
            let saved = self.context.saved_bytes();
            self.context.purge_ledger.surplus.note_purged(forebay_net::clock::monotonic(), saved);
            // Writes to disks that paused for lack of space may start again.
            self.context.pauses.end_of_full();
        }
        // Before the measurement: the freed space has to be visible in it.
        self.settle().await;
        self.measure().await;
    }

    /// Has everything that is known reported to the ledger: entries newer than the index's last commit have no number
    /// by which they could be picked, and files have grown since their last report.
    pub(crate) async fn learn(&self) {
        if let Some(catalog) = &self.context.catalog {
            // In parts: notes that wait to be committed have a limit.
            for files in self.open_files.files().chunks(USES_NOTED_MAX) {
                if files.iter().filter(|file| file.note_use()).count() > USES_NOTED_MAX / 2 {
                    catalog.commit().await;
                }
            }
            loop {
                let context = Arc::clone(&self.context);
                // On a worker: it takes some milliseconds. After a panic the order of removal is a little wrong.
                let are_all = self.context.options.workers.run(move || context.note_uses(USES_NOTED_MAX)).await;
                catalog.commit().await;
                if are_all.unwrap_or(true) {
                    break;
                }
            }
        }
    }

    async fn purge_expired(&self) {
        let _turn = self.turn.lock().await;
        let begun = forebay_net::clock::monotonic();
        self.learn().await;
        let now = forebay_net::clock::now_unix();
        self.context.purge_ledger.ledger.lock().end_pins(now);
        let now_ms = milliseconds(now);
        let mut run = PurgeRun::new(&[]);
        let mut refused = 0;
        let mut from = Some(0);
        let mut reasons = BTreeSet::new();
        while let Some(start) = from {
            let (expired, next) = self.context.purge_ledger.ledger.lock().expired(now_ms, start, EXPIRY_SCAN);
            from = next;
            for ids in expired.chunks(SLICE) {
                let slice: Vec<Victim> = {
                    let mut ledger = self.context.purge_ledger.ledger.lock();
                    ids.iter().filter_map(|id| run.next_expired(*id, now_ms, &mut ledger)).collect()
                };
                reasons.extend(slice.iter().map(|victim| victim.reason.as_str()));
                refused += self.remove_slice(&mut run, slice).await;
            }
        }
        let report = self.finish(run, refused, begun);
        if report.files > 0 {
            self.settle().await;
            log(&report, &reasons);
        }
    }

    /// Removes a slice; how many of it stayed.
    async fn remove_slice(&self, run: &mut PurgeRun, slice: Vec<Victim>) -> u64 {
        let removing = Arc::clone(&self.context);
        let leaving = Arc::clone(&self.open_files);
        let victims = slice.clone();
        let removed = self.context.options.workers.run(move || remove(&removing, &leaving, victims)).await;
        // After a panic nothing is known: they stay, and are tried again later.
        let removed = removed.unwrap_or_else(|_| Removed { gone: Vec::new(), stay: slice });
        let mut ledger = self.context.purge_ledger.ledger.lock();
        for victim in &removed.gone {
            run.removed(victim, &mut ledger);
            self.context.metrics.add_purged(victim.reason, victim.footprint.bytes);
        }
        self.note_age(&removed.gone);
        removed.stay.iter().for_each(|victim| run.refused(victim));
        let refused = u64::try_from(removed.stay.len()).unwrap_or(u64::MAX);
        self.context.metrics.add_purge_refused(refused);
        refused
    }

    /// Reports how long the files that were removed for lack of space had not been used, in the mean of the slice.
    fn note_age(&self, gone: &[Victim]) {
        let now_ms = milliseconds(forebay_net::clock::now_unix());
        let is_for_space = |victim: &&Victim| matches!(victim.reason, PurgeReason::Space | PurgeReason::FreeMin);
        let ages = gone.iter().filter(is_for_space).map(|victim| now_ms.saturating_sub(victim.last_use_ms).max(0));
        let (count, sum) = ages.fold((0_u64, 0_u64), |(count, sum), age| (count + 1, sum + age.unsigned_abs()));
        if let Some(mean) = sum.checked_div(count) {
            self.context.metrics.set_eviction_age(Duration::from_millis(mean));
        }
    }

    /// Makes removals durable, so that opens of the same files need not wait for that.
    async fn settle(&self) {
        let Some(disk) = self.context.disk.clone() else { return };
        if let Ok(Err(error)) = self.context.options.workers.run(move || disk.settle_removals()).await {
            self.context.note_store_failure(DiskOperation::Sync, None, &error);
        }
    }

    fn finish(&self, run: PurgeRun, refused: u64, begun: std::time::Instant) -> PurgeReport {
        let files = run.removed_count;
        let freed = run.freed;
        let unmet =
            run.finish(&mut self.context.purge_ledger.ledger.lock(), milliseconds(forebay_net::clock::now_unix()));
        let duration = forebay_net::clock::monotonic().saturating_duration_since(begun);
        let unmet = unmet.iter().map(|goal| goal.to_free).sum::<Footprint>();
        self.context.metrics.observe_purge(duration, unmet.is_zero());
        PurgeReport { files, freed, refused, unmet, duration }
    }

    fn log(&self, report: &PurgeReport, goals: &[Goal]) {
        log(report, &goals.iter().map(|goal| goal.reason.as_str()).collect());
    }
}

fn log(report: &PurgeReport, reasons: &BTreeSet<&str>) {
    let PurgeReport { files, freed, refused, unmet, duration } = report;
    tracing::info!(
        reasons = reasons.iter().copied().collect::<Vec<_>>().join(", "),
        files,
        bytes = freed.bytes,
        refused,
        unmet_bytes = unmet.bytes,
        unmet_inodes = unmet.inodes,
        ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "purged"
    );
}

fn spaces(disk: &dyn Disk) -> Vec<DiskSpace> {
    let told = |volume: VolumeInfo| {
        let space = volume.space?;
        let extent = |total: u64, free: u64| Extent { total, used: total.saturating_sub(free) };
        Some(DiskSpace {
            disk: volume.id.0,
            bytes: extent(space.total_bytes, space.free_bytes),
            inodes: (space.total_inodes > 0).then(|| extent(space.total_inodes, space.free_inodes)),
        })
    };
    disk.volumes().into_iter().filter_map(told).collect()
}

/// Uses of closed files that are noted before a commit, at most: notes of changes need places as well.
const USES_NOTED_MAX: usize = 10_000;

/// Victims that are removed in one go, on one worker: some milliseconds, so that reads are not held up, and enough that many
/// of them lie in one directory.
pub(crate) const SLICE: usize = 64;

pub(crate) struct Removed {
    pub(crate) gone: Vec<Victim>,
    /// In use, or not removable.
    pub(crate) stay: Vec<Victim>,
}

/// Removes the victims that are not in use. Blocking.
pub(crate) fn remove(context: &FileContext, table: &Arc<OpenFiles>, victims: Vec<Victim>) -> Removed {
    let Some(index) = context.catalog.as_ref().and_then(|catalog| catalog.index()) else { return stay(victims) };
    let Some(named) = names(&index, &victims) else { return stay(victims) };
    let keys = named.iter().filter_map(|(_, key)| key.clone());
    let went = remove_entries(context, table, keys, |key| context.purge_ledger.note_gone(key));
    let mut removed = Removed { gone: Vec::new(), stay: Vec::new() };
    for (victim, key) in named {
        // A victim without a key in the index is gone already.
        let is_gone = key.is_none_or(|key| went.contains(&key));
        if is_gone { removed.gone.push(victim) } else { removed.stay.push(victim) }
    }
    removed
}

/// Removes entries that are not in use; returns those that are gone, and has each accounted by `note_gone`. Blocking.
pub(crate) fn remove_entries(
    context: &FileContext,
    table: &Arc<OpenFiles>,
    keys: impl IntoIterator<Item = CacheKey>,
    note_gone: impl Fn(&CacheKey),
) -> BTreeSet<CacheKey> {
    let (Some(disk), Some(catalog)) = (&context.disk, &context.catalog) else { return BTreeSet::new() };
    let leaving = table.reserve_for_removal(keys);
    // After the reservation: no client is sent to the file from then on.
    let keys: Vec<CacheKey> = leaving.keys().iter().filter(|key| is_left_by_others(context, key)).cloned().collect();
    let results = disk.remove_entries(&keys);
    let mut went = BTreeSet::new();
    for (key, result) in keys.into_iter().zip(results) {
        match result {
            Ok(()) => {
                // After the removal: the accounts must not forget bytes that are still on disk.
                note_gone(&key);
                catalog.note_removed(&key);
                went.insert(key);
            }
            Err(error) => context.note_store_failure(DiskOperation::Remove, None, &error),
        }
    }
    went
}

/// Whether no client is known to read the file of an entry directly; from now on none is sent there either.
/// Blocking.
pub(crate) fn is_left_by_others(context: &FileContext, key: &CacheKey) -> bool {
    let options = &context.options;
    if !options.honours_access_times {
        return true;
    }
    let Some(disk) = &context.disk else { return true };
    let lease = i64::try_from(options.direct_lease.as_secs()).unwrap_or(i64::MAX);
    let closed = disk.close_to_others(key, forebay_net::clock::now_unix().saturating_sub(lease));
    // A file whose times cannot be read cannot be read by others either.
    closed.unwrap_or(true)
}

/// The victims with their keys; `None` when the index cannot be read.
fn names(index: &Index, victims: &[Victim]) -> Option<Vec<(Victim, Option<CacheKey>)>> {
    let ids: Vec<_> = victims.iter().map(|victim| victim.id).collect();
    let keys = index.keys(&ids).ok()?;
    Some(victims.iter().copied().zip(keys).collect())
}

const fn stay(victims: Vec<Victim>) -> Removed {
    Removed { gone: Vec::new(), stay: victims }
}
