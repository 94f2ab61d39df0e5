//! Runs of many seeds on all cores.

use crate::{Failure, run};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

/// The outcome of many runs.
#[derive(Debug, Default)]
pub struct Report {
    pub compared_bytes: u64,
    pub structures: u64,
    pub failures: Vec<Failure>,
}

/// Simulates each of `seeds`. A failure is passed to `on_failure` at once: a long run shows it before its end.
///
/// # Panics
/// If a simulation panics outside of its tasks.
pub fn run_seeds(seeds: Range<u64>, on_failure: impl Fn(&Failure) + Sync) -> Report {
    let next = AtomicU64::new(seeds.start);
    let simulate = || {
        let mut report = Report::default();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return report;
            }
            match run(seed) {
                Ok(summary) => {
                    report.compared_bytes += summary.compared_bytes;
                    report.structures += summary.structures;
                }
                Err(failure) => {
                    on_failure(&failure);
                    report.failures.push(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(simulate)).collect();
        running.into_iter().fold(Report::default(), |mut all, thread| {
            let report = thread.join().expect("runs catch the panics of their tasks");
            all.compared_bytes += report.compared_bytes;
            all.structures += report.structures;
            all.failures.extend(report.failures);
            all
        })
    })
}
