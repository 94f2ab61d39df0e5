//! Replay of accesses through the cache's own ledger, policy, marks, quotas and rules.

use crate::{
    access::{Access, Accesses, File},
    outcome::{Outcome, PERIODS, Period, PeriodClock},
};
use forebay_cache::{
    Action, Budget, Decision, EntryId, Footprint, Ledger, Policy, PurgeRules, PurgeRun, Rules, Scope, Subject,
    headroom, plan_purge,
};
use forebay_types::DataName;

/// The rules that all compared caches have in common.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Rules of purges. Policy and size are those of each [`Cell`].
    pub purge: PurgeRules,
    /// The rules that decide whether a file is cached. No record has the host and the opaque data of a request.
    pub decisions: Rules,
    pub unit: Unit,
}

forebay_types::named_enum! {
    /// How much of a file an access brings into the cache.
    #[derive(Default)]
    pub enum Unit {
        /// As much as it read: readers of a file are taken to read the same parts of it. A lower bound of what a cache keeps.
        #[default]
        Read = "read",
        /// The whole file. An upper bound.
        File = "file",
    }
}

/// One cache of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell {
    pub policy: Policy,
    /// Size in bytes, to which the marks apply.
    pub size: u64,
}

/// Which accesses go through the cache.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Admission {
    /// By access; `None` for all.
    admitted: Option<Vec<bool>>,
}

impl Admission {
    /// The accesses that `decisions` cache.
    pub fn by_rules(accesses: &Accesses, decisions: &Rules) -> Self {
        if *decisions == Rules::default() {
            return Self { admitted: None };
        }
        let is_cached = |access: &Access| {
            let Some(file) = accesses.files().get(access.file as usize) else { return false };
            let user = accesses.users().get(access.user as usize).map_or("", String::as_str);
            let subject = Subject { path: file.key.as_str(), user, host: "", cgi: "", size: Some(file.size) };
            match decisions.decide(&subject) {
                Decision::Caching(caching) => caching.action == Action::Cache,
                Decision::NeedsSize => true,
            }
        };
        Self { admitted: Some(accesses.list().iter().map(is_cached).collect()) }
    }

    /// Those of these accesses whose data tier is one of `tiers`.
    #[must_use]
    pub fn only(&self, accesses: &Accesses, tiers: &[&str]) -> Self {
        let of_file = |file: &File| tiers.contains(&DataName::of(file.key.as_str()).tier);
        let by_file: Vec<bool> = accesses.files().iter().map(of_file).collect();
        let is_of_tier = |access: &Access| by_file.get(access.file as usize).copied().unwrap_or(false);
        let admitted = accesses.list().iter().enumerate();
        Self { admitted: Some(admitted.map(|(number, access)| self.includes(number) && is_of_tier(access)).collect()) }
    }

    fn includes(&self, number: usize) -> bool {
        self.admitted.as_ref().is_none_or(|admitted| admitted.get(number).copied().unwrap_or(true))
    }
}

/// Replays accesses, which must be sorted, through one cache that is empty at first.
///
/// A cache is one disk of `cell.size` bytes, used by nothing else. Files in use are purged like others. Takes 60 bytes of memory for
/// each file of the records, and 150 for each that is in the cache.
pub fn replay(accesses: &Accesses, admission: &Admission, scenario: &Scenario, cell: Cell) -> Outcome {
    let span_ms = accesses.span_ms().unwrap_or((0, 0));
    let mut replay = Replay::new(accesses, scenario, cell, span_ms);
    let mut clock = PeriodClock::new(span_ms);
    let mut number = 0;
    for (position, access) in accesses.list().iter().enumerate() {
        let now = clock.period_of(access.at_ms);
        if now != number {
            number = now;
            replay.begin_period(number);
        }
        let sums = if admission.includes(position) { replay.access(access) } else { bypassed(access.read) };
        if let Some(period) = replay.outcome.periods.get_mut(number) {
            *period += sums;
        }
    }
    replay.finish()
}

