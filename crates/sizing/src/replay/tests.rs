//! Tests of the replay.

use super::*;
use forebay_cache::{Budget, CacheKey, CachingDecision, Expiry, Mark, Marks, PathPattern, Quota, Rule};
use forebay_types::{Lfn, Share};
use proptest::prelude::*;
use std::time::Duration;

/// Bytes that an entry takes in addition to its data.
const RECORD: u64 = 4096;

fn scenario() -> Scenario {
    let all = Mark::Share(Share::ALL);
    let bytes = Budget { total: None, marks: Marks { high: all, low: all } };
    Scenario { purge: PurgeRules { bytes, ..PurgeRules::default() }, unit: Unit::File, ..Scenario::default() }
}

/// Accesses to files of these sizes in units of 4 KiB, each as a whole.
fn accesses(sizes: &[u64], order: &[usize]) -> Accesses {
    let mut accesses = Accesses::default();
    for (position, file) in order.iter().enumerate() {
        let size = sizes[*file] * 4096;
        let at_ms = i64::try_from(position).unwrap();
        let access = Access { at_ms, file: 0, user: 0, read: size, saved: Access::UNKNOWN };
        accesses.add(CacheKey::from_text(&format!("/f{file}")).unwrap(), Some(size), "", access).unwrap();
    }
    accesses.sort();
    accesses
}

/// Hits and their bytes by a list of files, the one used last at its end: written independently of the cache's code.
fn brute_force(sizes: &[u64], order: &[usize], cache: u64) -> (u64, u64) {
    let mut list: Vec<usize> = Vec::new();
    let (mut hits, mut saved) = (0, 0);
    for &file in order {
        if let Some(position) = list.iter().position(|other| *other == file) {
            list.remove(position);
            hits += 1;
            saved += sizes[file] * 4096;
        }
        list.push(file);
        let taken = |list: &[usize]| list.iter().map(|file| sizes[*file] * 4096 + RECORD).sum::<u64>();
        while taken(&list) > cache {
            list.remove(0);
        }
    }
    (hits, saved)
}

fn run(accesses: &Accesses, scenario: &Scenario, policy: Policy, size: u64) -> Outcome {
    let admission = Admission::by_rules(accesses, scenario);
    Replays::new(accesses, scenario).replay(&admission, Cell { policy, size })
}

fn total(periods: &[Period]) -> Period {
    let mut sums = Period::default();
    periods.iter().for_each(|period| sums += *period);
    sums
}

proptest! {
    #[test]
    fn lru_by_bytes_is_that_of_a_list(
        sizes in prop::collection::vec(1_u64..50, 1..30),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..400),
        cache in 64_u64..2000,
    ) {
        let order: Vec<usize> = picks.iter().map(|pick| pick.index(sizes.len())).collect();
        let accesses = accesses(&sizes, &order);
        let size = cache * 4096;
        let outcome = run(&accesses, &scenario(), Policy::Lru, size);
        let sums = total(&outcome.periods);
        prop_assert_eq!((sums.hits, sums.saved), brute_force(&sizes, &order, size));
        prop_assert_eq!(sums.accesses, order.len() as u64);
        prop_assert_eq!(sums.read, sums.saved + sums.origin);
        prop_assert!(outcome.used <= size);
    }
}

