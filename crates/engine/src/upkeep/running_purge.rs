//! A purge under way, whose caller may be cancelled.

use forebay_cache::{EntryId, Footprint, Goal, Ledger, PurgeRun, Victim};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// A purge under way. Dropped before its end, it gives back the victims that were not removed: else no purge would find them again.
pub(super) struct RunningPurge<'a> {
    /// `None` after its end.
    run: Option<PurgeRun>,
    /// Victims that were not removed.
    leaving: BTreeSet<EntryId>,
    ledger: &'a Mutex<Ledger>,
}

/// The result of a purge: removed files, their size, and the size that is still missing.
pub(super) struct Done {
    pub(super) files: u64,
    pub(super) freed: Footprint,
    pub(super) unmet: Footprint,
}

impl<'a> RunningPurge<'a> {
    pub(super) fn new(goals: &[Goal], ledger: &'a Mutex<Ledger>) -> Self {
        Self { run: Some(PurgeRun::new(goals)), leaving: BTreeSet::new(), ledger }
    }

    /// The next victims, at most `count`.
    pub(super) fn next(&mut self, count: usize) -> Vec<Victim> {
        self.take(|run, ledger| std::iter::from_fn(|| run.next(ledger)).take(count).collect())
    }

    /// Those of `ids` that have expired at `now_ms`, in milliseconds of the Unix epoch.
    pub(super) fn next_expired(&mut self, ids: &[EntryId], now_ms: i64) -> Vec<Victim> {
        self.take(|run, ledger| ids.iter().filter_map(|id| run.next_expired(*id, now_ms, ledger)).collect())
    }

    fn take(&mut self, take: impl FnOnce(&mut PurgeRun, &mut Ledger) -> Vec<Victim>) -> Vec<Victim> {
        let Some(run) = &mut self.run else { return Vec::new() };
        // Locked for each slice: writes account their growth in between.
        let slice = take(run, &mut self.ledger.lock());
        self.leaving.extend(slice.iter().map(|victim| victim.id));
        slice
    }

    /// The files of these victims are gone.
    pub(super) fn removed(&mut self, victims: &[Victim]) {
        let Some(run) = &mut self.run else { return };
        let mut ledger = self.ledger.lock();
        for victim in victims {
            run.removed(victim, &mut ledger);
            self.leaving.remove(&victim.id);
        }
    }

    /// These victims stay: they are in use, or were not removed.
    pub(super) fn refused(&mut self, victims: &[Victim]) {
        if let Some(run) = &mut self.run {
            victims.iter().for_each(|victim| run.refused(victim));
        }
    }

    /// Ends it at `now_ms`, in milliseconds of the Unix epoch.
    pub(super) fn finish(mut self, now_ms: i64) -> Done {
        let Some(run) = self.run.take() else {
            return Done { files: 0, freed: Footprint::ZERO, unmet: Footprint::ZERO };
        };
        let (files, freed) = (run.removed_count, run.freed);
        let unmet = run.finish(&mut self.ledger.lock(), now_ms).iter().map(|goal| goal.to_free).sum();
        Done { files, freed, unmet }
    }
}

impl Drop for RunningPurge<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let leaving: Vec<EntryId> = self.leaving.iter().copied().collect();
            run.give_up(&leaving, &mut self.ledger.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{CacheKey, PurgeRules, Scope};
    use forebay_types::PurgeReason;

    #[test]
    fn a_purge_that_is_cancelled_gives_its_victims_back() {
        let mut ledger = Ledger::new(&PurgeRules::default());
        let key = CacheKey::from_text("/f").expect("a key");
        (0..3).for_each(|number| ledger.insert(EntryId(number), &key, 0, 1 << 20, 0, 1));
        let usage = ledger.usage();
        let ledger = Mutex::new(ledger);
        let goal = Goal { scope: Scope::All, reason: PurgeReason::Space, to_free: usage };
        let mut cancelled = RunningPurge::new(&[goal], &ledger);
        let victims = cancelled.next(3);
        cancelled.removed(&victims[..1]);
        cancelled.refused(&victims[1..2]);
        drop(cancelled);
        assert_eq!(ledger.lock().usage().inodes, usage.inodes / 3 * 2);
        let again = RunningPurge::new(&[goal], &ledger).next(3);
        assert_eq!(again.iter().map(|victim| victim.id).collect::<Vec<_>>(), [victims[1].id, victims[2].id]);
    }
}
