//! Files of access records and of jobs: reading never panics, and accesses that were read can be replayed.

#![no_main]

use forebay_cache::Policy;
use forebay_sizing::{
    Admission, Cell, Import, JobImport, Join, Ratios, Replays, Scenario, Summary, Unit, Window, measured,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (mut import, mut jobs) = (Import::default(), JobImport::default());
    import.begin();
    jobs.begin();
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let _ = import.line(line);
        let _ = jobs.line(line);
    }
    let accesses = import.finish();
    let join = Join::new(&accesses);
    for job in jobs.finish() {
        let input = join.input(&job);
        assert!(input.saved <= input.read);
    }
    let Some(span_ms) = accesses.span_ms() else { return };
    let scenario = Scenario::default();
    let admission = Admission::by_rules(&accesses, &scenario);
    let cell = Cell { policy: Policy::Lru, size: 1 << 20 };
    let outcome = Replays::new(&accesses, &scenario).replay(&admission, cell);
    let window = Window::after(0, span_ms);
    let summary = Summary::of(&accesses, Unit::Read);
    assert_eq!(Ratios::of(&outcome.periods, window).sums.accesses, summary.accesses);
    let _ = measured(&accesses, window);
});
