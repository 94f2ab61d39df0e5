//! A thousand seeds, and that a seed is a run.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

/// Seeds of a run of the tests; `make sim` takes more.
const SEEDS: u64 = 1000;

#[test]
fn everything_holds_under_a_thousand_seeds() {
    let (next, compared) = (AtomicU64::new(0), AtomicU64::new(0));
    let simulate = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= SEEDS {
                return failures;
            }
            match forebay_sim::run(seed) {
                Ok(summary) => drop(compared.fetch_add(summary.compared_bytes, Relaxed)),
                Err(failure) => failures.push(failure.to_string()),
            }
        }
    };
    let failures = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(simulate)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compared.into_inner() > SEEDS * 10_000, "the simulation must read something");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(forebay_sim::run(seed), forebay_sim::run(seed));
    }
}
