//! The simulation holds under fixed and under fresh seeds, and a seed decides its run.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

/// Seeds of each run of the tests; `make sim` takes more.
const FIXED_SEEDS: Range<u64> = 0..250;

/// Further seeds that differ from run to run.
const FRESH_SEEDS: u64 = 50;

fn hold(seeds: Range<u64>) {
    let count = seeds.end - seeds.start;
    let report = forebay_sim::run_seeds(seeds, |failure| eprintln!("{failure}"));
    assert!(report.failures.is_empty(), "{} of {count} seeds failed", report.failures.len());
    assert!(report.structures > count / 10, "the simulation must read ahead by the structure of ROOT files");
    assert!(report.compared_bytes > count * 10_000, "the simulation must read something");
}

#[test]
fn everything_holds_under_fixed_seeds() {
    hold(FIXED_SEEDS);
}

#[test]
fn everything_holds_under_fresh_seeds() {
    // Beyond the seeds of any `make sim`, and short enough to type.
    let from = (1 << 32) + RandomState::new().hash_one(0) % (1 << 32);
    println!("replay: cargo run -p forebay-sim -- --seeds {FRESH_SEEDS} --from {from}");
    hold(from..from + FRESH_SEEDS);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(forebay_sim::run(seed), forebay_sim::run(seed));
    }
}