const fn bypassed(read: u64) -> Period {
    Period { accesses: 1, hits: 0, read, saved: 0, origin: read, bypassed: read }
}

struct Replay<'a> {
    /// The names of files, which hits do not need.
    names: &'a [File],
    ledger: Ledger,
    rules: PurgeRules,
    unit: Unit,
    size: u64,
    files: Vec<State>,
    /// Files with uses that are not reported yet. As in the server, uses are reported together: policies look at them only for a purge.
    used: Vec<u32>,
    /// Bytes and inodes that may be added before a purge is due.
    room: Footprint,
    has_quota: bool,
    /// A purge was necessary because the cache was full.
    was_full: bool,
    expiry_step_ms: Option<i64>,
    next_expiry_ms: i64,
    /// From then on ages of victims count.
    ages_from_ms: i64,
    ages_ms: i128,
    aged: u64,
    outcome: Outcome,
}

/// A file of the records, in the cache or not.
#[derive(Clone, Copy, Default)]
struct State {
    /// Bytes of it in the cache.
    present: u64,
    last_use_ms: i64,
    size: u64,
    /// Uses that are not reported to the ledger yet.
    unreported: u32,
    is_cached: bool,
}

/// Times that entries are looked for which were not used for too long, within the shortest time after which one goes.
const EXPIRY_STEPS: u32 = 50;

/// Limits of the interval between these looks, in milliseconds.
const EXPIRY_STEP_MS: (i64, i64) = (60_000, 86_400_000);

