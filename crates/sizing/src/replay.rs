//! Replay of accesses through the cache's own ledger, policy, marks, quotas and rules.

use crate::{
    access::{Access, Accesses, File},
    block_replay::BlockReplay,
    outcome::{Outcome, Period, PeriodClock},
    simulated_cache::{Holder, SimulatedCache, bypassed, is_oversized},
    tiers::Tiers,
};
use forebay_cache::{
    Action, CachingDecision, Decision, EntryId, Footprint, KeyClass, Ledger, Policy, PurgeRules, Rules, Subject,
};
use forebay_types::BlockSize;

/// The rules that all compared caches have in common.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Rules of purges. Policy and size are those of each [`Cell`].
    pub purge: PurgeRules,
    /// The rules that decide whether a file is cached. No record has the host and the opaque data of a request.
    pub decisions: Rules,
    pub unit: Unit,
    /// Block size of files for which the rules name none.
    pub block_size: BlockSize,
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
        /// The blocks that each request of a trace needs, as in a server without read-ahead.
        Block = "block",
    }
}

/// A cache without rules.
impl Default for Scenario {
    fn default() -> Self {
        let (purge, decisions) = (PurgeRules::default(), Rules::default());
        Self { purge, decisions, unit: Unit::default(), block_size: BlockSize::DEFAULT }
    }
}

impl Scenario {
    /// The decision of the rules about an open of file number `file` by user number `user`.
    pub(crate) fn decision(&self, accesses: &Accesses, file: u32, user: u32) -> CachingDecision {
        let Some(file) = accesses.files().get(file as usize) else { return CachingDecision::default() };
        let user = accesses.users().get(user as usize).map_or("", String::as_str);
        let subject = Subject { path: file.key.as_str(), user, host: "", cgi: "", size: Some(file.size) };
        match self.decisions.decide(&subject) {
            Decision::Caching(caching) => caching,
            Decision::NeedsSize => CachingDecision::default(),
        }
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
    /// By access, by open if the requests of a trace are replayed; `None` for all.
    admitted: Option<Vec<bool>>,
}

impl Admission {
    /// The accesses that the rules of `scenario` cache.
    pub fn by_rules(accesses: &Accesses, scenario: &Scenario) -> Self {
        if scenario.decisions == Rules::default() {
            return Self { admitted: None };
        }
        let is_cached = |(file, user): (u32, u32)| scenario.decision(accesses, file, user).action == Action::Cache;
        Self { admitted: Some(subjects(accesses, scenario.unit).map(is_cached).collect()) }
    }

    /// Those of these accesses whose data tier is one of `names`.
    #[must_use]
    pub fn only(&self, accesses: &Accesses, unit: Unit, tiers: &Tiers<'_>, names: &[&str]) -> Self {
        let by_tier: Vec<bool> = tiers.names().iter().map(|name| names.contains(name)).collect();
        let is_of_tier = |file: u32| tiers.of(file).and_then(|tier| by_tier.get(tier)) == Some(&true);
        let admitted = subjects(accesses, unit).enumerate();
        Self { admitted: Some(admitted.map(|(number, (file, _))| self.includes(number) && is_of_tier(file)).collect()) }
    }

    pub(crate) fn includes(&self, number: usize) -> bool {
        self.admitted.as_ref().is_none_or(|admitted| admitted.get(number).copied().unwrap_or(true))
    }
}

/// File and user of each access, or of each open of a trace.
fn subjects(accesses: &Accesses, unit: Unit) -> Box<dyn Iterator<Item = (u32, u32)> + '_> {
    match unit {
        Unit::Read | Unit::File => Box::new(accesses.list().iter().map(|access| (access.file, access.user))),
        Unit::Block => Box::new(accesses.requests().opens().iter().map(|open| (open.file, open.user))),
    }
}

/// Replays of the same accesses, which must be sorted, through several caches.
#[derive(Debug)]
pub struct Replays<'a> {
    accesses: &'a Accesses,
    scenario: &'a Scenario,
    /// Classes of files, by their numbers.
    classes: Vec<KeyClass>,
}

impl<'a> Replays<'a> {
    pub fn new(accesses: &'a Accesses, scenario: &'a Scenario) -> Self {
        let classes = accesses.files().iter().map(|file| scenario.purge.class_of(&file.key)).collect();
        Self { accesses, scenario, classes }
    }

