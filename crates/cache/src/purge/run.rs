//! A purge under way.

use super::{Footprint, Goal, Ledger};
use crate::{
    EntryId,
    replacement::{Facts, Partition},
};
use forebay_types::PurgeReason;

/// One purge: hands out victims until its goals are met, or nothing more may go.
///
/// Each victim that [`Self::next`] gives is answered once: by [`Self::removed`] when its files are gone, by [`Self::refused`]
/// if it stays because it is in use. [`Self::finish`] comes last.
#[derive(Debug)]
pub struct PurgeRun {
    goals: Vec<Progress>,
    refused: Vec<EntryId>,
    /// The amount freed so far.
    pub freed: Footprint,
    /// How many entries went so far.
    pub removed_count: u64,
}

#[derive(Debug)]
struct Progress {
    goal: Goal,
    /// Room of the victims so far, without those that stayed.
    taken: Footprint,
    is_hopeless: bool,
}

impl Progress {
    fn left(&self) -> Footprint {
        self.goal.to_free - self.taken
    }
}

/// An entry that is to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Victim {
    pub id: EntryId,
    pub footprint: Footprint,
    pub reason: PurgeReason,
    /// In milliseconds of the Unix epoch.
    pub last_use_ms: i64,
    partition: Partition,
}

impl PurgeRun {
    /// A run towards `goals`; they are pursued in their order, and each victim counts for all of them that it lies in.
    pub fn new(goals: &[Goal]) -> Self {
        let goals = goals.iter().map(|&goal| Progress { goal, taken: Footprint::ZERO, is_hopeless: false }).collect();
        Self { goals, refused: Vec::new(), freed: Footprint::ZERO, removed_count: 0 }
    }

    /// The next victim; `None` when all goals are met, or nothing more may go.
    pub fn next(&mut self, ledger: &mut Ledger) -> Option<Victim> {
        let mut found = None;
        for progress in self.goals.iter_mut().filter(|progress| !progress.is_hopeless && !progress.left().is_zero()) {
            if let Some(facts) = ledger.take_next(progress.goal.scope) {
                found = Some((facts, progress.goal.reason));
                break;
            }
            progress.is_hopeless = true;
        }
        let (facts, reason) = found?;
        Some(self.take(facts, reason))
    }

    /// An entry that was not used for too long at `now_ms` (milliseconds of the Unix epoch), whatever the goals are; `None` when
    /// it is pinned, leaving already, or was used meanwhile.
    pub fn next_expired(&mut self, id: EntryId, now_ms: i64, ledger: &mut Ledger) -> Option<Victim> {
        let (facts, reason) = ledger.take_expired(id, now_ms)?;
        Some(self.take(facts, reason))
    }

    fn take(&mut self, facts: Facts, reason: PurgeReason) -> Victim {
        let footprint = Footprint::of_facts(facts.bytes);
        let Facts { id, partition, last_use_ms, .. } = facts;
        let victim = Victim { id, footprint, reason, last_use_ms, partition };
        self.each_goal_of(&victim, |progress| progress.taken += footprint);
        victim
    }

    /// The victim's files are gone.
    pub fn removed(&mut self, victim: &Victim, ledger: &mut Ledger) {
        self.freed += ledger.removed(victim.id);
        self.removed_count += 1;
    }

    /// The victim stays: it is open, or could not be removed. It is not tried again in this run.
    pub fn refused(&mut self, victim: &Victim) {
        self.each_goal_of(victim, |progress| progress.taken -= victim.footprint);
        self.refused.push(victim.id);
    }

    /// Ends a run that only finds out what would go: `victims`, all of those that it gave, stay as they were.
    pub fn give_up(self, victims: &[EntryId], ledger: &mut Ledger) {
        victims.iter().for_each(|id| ledger.stay(*id));
    }

    /// Ends the run: those who stayed count as used at `now_ms` (milliseconds of the Unix epoch), so that the next run does
    /// not begin with them. Returns the goals that were not met, with what is left of them.
    pub fn finish(self, ledger: &mut Ledger, now_ms: i64) -> Vec<Goal> {
        for id in self.refused {
            ledger.used(id, now_ms, 0);
            ledger.stay(id);
        }
        let unmet = self.goals.into_iter().filter(|progress| !progress.left().is_zero());
        unmet.map(|progress| Goal { to_free: progress.left(), ..progress.goal }).collect()
    }

    fn each_goal_of(&mut self, victim: &Victim, change: impl Fn(&mut Progress)) {
        self.goals.iter_mut().filter(|progress| progress.goal.scope.includes(victim.partition)).for_each(change);
    }
}
