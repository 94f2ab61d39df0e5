//! The task that purges, by time and when a write meets a mark.

use crate::{
    accounting::{
        disk_headroom::FillRate,
        purge_ledger::{PurgeReport, milliseconds},
    },
    catalog::state::IndexState,
    entries::{file_context::FileContext, open_files::OpenFiles},
    upkeep::{
        disk_work::{offline_disks, online_disks, unless_a_disk_is_lost},
        purge_by_walk::{by_volume, purge_by_walk},
        removal::{Removed, SLICE, names, remove},
        running_purge::{Done, RunningPurge},
    },
};
use forebay_cache::{
    CacheKey, DiskSpace, Extent, Footprint, Goal, Scope, Victim, headroom, plan_purge, plan_purge_of_full_disk,
};
use forebay_store::{VolumeId, VolumeInfo};
use forebay_telemetry::{CacheLevel, DiskOperation};
use forebay_types::PurgeReason;
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
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
        let measuring = self.context.options.workers.run(move || disk.volumes());
        let volumes = match unless_a_disk_is_lost(&self.context, measuring).await {
            Some(measured) => measured.unwrap_or_default(),
            None => self.measured_before(),
        };
        let disks: Vec<DiskSpace> = volumes.iter().filter_map(space_of).collect();
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

    /// The last measurement of the disks that are online.
    fn measured_before(&self) -> Vec<VolumeInfo> {
        let online = online_disks(&self.context);
        self.context.volumes.lock().iter().filter(|volume| online.contains(&volume.id)).cloned().collect()
    }

    fn goals(&self, disks: &[DiskSpace]) -> Vec<Goal> {
        let ledger = self.context.purge_ledger.ledger.lock();
        let disks = self.fill_rate.lock().after_lead(disks);
        let goals = plan_purge(&self.context.purge_ledger.options.rules, &disks, &ledger);
        // Taken in any case: they must not start another purge after this one. A goal for all disks, or for this one, makes room there.
        let full = self.context.purge_ledger.take_full_disks();
        let plan = |volume: Option<VolumeId>| plan_purge_of_full_disk(&ledger, volume.map(|volume| volume.0));
        let is_covered =
            |full: &Goal| goals.iter().any(|goal| matches!(goal.scope, Scope::All) || goal.scope == full.scope);
        let more: Vec<Goal> = full.into_iter().filter_map(plan).filter(|goal| !is_covered(goal)).collect();
        [goals, more].concat()
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
        let by_volume = by_volume(&self.context.volumes.lock(), goals);
        for (volume, to_free) in by_volume {
            let context = Arc::clone(&self.context);
            let open_files = Arc::clone(&self.open_files);
            let purged =
                self.context.options.workers.run(move || purge_by_walk(&context, &open_files, volume, to_free));
            let (files, freed) = match unless_a_disk_is_lost(&self.context, purged).await {
                Some(Ok(Ok(purged))) => purged,
                Some(Ok(Err(error))) => {
                    self.context.note_store_failure(DiskOperation::Remove, Some(volume), &error);
                    (0, Footprint::ZERO)
                }
                Some(Err(_)) | None => (0, Footprint::ZERO),
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

    async fn remove_for(&self, goals: &[Goal]) -> PurgeReport {
        let _turn = self.turn.lock().await;
        let begun = forebay_net::clock::monotonic();
        self.prepare(forebay_net::clock::now_unix());
        let mut run = RunningPurge::new(goals, &self.context.purge_ledger.ledger);
        let mut refused = 0;
        self.learn().await;
        loop {
            // Again for each slice: what is removed from a disk that has gone offline comes back with it.
            let offline = self.pass_over_offline_disks();
            let slice = run.next(SLICE);
            if slice.is_empty() {
                break;
            }
            refused += self.remove_slice(&mut run, slice, offline).await;
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
        self.prepare(forebay_net::clock::now_unix());
        // Its end is its drop: all victims stay.
        let mut run = RunningPurge::new(goals, ledger);
        let mut report = PurgeReport::default();
        loop {
            let slice = run.next(SLICE);
            if slice.is_empty() {
                break;
            }
            let (unused, used) = self.split_by_use(slice).await;
            run.refused(&used);
            report.refused += u64::try_from(used.len()).unwrap_or(u64::MAX);
            report.files += u64::try_from(unused.len()).unwrap_or(u64::MAX);
            report.freed += unused.iter().map(|victim| victim.footprint).sum::<Footprint>();
        }
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

    /// Has the ledger pick what may go at `now`, in seconds of the Unix epoch: entries whose pins have ended, and none on disks that are
    /// offline.
    fn prepare(&self, now: i64) {
        self.context.purge_ledger.ledger.lock().end_pins(now);
        self.pass_over_offline_disks();
    }

    fn pass_over_offline_disks(&self) -> BTreeSet<VolumeId> {
        let offline = offline_disks(&self.context);
        self.context.purge_ledger.ledger.lock().set_offline(offline.iter().map(|volume| volume.0));
        offline
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
        self.prepare(now);
        let now_ms = milliseconds(now);
        let mut run = RunningPurge::new(&[], &self.context.purge_ledger.ledger);
        let mut refused = 0;
        let mut from = Some(0);
        let mut reasons = BTreeSet::new();
        while let Some(start) = from {
            let (expired, next) = self.context.purge_ledger.ledger.lock().expired(now_ms, start, EXPIRY_SCAN);
            from = next;
            for ids in expired.chunks(SLICE) {
                let offline = self.pass_over_offline_disks();
                let slice = run.next_expired(ids, now_ms);
                reasons.extend(slice.iter().map(|victim| victim.reason.as_str()));
                refused += self.remove_slice(&mut run, slice, offline).await;
            }
        }
        let report = self.finish(run, refused, begun);
        if report.files > 0 {
            self.settle().await;
            log(&report, &reasons);
        }
    }

    /// Removes a slice that was picked without the disks that are `offline`; how many of it stayed.
    async fn remove_slice(&self, run: &mut RunningPurge<'_>, slice: Vec<Victim>, offline: BTreeSet<VolumeId>) -> u64 {
        let removing = Arc::clone(&self.context);
        let leaving = Arc::clone(&self.open_files);
        let victims = slice.clone();
        let removed = self.context.options.workers.run(move || remove(&removing, &leaving, victims, &offline));
        // After a panic, or on a disk that hangs, nothing is known: they stay, and are tried again later.
        let removed = match unless_a_disk_is_lost(&self.context, removed).await {
            Some(Ok(removed)) => removed,
            Some(Err(_)) | None => Removed { gone: Vec::new(), stay: slice },
        };
        run.removed(&removed.gone);
        for victim in &removed.gone {
            self.context.metrics.add_purged(victim.reason, victim.footprint.bytes);
        }
        self.note_age(&removed.gone);
        run.refused(&removed.stay);
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
        let settling = self.context.options.workers.run(move || disk.settle_removals());
        if let Some(Ok(Err(error))) = unless_a_disk_is_lost(&self.context, settling).await {
            self.context.note_store_failure(DiskOperation::Sync, None, &error);
        }
    }

    fn finish(&self, run: RunningPurge<'_>, refused: u64, begun: std::time::Instant) -> PurgeReport {
        let Done { files, freed, unmet } = run.finish(milliseconds(forebay_net::clock::now_unix()));
        let duration = forebay_net::clock::monotonic().saturating_duration_since(begun);
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

fn space_of(volume: &VolumeInfo) -> Option<DiskSpace> {
    let space = volume.space.as_ref()?;
    let extent = |total: u64, free: u64| Extent { total, used: total.saturating_sub(free) };
    Some(DiskSpace {
        disk: volume.id.0,
        bytes: extent(space.total_bytes, space.free_bytes),
        inodes: (space.total_inodes > 0).then(|| extent(space.total_inodes, space.free_inodes)),
    })
}

/// Uses of closed files that are noted before a commit, at most: notes of changes need places as well.
const USES_NOTED_MAX: usize = 10_000;
