//! Replays of the same records through several caches, on all cores.

use forebay_sizing::{Admission, Cell, Outcome, Replays};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// A replay to be made: the accesses that are admitted, and the cache.
pub(super) type Run<'a> = (&'a Admission, Cell);

/// The accesses and the rules that all replays of a comparison have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    pub(super) replays: &'a Replays<'a>,
    /// Replays at a time.
    pub(super) threads: usize,
}

impl Comparison<'_> {
    /// Makes replays; the outcomes are in the order of the runs.
    pub(super) fn replay_all(&self, runs: &[Run<'_>]) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::with_capacity(runs.len()));
        thread::scope(|scope| {
            for _ in 0..self.threads.clamp(1, runs.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        let Some((admission, cell)) = runs.get(number) else { return };
                        let outcome = self.replays.replay(admission, *cell);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }
}