    pub const fn accesses(&self) -> &'a Accesses {
        self.accesses
    }

    pub const fn unit(&self) -> Unit {
        self.scenario.unit
    }

    /// Replays the accesses through one cache that is empty at first.
    ///
    /// A cache is one disk of `cell.size` bytes, used by nothing else. By blocks, files in use
    /// are not purged; otherwise they are like others. Takes 32 bytes of memory
    /// for each file of the records, and 150 for each that is in the cache.
    pub fn replay(&self, admission: &Admission, cell: Cell) -> Outcome {
        let mut clock = PeriodClock::new(self.accesses.span_ms().unwrap_or_default());
        if self.scenario.unit == Unit::Block {
            return BlockReplay::new(self.accesses, &self.classes, self.scenario, admission, cell).run(clock);
        }
        let mut replay = Replay::new(self, cell);
        for (position, access) in self.accesses.list().iter().enumerate() {
            let number = clock.period_of(access.at_ms);
            replay.cache.begin(number);
            let sums = if admission.includes(position) { replay.access(access) } else { bypassed(access.read) };
            replay.cache.add(number, &sums);
        }
        replay.cache.finish()
    }
}

struct Replay<'a> {
    /// The names of files and their classes, which hits do not need.
    names: &'a [File],
    classes: &'a [KeyClass],
    unit: Unit,
    size: u64,
    cache: SimulatedCache,
    files: Files,
}

/// The files of the records.
struct Files {
    states: Vec<State>,
    /// Files with uses that are not reported yet. As in the server, uses are reported together: policies look at them only for a purge.
    used: Vec<u32>,
}

/// A file of the records, in the cache or not. Aligned, because each access reads another one from memory.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct State {
    /// Bytes of it in the cache.
    present: u64,
    last_use_ms: i64,
    size: u64,
    /// Uses that are not reported to the ledger yet.
    unreported: u32,
    is_cached: bool,
}

impl Holder for Files {
    fn is_open(&self, _: EntryId) -> bool {
        false
    }

    fn report_uses(&mut self, ledger: &mut Ledger) {
        for file in self.used.drain(..) {
            if let Some(state) = self.states.get_mut(file as usize) {
                let times = u64::from(std::mem::take(&mut state.unreported));
                ledger.used(EntryId(u64::from(file)), state.last_use_ms, times);
            }
        }
    }

    fn forget(&mut self, id: EntryId) -> Option<i64> {
        let state = usize::try_from(id.0).ok().and_then(|number| self.states.get_mut(number))?;
        let gone = std::mem::replace(state, State { size: state.size, ..State::default() });
        Some(gone.last_use_ms)
    }
}

impl<'a> Replay<'a> {
    fn new(replays: &'a Replays<'_>, cell: Cell) -> Self {
        let Replays { accesses, scenario, classes } = replays;
        let states = accesses.files().iter().map(|file| State { size: file.size, ..State::default() }).collect();
        Self {
            names: accesses.files(),
            classes,
            unit: scenario.unit,
            size: cell.size,
            cache: SimulatedCache::new(
                &scenario.purge,
                cell,
                accesses.files().len(),
                accesses.span_ms().unwrap_or_default(),
            ),
            files: Files { states, used: Vec::new() },
        }
    }

    /// Takes an access to a file that is cached.
    fn access(&mut self, access: &Access) -> Period {
        let at_ms = access.at_ms;
        self.cache.expire_if_due(at_ms, &mut self.files);
        let id = EntryId(u64::from(access.file));
        let Some(state) = self.files.states.get_mut(access.file as usize) else { return Period::default() };
        let State { present, size, is_cached: was_cached, mut unreported, .. } = *state;
        let wanted = match self.unit {
            Unit::Read | Unit::Block => access.read.min(size),
            Unit::File => size,
        };
        // As in the engine: what nearly fills the cache is kept in part.
        let kept_max = if is_oversized(size, self.size) { self.size / 2 } else { u64::MAX };
        let now_present = present.max(wanted.min(kept_max));
        if was_cached {
            if unreported == 0 {
                self.files.used.push(access.file);
            }
            unreported = unreported.saturating_add(1);
        }
        *state = State { present: now_present, last_use_ms: at_ms, size, unreported, is_cached: true };
        let mut growth = Footprint::ZERO;
        if !was_cached || now_present > present {
            growth = Footprint::of_entry(now_present);
            let ledger = &mut self.cache.ledger;
            if was_cached {
                growth = Footprint { inodes: 0, ..growth - Footprint::of_entry(present) };
                if let Some(file) = self.names.get(access.file as usize) {
                    ledger.resized(id, &file.key, now_present);
                }
            } else if let Some(class) = self.classes.get(access.file as usize) {
                ledger.insert_classified(id, *class, 0, now_present, at_ms, 1);
            }
        }
        if !growth.is_zero() {
            self.cache.grow(growth, at_ms, &mut self.files);
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
}

#[cfg(test)]
mod tests;
