//! One cache of a comparison: the production ledger with its purges, and their sums.

use crate::{
    outcome::{Outcome, PERIODS, Period},
    replay::Cell,
};
use forebay_cache::{Budget, EntryId, Footprint, Headroom, Ledger, PurgeRules, PurgeRun, Scope, headroom, plan_purge};

/// A cache of one disk that nothing else uses.
pub(crate) struct SimulatedCache {
    pub(crate) ledger: Ledger,
    rules: PurgeRules,
    /// Bytes and inodes that may be added before a purge is due, and before nothing is kept.
    room: Headroom,
    has_quota: bool,
    /// A purge was necessary because the cache was full.
    was_full: bool,
    expiry_step_ms: Option<i64>,
    next_expiry_ms: i64,
    /// From then on ages of victims count.
    ages_from_ms: i64,
    ages_ms: i128,
    aged: u64,
    /// The period of the last access.
    period: usize,
    outcome: Outcome,
}

/// The files of a replay, as a purge sees them.
pub(crate) trait Holder {
    /// Reports the uses since the last purge, each file's together.
    fn report_uses(&mut self, ledger: &mut Ledger);

    /// Whether the file of an entry is in use and has to stay.
    fn is_open(&self, id: EntryId) -> bool;

    /// Forgets what is cached of a file; when it was last used, in milliseconds of the Unix epoch.
    fn forget(&mut self, id: EntryId) -> Option<i64>;
}

/// Times that entries are looked for which were not used for too long, within the shortest time after which one goes.
const EXPIRY_STEPS: u32 = 50;

/// Limits of the interval between these looks, in milliseconds.
const EXPIRY_STEP_MS: (i64, i64) = (60_000, 86_400_000);

/// The sums of an access that the rules keep out of the cache.
pub(crate) const fn bypassed(read: u64) -> Period {
    Period { accesses: 1, hits: 0, read, saved: 0, origin: read, bypassed: read }
}

/// Whether a file of `size` bytes nearly fills a cache of `total` bytes.
pub(crate) const fn is_oversized(size: u64, total: u64) -> bool {
    size > total / 5 * 4
}

impl SimulatedCache {
    /// An empty cache, for accesses between `span_ms` to `files` files.
    pub(crate) fn new(purge: &PurgeRules, cell: Cell, files: usize, span_ms: (i64, i64)) -> Self {
        let bytes = Budget { total: Some(cell.size), ..purge.bytes };
        let rules = PurgeRules { policy: cell.policy, bytes, free_min: None, ..purge.clone() };
        let expiry_step_ms = rules.lifetime_min().map(|lifetime| {
            let step = i64::try_from((lifetime / EXPIRY_STEPS).as_millis()).unwrap_or(i64::MAX);
            step.clamp(EXPIRY_STEP_MS.0, EXPIRY_STEP_MS.1)
        });
        let ledger = Ledger::of_dense_numbers(&rules, files);
        let outcome = Outcome {
            policy: cell.policy,
            size: cell.size,
            periods: vec![Period::default(); PERIODS],
            full_from: None,
            purged_files: 0,
            purged_bytes: 0,
            eviction_age_ms: None,
            used: 0,
        };
        Self {
            room: headroom(&rules, &[], &ledger),
            ledger,
            has_quota: rules.quotas.iter().any(|quota| quota.max_bytes.is_some()),
            was_full: false,
            rules,
            expiry_step_ms,
            next_expiry_ms: span_ms.0,
            ages_from_ms: span_ms.0 + span_ms.1.saturating_sub(span_ms.0) / 2,
            ages_ms: 0,
            aged: 0,
            period: 0,
            outcome,
        }
    }

    /// Adds the sums of an access in period `number`; it is not lower than the one before.
    pub(crate) fn add(&mut self, number: usize, sums: &Period) {
        if let Some(period) = self.outcome.periods.get_mut(number) {
            *period += *sums;
        }
    }

    /// Notes that accesses of period `number` follow.
    pub(crate) fn begin(&mut self, number: usize) {
        if number != self.period {
            self.period = number;
            if self.outcome.full_from.is_none() && self.was_full {
                self.outcome.full_from = Some(number);
            }
        }
    }

    /// Whether nothing more is kept, because files in use take all of it.
    pub(crate) const fn is_full(&self) -> bool {
        self.room.until_full.bytes == 0 || self.room.until_full.inodes == 0
    }

    /// Accounts growth, and purges when it is due.
    pub(crate) fn grow(&mut self, growth: Footprint, now_ms: i64, holder: &mut impl Holder) {
        let until_purge = self.room.until_purge;
        let is_due = growth.bytes > until_purge.bytes || growth.inodes > until_purge.inodes;
        self.room.until_purge -= growth;
        self.room.until_full -= growth;
        if !is_due && !self.has_quota {
            return;
        }
        holder.report_uses(&mut self.ledger);
        let goals = plan_purge(&self.rules, &[], &self.ledger);
        self.was_full |= goals.iter().any(|goal| goal.scope == Scope::All);
        let mut run = PurgeRun::new(&goals);
        while let Some(victim) = run.next(&mut self.ledger) {
            if holder.is_open(victim.id) {
                run.refused(&victim);
                continue;
            }
            self.note_gone(holder.forget(victim.id), Some(now_ms));
            run.removed(&victim, &mut self.ledger);
        }
        self.finish_run(run, now_ms);
    }

    /// Removes entries that were not used for too long, if it is time to look for them.
    pub(crate) fn expire_if_due(&mut self, now_ms: i64, holder: &mut impl Holder) {
        if let Some(step_ms) = self.expiry_step_ms
            && now_ms >= self.next_expiry_ms
        {
            self.next_expiry_ms = now_ms.saturating_add(step_ms);
            self.expire(now_ms, holder);
        }
    }

    fn expire(&mut self, now_ms: i64, holder: &mut impl Holder) {
        holder.report_uses(&mut self.ledger);
        let (expired, _) = self.ledger.expired(now_ms, 0, usize::MAX);
        let mut run = PurgeRun::new(&[]);
        for id in expired.into_iter().filter(|id| !holder.is_open(*id)).collect::<Vec<_>>() {
            if let Some(victim) = run.next_expired(id, now_ms, &mut self.ledger) {
                self.note_gone(holder.forget(id), None);
                run.removed(&victim, &mut self.ledger);
            }
        }
        self.finish_run(run, now_ms);
    }

    /// Counts an entry that goes: with its age, if it goes for space at `now_ms`.
    fn note_gone(&mut self, last_use_ms: Option<i64>, now_ms: Option<i64>) {
        let Some(last_use_ms) = last_use_ms else { return };
        self.outcome.purged_files += 1;
        if let Some(now_ms) = now_ms.filter(|now_ms| *now_ms >= self.ages_from_ms) {
            self.ages_ms += i128::from(now_ms) - i128::from(last_use_ms);
            self.aged += 1;
        }
    }

    fn finish_run(&mut self, run: PurgeRun, now_ms: i64) {
        self.outcome.purged_bytes = self.outcome.purged_bytes.saturating_add(run.freed.bytes);
        run.finish(&mut self.ledger, now_ms);
        self.room = headroom(&self.rules, &[], &self.ledger);
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let mean = self.ages_ms.checked_div(i128::from(self.aged));
        self.outcome.eviction_age_ms = mean.and_then(|mean| i64::try_from(mean).ok());
        self.outcome.used = self.ledger.usage().bytes;
        self.outcome
    }
}