/// One access: path, time in hours, bytes read, size of the file.
type Row = (&'static str, i64, u64, u64);

fn table(rows: &[Row]) -> Accesses {
    let mut accesses = Accesses::default();
    for (path, hour, read, size) in rows {
        let access = Access { at_ms: hour * 3_600_000, file: 0, user: 0, read: *read, saved: Access::UNKNOWN };
        accesses.add(CacheKey::from_text(path).unwrap(), Some(*size), "ann", access).unwrap();
    }
    accesses.sort();
    accesses
}

const MIB: u64 = 1 << 20;

#[test]
fn an_entry_grows_by_what_is_read_of_it() {
    let rows = [
        ("/a", 0, MIB, 9 * MIB),
        ("/a", 1, 3 * MIB, 9 * MIB),
        ("/a", 2, 20 * MIB, 9 * MIB),
        ("/a", 3, 9 * MIB, 9 * MIB),
    ];
    let accesses = table(&rows);
    let sums = total(&run(&accesses, &Scenario::default(), Policy::Lru, 1 << 40).periods);
    assert_eq!((sums.read, sums.origin, sums.saved, sums.hits), (33 * MIB, 9 * MIB, 24 * MIB, 1));
    let whole = Scenario { unit: Unit::File, ..Scenario::default() };
    let sums = total(&run(&accesses, &whole, Policy::Lru, 1 << 40).periods);
    assert_eq!((sums.read, sums.origin, sums.saved, sums.hits), (33 * MIB, 9 * MIB, 32 * MIB, 3));
}

#[test]
fn a_file_that_nearly_fills_the_cache_is_kept_in_part() {
    let rows = [("/a", 0, 9 * MIB, 9 * MIB), ("/a", 1, 9 * MIB, 9 * MIB)];
    let outcome = run(&table(&rows), &Scenario::default(), Policy::Lru, 10 * MIB);
    let sums = total(&outcome.periods);
    assert_eq!((sums.saved, sums.origin, sums.hits), (5 * MIB, 13 * MIB, 0));
    assert_eq!(outcome.used, 5 * MIB + RECORD);
}

#[test]
fn quotas_expiry_and_rules_are_those_of_the_cache() {
    let rows = [
        ("/q/a", 0, MIB, MIB),
        ("/q/b", 1, MIB, MIB),
        ("/q/a", 2, MIB, MIB),
        ("/x", 3, MIB, MIB),
        ("/x", 300, MIB, MIB),
        ("/q/b", 301, MIB, MIB),
    ];
    let accesses = table(&rows);
    let hits = |scenario: &Scenario| total(&run(&accesses, scenario, Policy::Lru, 1 << 40).periods).hits;
    assert_eq!(hits(&Scenario::default()), 3);
    let purge = |rules| Scenario { purge: rules, ..Scenario::default() };
    // Room for one of two files.
    let quotas = vec![Quota { path: Lfn::parse("/q").unwrap(), min_bytes: 0, max_bytes: Some(2 * MIB) }];
    assert_eq!(hits(&purge(PurgeRules { quotas, ..PurgeRules::default() })), 1);
    let unused = Some(Duration::from_secs(10 * 86_400));
    let expiries = vec![Expiry { path: PathPattern::parse("/q/*").ok(), vo: None, unused }];
    assert_eq!(hits(&purge(PurgeRules { expiries, ..PurgeRules::default() })), 2);
    assert_eq!(hits(&purge(PurgeRules { age_max: unused, ..PurgeRules::default() })), 1);
    let caching = CachingDecision { action: Action::Bypass, ..CachingDecision::default() };
    let decisions = Rules::new(vec![Rule {
        path: PathPattern::parse("/q/*").ok(),
        user: Some("a*".to_owned()),
        caching,
        ..Rule::default()
    }]);
    let scenario = Scenario { decisions, ..Scenario::default() };
    let sums = total(&run(&accesses, &scenario, Policy::Lru, 1 << 40).periods);
    assert_eq!((sums.hits, sums.bypassed, sums.accesses), (1, 4 * MIB, 6));
}

#[test]
fn only_files_of_the_tiers_are_admitted() {
    let aod = "/store/mc/Run3/DY/MINIAODSIM/v1/a";
    let nano = "/store/mc/Run3/DY/NANOAODSIM/v1/a";
    let accesses = table(&[(aod, 0, 1, 1), (nano, 1, 1, 1), (aod, 2, 1, 1), (nano, 3, 1, 1)]);
    let tiers = Tiers::new(&accesses);
    let admission =
        Admission::by_rules(&accesses, &Scenario::default()).only(&accesses, Unit::Read, &tiers, &["NANOAODSIM"]);
    let cell = Cell { policy: Policy::Lru, size: MIB };
    let sums = total(&Replays::new(&accesses, &Scenario::default()).replay(&admission, cell).periods);
    assert_eq!((sums.hits, sums.bypassed), (1, 2));
}

#[test]
fn the_age_of_victims_and_the_first_full_period_are_reported() {
    // Each hour another of ten files; five fit, so each is evicted five hours after its use.
    let paths = ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"];
    let rows: Vec<Row> =
        (0..600_i64).map(|hour| (paths[usize::try_from(hour % 10).unwrap()], hour, MIB, MIB)).collect();
    let outcome = run(&table(&rows), &scenario(), Policy::Lru, 5 * (MIB + RECORD));
    assert_eq!(total(&outcome.periods).hits, 0);
    assert_eq!(outcome.eviction_age_ms, Some(5 * 3_600_000));
    assert_eq!(outcome.full_from, Some(1));
    assert_eq!(run(&table(&rows), &scenario(), Policy::Lru, 1 << 40).full_from, None);
}

/// Numbers that look like chance and are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Accesses to parts of files; some files are read often, and times have gaps.
fn drawn(seed: u64) -> Accesses {
    let mut numbers = Numbers(seed);
    let mut accesses = Accesses::default();
    let mut at_ms = 0;
    for _ in 0..4000 {
        at_ms += i64::try_from(numbers.below(3_600_000) * numbers.below(5)).unwrap();
        let most = 1 + numbers.below(600);
        let file = numbers.below(most);
        let size = (1 + file * 7919 % 97) * MIB;
        let read = if numbers.below(3) == 0 { size } else { 1 + numbers.below(size) };
        let access = Access { at_ms, file: 0, user: 0, read, saved: Access::UNKNOWN };
        let folder = if file.is_multiple_of(5) { "q" } else { "x" };
        let key = CacheKey::from_text(&format!("/{folder}/f{file}")).unwrap();
        accesses.add(key, Some(size), "ann", access).unwrap();
    }
    accesses.sort();
    accesses
}

/// All parts of an outcome.
fn numbers_of(outcome: &Outcome) -> Vec<u64> {
    let mut numbers = vec![outcome.size, outcome.purged_files, outcome.purged_bytes, outcome.used];
    numbers.push(outcome.full_from.map_or(0, |period| period as u64 + 1));
    numbers.push(outcome.eviction_age_ms.unwrap_or(-1).cast_unsigned());
    for period in &outcome.periods {
        let Period { accesses, hits, read, saved, origin, bypassed } = *period;
        numbers.extend([accesses, hits, read, saved, origin, bypassed]);
    }
    numbers
}

#[test]
fn outcomes_are_the_same_to_the_last_bit_as_ever() {
    let day = Duration::from_secs(86_400);
    let quotas = vec![
        Quota { path: Lfn::parse("/q").unwrap(), min_bytes: 0, max_bytes: Some(500 * MIB) },
        Quota { path: Lfn::parse("/x").unwrap(), min_bytes: 300 * MIB, max_bytes: None },
    ];
    let expiries = vec![Expiry { path: PathPattern::parse("/q/*").ok(), vo: None, unused: Some(5 * day) }];
    let ruled = PurgeRules { quotas, expiries, age_max: Some(20 * day), ..PurgeRules::default() };
    let scenarios = [
        scenario(),
        Scenario::default(),
        Scenario { unit: Unit::File, ..Scenario::default() },
        Scenario { purge: ruled, ..Scenario::default() },
    ];
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for seed in 0..8 {
        let accesses = drawn(seed);
        for scenario in &scenarios {
            for policy in Policy::ALL {
                for size in [150 * MIB, 1500 * MIB, 8000 * MIB] {
                    for number in numbers_of(&run(&accesses, scenario, policy, size)) {
                        digest = (digest ^ number).wrapping_mul(0x0100_0000_01b3);
                    }
                }
            }
        }
    }
    assert_eq!(digest, DIGEST, "{digest:#x}");
}

/// Computed since S3-FIFO keeps the order of entries that it spares within one millisecond.
const DIGEST: u64 = 0xcdd8_dca0_0cf1_0874;