impl<'a> Replay<'a> {
    fn new(accesses: &'a Accesses, scenario: &Scenario, cell: Cell, span_ms: (i64, i64)) -> Self {
        let bytes = Budget { total: Some(cell.size), ..scenario.purge.bytes };
        let rules = PurgeRules { policy: cell.policy, bytes, free_min: None, ..scenario.purge.clone() };
        let expiry_step_ms = rules.lifetime_min().map(|lifetime| {
            let step = i64::try_from((lifetime / EXPIRY_STEPS).as_millis()).unwrap_or(i64::MAX);
            step.clamp(EXPIRY_STEP_MS.0, EXPIRY_STEP_MS.1)
        });
        let ledger = Ledger::new(&rules);
        let room = headroom(&rules, &[], &ledger).until_purge;
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
            ledger,
            unit: scenario.unit,
            size: cell.size,
            names: accesses.files(),
            used: Vec::new(),
            files: accesses.files().iter().map(|file| State { size: file.size, ..State::default() }).collect(),
            room,
            has_quota: rules.quotas.iter().any(|quota| quota.max_bytes.is_some()),
            was_full: false,
            rules,
            expiry_step_ms,
            next_expiry_ms: span_ms.0,
            ages_from_ms: span_ms.0 + span_ms.1.saturating_sub(span_ms.0) / 2,
            ages_ms: 0,
            aged: 0,
            outcome,
        }
    }

    fn begin_period(&mut self, number: usize) {
        if self.outcome.full_from.is_none() && self.was_full {
            self.outcome.full_from = Some(number);
        }
    }

    /// Takes an access to a file that is cached.
    fn access(&mut self, access: &Access) -> Period {
        let at_ms = access.at_ms;
        if self.expiry_step_ms.is_some_and(|_| at_ms >= self.next_expiry_ms) {
            self.expire(at_ms);
        }
        let id = EntryId(u64::from(access.file));
        let Some(state) = self.files.get_mut(access.file as usize) else { return Period::default() };
        let State { present, size, is_cached: was_cached, mut unreported, .. } = *state;
        let wanted = match self.unit {
            Unit::Read => access.read.min(size),
            Unit::File => size,
        };
        // As in the engine: what nearly fills the cache is kept in part.
        let kept_max = if size > self.size / 5 * 4 { self.size / 2 } else { u64::MAX };
        let now_present = present.max(wanted.min(kept_max));
        if was_cached {
            if unreported == 0 {
                self.used.push(access.file);
            }
            unreported = unreported.saturating_add(1);
        }
        *state = State { present: now_present, last_use_ms: at_ms, size, unreported, is_cached: true };
        let mut growth = Footprint::ZERO;
        let is_grown = !was_cached || now_present > present;
        if let (true, Some(file)) = (is_grown, self.names.get(access.file as usize)) {
            growth = Footprint::of_entry(now_present);
            if was_cached {
                growth = Footprint { inodes: 0, ..growth - Footprint::of_entry(present) };
                self.ledger.resized(id, &file.key, now_present);
            } else {
                self.ledger.insert(id, &file.key, 0, now_present, at_ms, 1);
            }
        }
        if !growth.is_zero() {
            self.grow(growth, at_ms);
        }
        let fetched = wanted.saturating_sub(present);
        let missed = if was_cached || self.unit == Unit::Read { fetched.min(access.read) } else { access.read };
        Period {
            accesses: 1,
            hits: u64::from(was_cached && fetched == 0),
            read: access.read,
            saved: access.read - missed,
            origin: fetched,
            bypassed: 0,
        }
    }

    /// Accounts growth, and purges when it is due.
    fn grow(&mut self, growth: Footprint, now_ms: i64) {
        let is_due = growth.bytes > self.room.bytes || growth.inodes > self.room.inodes;
        self.room -= growth;
        if !is_due && !self.has_quota {
            return;
        }
        self.report_uses();
        let goals = plan_purge(&self.rules, &[], &self.ledger);
        self.was_full |= goals.iter().any(|goal| goal.scope == Scope::All);
        let mut run = PurgeRun::new(&goals);
        while let Some(victim) = run.next(&mut self.ledger) {
            self.note_gone(victim.id, Some(now_ms));
            run.removed(&victim, &mut self.ledger);
        }
        self.finish_run(run, now_ms);
    }

    /// Reports the uses since the last purge, each file's together.
    fn report_uses(&mut self) {
        for file in self.used.drain(..) {
            if let Some(state) = self.files.get_mut(file as usize) {
                let times = u64::from(std::mem::take(&mut state.unreported));
                self.ledger.used(EntryId(u64::from(file)), state.last_use_ms, times);
            }
        }
    }

    fn expire(&mut self, now_ms: i64) {
        self.next_expiry_ms = now_ms.saturating_add(self.expiry_step_ms.unwrap_or(i64::MAX));
        self.report_uses();
        let (expired, _) = self.ledger.expired(now_ms, 0, usize::MAX);
        let mut run = PurgeRun::new(&[]);
        for id in expired {
            if let Some(victim) = run.next_expired(id, now_ms, &mut self.ledger) {
                self.note_gone(victim.id, None);
                run.removed(&victim, &mut self.ledger);
            }
        }
        self.finish_run(run, now_ms);
    }

    /// Forgets an entry that goes: for space, if `now_ms` is given.
    fn note_gone(&mut self, id: EntryId, now_ms: Option<i64>) {
        let state = usize::try_from(id.0).ok().and_then(|number| self.files.get_mut(number));
        let Some(state) = state else { return };
        let gone = *state;
        *state = State { size: gone.size, ..State::default() };
        self.outcome.purged_files += 1;
        if let Some(now_ms) = now_ms.filter(|now_ms| *now_ms >= self.ages_from_ms) {
            self.ages_ms += i128::from(now_ms) - i128::from(gone.last_use_ms);
            self.aged += 1;
        }
    }

    fn finish_run(&mut self, run: PurgeRun, now_ms: i64) {
        self.outcome.purged_bytes = self.outcome.purged_bytes.saturating_add(run.freed.bytes);
        run.finish(&mut self.ledger, now_ms);
        self.room = headroom(&self.rules, &[], &self.ledger).until_purge;
    }

    fn finish(mut self) -> Outcome {
        let mean = self.ages_ms.checked_div(i128::from(self.aged));
        self.outcome.eviction_age_ms = mean.and_then(|mean| i64::try_from(mean).ok());
        self.outcome.used = self.ledger.usage().bytes;
        self.outcome
    }
}

#[cfg(test)]
mod tests;
