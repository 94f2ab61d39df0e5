//! Which entries a purge takes.

use super::*;
use crate::{CacheKey, EntryId, PathPattern, Policy};
use forebay_types::{Lfn, PurgeReason, Share};
use proptest::prelude::*;
use std::time::Duration;

const GIB: u64 = 1 << 30;

fn key(path: &str) -> CacheKey {
    CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap()
}

fn percent(percent: u16) -> Mark {
    Mark::Share(Share::of_percent(percent))
}

fn amounts(high: u64, low: u64) -> Marks {
    Marks { high: Mark::Amount(high), low: Mark::Amount(low) }
}

fn rules(total: u64, marks: Marks) -> PurgeRules {
    let inodes = Budget { total: Some(u64::MAX), marks: amounts(u64::MAX, u64::MAX) };
    PurgeRules { bytes: Budget { total: Some(total), marks }, inodes, ..PurgeRules::default() }
}

fn quota(path: &str, min_bytes: u64, max_bytes: Option<u64>) -> Quota {
    Quota { path: Lfn::parse(path).unwrap(), min_bytes, max_bytes }
}

/// A ledger of `count` entries below `directory` that take `bytes` each; numbered and last used in this order.
fn fill(ledger: &mut Ledger, directory: &str, ids: std::ops::Range<u64>, bytes: u64) {
    for id in ids {
        let last_use_ms = i64::try_from(id).unwrap();
        ledger.insert(EntryId(id), &key(&format!("{directory}/{id}")), 0, bytes - 4096, last_use_ms, 1);
    }
}

/// A ledger under `rules` of `count` entries below /data that take `bytes` each.
fn filled(rules: &PurgeRules, count: u64, bytes: u64) -> Ledger {
    let mut ledger = Ledger::new(rules);
    fill(&mut ledger, "/data", 0..count, bytes);
    ledger
}

/// Runs a purge to its end; the entries that went, in order, and the goals not met.
fn purge(goals: &[Goal], ledger: &mut Ledger) -> (Vec<u64>, Vec<Goal>) {
    let mut run = PurgeRun::new(goals);
    let mut went = Vec::new();
    while let Some(victim) = run.next(ledger) {
        run.removed(&victim, ledger);
        went.push(victim.id.0);
    }
    (went, run.finish(ledger, i64::MAX))
}

#[test]
fn nothing_goes_below_the_high_mark_and_all_above_the_low_one_goes_beyond_it() {
    for (used, to_free) in [(0, None), (900, None), (901, Some(51)), (1000, Some(150)), (2000, Some(1150))] {
        let extent = Extent { total: 1000, used };
        let disk = DiskSpace { disk: 0, bytes: extent, inodes: None };
        let rules = PurgeRules { bytes: Budget { total: None, marks: amounts(900, 850) }, ..PurgeRules::default() };
        let goals = plan_purge(&rules, &[disk], &Ledger::new(&rules));
        let space =
            |bytes| Goal { scope: Scope::Disk(0), reason: PurgeReason::Space, to_free: Footprint { bytes, inodes: 0 } };
        assert_eq!(goals, to_free.map(space).into_iter().collect::<Vec<_>>(), "{used} used");
    }
}

/// XCache, configured so that its own files may take 300 (base), 500 (nominal) or 700 (maximum) of a file system of 1000, computes
/// that -300 must go when 901 are used, 600 by itself, and 5 were written since it last looked: it purges nothing.
#[test]
fn the_clamp_of_xcache_that_stops_its_purge_does_not_exist_here() {
    let mib = |count: u64| count << 20;
    let disk = DiskSpace { disk: 0, bytes: Extent { total: mib(1000), used: mib(901) }, inodes: None };
    let marks = amounts(mib(900), mib(850));
    let rules = PurgeRules { bytes: Budget { total: None, marks }, ..PurgeRules::default() };
    let mut ledger = filled(&rules, 600, mib(1));
    let (went, unmet) = purge(&plan_purge(&rules, &[disk], &ledger), &mut ledger);
    assert_eq!((went.len(), unmet), (51, vec![]));
}

#[test]
fn inodes_are_counted_like_bytes() {
    let inodes = Extent { total: 1000, used: 960 };
    let disk = DiskSpace { disk: 0, bytes: Extent { total: GIB, used: 0 }, inodes: Some(inodes) };
    let rules = PurgeRules::default();
    let mut ledger = filled(&rules, 480, 8192);
    let goals = plan_purge(&rules, &[disk], &ledger);
    assert_eq!(
        goals.iter().map(|goal| (goal.reason, goal.to_free.inodes)).collect::<Vec<_>>(),
        [(PurgeReason::Inodes, 60)]
    );
    assert_eq!(purge(&goals, &mut ledger).0, (0..30).collect::<Vec<_>>());

    let budget = Budget { total: Some(600), marks: Marks::default() };
    let rules = PurgeRules { inodes: budget, bytes: Budget { total: Some(GIB), ..Budget::default() }, ..rules };
    let (went, _) = purge(&plan_purge(&rules, &[disk], &ledger), &mut ledger);
    assert_eq!((went.len(), ledger.usage().inodes), (180, 540));
}

#[test]
fn free_min_is_kept_whatever_the_marks() {
    let disk = DiskSpace { disk: 0, bytes: Extent { total: 100 * GIB, used: 93 * GIB }, inodes: None };
    let rules = PurgeRules { free_min: Some(percent(10)), ..PurgeRules::default() };
    let mut ledger = filled(&rules, 90, GIB);
    let goals = plan_purge(&rules, &[disk], &ledger);
    assert_eq!(
        goals.iter().map(|goal| (goal.reason, goal.to_free.bytes)).collect::<Vec<_>>(),
        [(PurgeReason::FreeMin, 3 * GIB)]
    );
    assert_eq!(purge(&goals, &mut ledger).0, [0, 1, 2]);
    assert_eq!(headroom(&rules, &[disk], &ledger).until_full.bytes, 0);
}

#[test]
fn each_disk_is_purged_of_its_own_entries() {
    let rules = PurgeRules::default();
    let mut ledger = Ledger::new(&rules);
    for id in 0..100 {
        let disk = u16::try_from(id % 2).unwrap();
        ledger.insert(EntryId(id), &key(&format!("/f{id}")), disk, GIB - 4096, i64::try_from(id).unwrap(), 1);
    }
    let disk = |disk, used| DiskSpace { disk, bytes: Extent { total: 100 * GIB, used: used * GIB }, inodes: None };
    let goals = plan_purge(&rules, &[disk(0, 50), disk(1, 96)], &ledger);
    let (went, unmet) = purge(&goals, &mut ledger);
    assert_eq!((went, unmet), (vec![1, 3, 5, 7, 9, 11], vec![]));
    assert_eq!((ledger.disk_usage(0).bytes, ledger.disk_usage(1).bytes), (50 * GIB, 44 * GIB));
}

#[test]
fn a_quota_is_brought_below_its_maximum_and_others_are_left_alone() {
    let rules = PurgeRules { quotas: vec![quota("/user", 0, Some(20 * GIB))], ..rules(1000 * GIB, Marks::default()) };
    let mut ledger = filled(&rules, 30, GIB);
    fill(&mut ledger, "/user", 30..51, GIB);
    let (went, unmet) = purge(&plan_purge(&rules, &[], &ledger), &mut ledger);
    assert_eq!((went, unmet), (vec![30, 31], vec![]));
    assert_eq!(ledger.quota_usage(0).bytes, 19 * GIB);
    assert!(plan_purge(&rules, &[], &ledger).is_empty());
    assert!(!ledger.grew(&key("/user/50"), 0, Some(GIB), 2 * GIB - 4096));
    assert!(ledger.grew(&key("/user/50"), 0, Some(2 * GIB), 3 * GIB));
}

#[test]
fn guaranteed_bytes_of_a_quota_are_not_taken_for_others() {
    let rules =
        PurgeRules { quotas: vec![quota("/user", 3 * GIB, None)], ..rules(10 * GIB, amounts(8 * GIB, 2 * GIB)) };
    let mut ledger = Ledger::new(&rules);
    fill(&mut ledger, "/user", 0..5, GIB);
    fill(&mut ledger, "/data", 5..10, GIB);
    let (went, unmet) = purge(&plan_purge(&rules, &[], &ledger), &mut ledger);
    assert_eq!(went, [0, 1, 5, 6, 7, 8, 9]);
    assert_eq!(unmet.iter().map(|goal| goal.to_free.bytes).collect::<Vec<_>>(), [GIB]);
    assert_eq!(ledger.quota_usage(0).bytes, 3 * GIB);
}

#[test]
fn pinned_entries_stay_until_their_pin_ends() {
    let rules = rules(10 * GIB, amounts(4 * GIB, GIB));
    let mut ledger = filled(&rules, 10, GIB);
    ledger.pin(EntryId(0), 1000);
    ledger.pin(EntryId(1), 2000);
    ledger.pin(EntryId(2), 3000);
    ledger.unpin(EntryId(2));
    let (went, unmet) = purge(&plan_purge(&rules, &[], &ledger), &mut ledger);
    assert_eq!(went, (2..10).collect::<Vec<_>>());
    assert_eq!(unmet.len(), 1);
    assert_eq!(
        (ledger.pinned_until(EntryId(0)), ledger.pinned_until(EntryId(2)), ledger.pin_count()),
        (Some(1000), None, 2)
    );
    ledger.end_pins(1000);
    let all = Goal { scope: Scope::All, reason: PurgeReason::Requested, to_free: Footprint { bytes: GIB, inodes: 0 } };
    assert_eq!(purge(&[all], &mut ledger).0, [0]);
    assert!(PurgeRun::new(&[]).next_expired(EntryId(1), i64::MAX, &mut ledger).is_none(), "age spares pins too");
}

#[test]
fn entries_in_use_stay_and_others_go_in_their_place() {
    let rules = rules(10 * GIB, amounts(4 * GIB, 3 * GIB));
    let mut ledger = filled(&rules, 5, GIB);
    let mut run = PurgeRun::new(&plan_purge(&rules, &[], &ledger));
    // Two are asked for before either is answered.
    let first = run.next(&mut ledger).unwrap();
    let second = run.next(&mut ledger).unwrap();
    assert_eq!((first.id, second.id, run.next(&mut ledger)), (EntryId(0), EntryId(1), None));
    assert_eq!(ledger.usage().bytes, 3 * GIB);
    run.refused(&first);
    run.removed(&second, &mut ledger);
    let third = run.next(&mut ledger).unwrap();
    assert_eq!(third.id, EntryId(2), "the one that stays is not tried again");
    run.removed(&third, &mut ledger);
    assert_eq!(run.next(&mut ledger), None);
    assert_eq!((run.freed.bytes, run.removed_count), (2 * GIB, 2));
    assert_eq!(run.finish(&mut ledger, 100), []);
    assert_eq!(ledger.usage().bytes, 3 * GIB);
    let all = Goal { scope: Scope::All, reason: PurgeReason::Requested, to_free: Footprint { bytes: GIB, inodes: 0 } };
    assert_eq!(purge(&[all], &mut ledger).0, [3], "who was in use counts as used");
}

#[test]
fn a_run_in_which_everything_is_in_use_ends() {
    let rules = rules(10 * GIB, amounts(4 * GIB, 3 * GIB));
    let mut ledger = filled(&rules, 50, GIB);
    let goals = plan_purge(&rules, &[], &ledger);
    let mut run = PurgeRun::new(&goals);
    while let Some(victim) = run.next(&mut ledger) {
        run.refused(&victim);
    }
    assert_eq!(run.finish(&mut ledger, 100), goals);
    assert_eq!(ledger.usage().bytes, 50 * GIB);
}

#[test]
fn a_share_is_purged_to_on_request() {
    let ledger = filled(&PurgeRules::default(), 50, GIB);
    let share = Share::of_percent(80);
    let of = |goals: Vec<Goal>| goals.iter().map(|goal| (goal.scope, goal.to_free.bytes)).collect::<Vec<_>>();
    let budget = rules(100 * GIB, Marks::default());
    assert_eq!(
        of(plan_purge_to(share, &ledger)),
        [(Scope::All, 10 * GIB)],
        "of what the entries use, not of the budget"
    );
    assert_eq!(plan_purge_to(Share::of_percent(100), &ledger), []);
    assert_eq!(of(plan_purge_of_full_disk(&ledger, None).into_iter().collect()), [(Scope::All, GIB)]);
    let used = ledger.disk_usage(0).bytes;
    assert_eq!(of(plan_purge_of_full_disk(&ledger, Some(0)).into_iter().collect()), [(Scope::Disk(0), used / 50)]);
    assert_eq!(plan_purge_of_full_disk(&ledger, Some(9)), None);
    assert_eq!(plan_purge_of_full_disk(&Ledger::new(&budget), None), None);
}

#[test]
fn a_run_that_is_given_up_leaves_all_entries_as_they_were() {
    let mut ledger = filled(&PurgeRules::default(), 50, GIB);
    let goals = plan_purge_to(Share::of_percent(80), &ledger);
    let first = |ledger: &mut Ledger| {
        let mut run = PurgeRun::new(&goals);
        let victims: Vec<_> = std::iter::from_fn(|| run.next(ledger)).map(|victim| victim.id).collect();
        run.give_up(&victims, ledger);
        victims
    };
    let victims = first(&mut ledger);
    assert_eq!(victims.len(), 10);
    assert_eq!(ledger.usage().bytes, 50 * GIB);
    assert_eq!(first(&mut ledger), victims);
}

#[test]
fn the_longest_path_that_covers_an_entry_counts() {
    let quotas = ["/store", "/store/user", "/root:/o:1094/store"].map(|path| quota(path, 0, None));
    let of = |path: &str| super::plan::quota_of(&quotas, &key(path));
    assert_eq!(of("/store/data/f"), Some(0));
    assert_eq!(of("/store/user/f"), Some(1));
    assert_eq!(of("/store/user"), Some(1));
    assert_eq!(of("/store/users/f"), Some(0));
    assert_eq!(of("/stores"), None);
    let forwarded = CacheKey::forwarded(&"o".parse().unwrap(), &Lfn::parse("/store/f").unwrap()).unwrap();
    assert_eq!(super::plan::quota_of(&quotas, &forwarded), Some(2));
    assert_eq!(super::plan::quota_of(&[quota("/", 0, None)], &forwarded), Some(0));
}

/// Rules by which what was unused for longer than five milliseconds goes.
fn short_lives(expiries: Vec<Expiry>) -> PurgeRules {
    PurgeRules { age_max: Some(Duration::from_millis(5)), expiries, ..PurgeRules::default() }
}

#[test]
fn old_entries_are_found_in_pieces() {
    let mut ledger = filled(&short_lives(Vec::new()), 10, 8192);
    ledger.pin(EntryId(1), i64::MAX);
    assert_eq!(ledger.expired(10, 0, 4), (vec![EntryId(0), EntryId(2), EntryId(3)], Some(4)));
    assert_eq!(ledger.expired(10, 4, 100), (vec![EntryId(4)], None));
}

#[test]
fn entries_expire_by_path_and_owner_unless_they_are_used_or_pinned() {
    let rule = |path: &str, vo: Option<&str>, unused| Expiry {
        path: Some(PathPattern::parse(path).unwrap()),
        vo: vo.map(str::to_owned),
        unused,
    };
    let soon = Some(Duration::from_millis(1));
    let rules = short_lives(vec![rule("/short/**", Some("cms"), soon), rule("/short/**", None, None)]);
    let mut ledger = Ledger::new(&rules);
    fill(&mut ledger, "/short", 0..4, 8192);
    fill(&mut ledger, "/other", 4..5, 8192);
    ledger.owned(EntryId(1), &key("/short/1"), Some("cms"));
    ledger.owned(EntryId(2), &key("/short/2"), Some("atlas"));
    ledger.owned(EntryId(3), &key("/short/3"), Some("cms"));
    assert_eq!(ledger.expired(9, 0, 100), (vec![EntryId(1), EntryId(3)], None));
    assert_eq!(ledger.expired(10, 0, 100), (vec![EntryId(1), EntryId(3), EntryId(4)], None));
    let mut run = PurgeRun::new(&[]);
    let gone = run.next_expired(EntryId(1), 10, &mut ledger).unwrap();
    assert_eq!(gone.reason, PurgeReason::Expired);
    run.removed(&gone, &mut ledger);
    ledger.used(EntryId(3), 10, 1);
    assert!(run.next_expired(EntryId(3), 10, &mut ledger).is_none(), "it was used since it was found");
    assert!(run.next_expired(EntryId(2), 10, &mut ledger).is_none(), "it never expires");
    let open = run.next_expired(EntryId(4), 10, &mut ledger).unwrap();
    assert_eq!(open.reason, PurgeReason::Age);
    run.refused(&open);
    assert!(run.finish(&mut ledger, 10).is_empty());
    assert_eq!(ledger.expired(100, 0, 100).0, [EntryId(3), EntryId(4)]);
    ledger.pin(EntryId(3), i64::MAX);
    assert_eq!(ledger.expired(100, 0, 100).0, [EntryId(4)]);
    ledger.owned(EntryId(4), &key("/short/4"), None);
    assert_eq!(ledger.expired(100, 0, 100).0, []);
}

#[test]
fn entries_count_once_whatever_is_reported() {
    let mut ledger = Ledger::new(&PurgeRules::default());
    ledger.insert(EntryId(1), &key("/f"), 0, 0, 0, 1);
    ledger.insert(EntryId(1), &key("/f"), 0, 100_000, 0, 1);
    assert_eq!(ledger.usage(), Footprint { bytes: 4096, inodes: 2 });
    ledger.resized(EntryId(1), &key("/f"), 4097);
    ledger.resized(EntryId(2), &key("/g"), 4097);
    assert_eq!(ledger.usage(), Footprint { bytes: 12288, inodes: 2 });
    assert_eq!(ledger.removed(EntryId(1)), Footprint { bytes: 12288, inodes: 2 });
    assert_eq!(ledger.removed(EntryId(1)), Footprint::ZERO);
    assert_eq!((ledger.usage(), ledger.len()), (Footprint::ZERO, 0));
}

#[test]
fn growth_counts_at_once_and_only_once() {
    let mut ledger = Ledger::new(&PurgeRules::default());
    let bytes = |ledger: &Ledger| ledger.usage().bytes;
    ledger.grew(&key("/f"), 0, None, 0);
    assert_eq!(ledger.usage(), Footprint { bytes: 4096, inodes: 2 });
    ledger.grew(&key("/f"), 0, Some(0), 4096);
    ledger.grew(&key("/f"), 0, Some(4096), 8192);
    assert_eq!(bytes(&ledger), 12288);
    ledger.insert(EntryId(1), &key("/f"), 0, 4096, 0, 1);
    assert_eq!((ledger.usage(), ledger.len()), (Footprint { bytes: 12288, inodes: 2 }, 1));
    ledger.resized(EntryId(1), &key("/f"), 8192);
    assert_eq!(bytes(&ledger), 12288);
    // An entry that was there before this start.
    ledger.insert(EntryId(2), &key("/old"), 0, 4096, 0, 1);
    ledger.grew(&key("/old"), 0, Some(4096), 8192);
    assert_eq!(bytes(&ledger), 24576);
    // A new copy in place of one that was never reported.
    ledger.grew(&key("/g"), 0, None, 0);
    ledger.grew(&key("/g"), 0, Some(0), 40960);
    ledger.gone(&key("/g"));
    ledger.grew(&key("/g"), 0, None, 0);
    assert_eq!(ledger.usage(), Footprint { bytes: 24576 + 4096, inodes: 6 });
    ledger.gone(&key("/g"));
    assert_eq!(
        (ledger.removed(EntryId(1)), ledger.removed(EntryId(2))),
        (Footprint { bytes: 12288, inodes: 2 }, Footprint { bytes: 8192, inodes: 2 })
    );
    ledger.gone(&key("/old"));
    assert_eq!(ledger.usage(), Footprint::ZERO);
}

#[test]
fn growth_that_is_never_reported_is_forgotten_with_its_disk() {
    let mut ledger = Ledger::new(&PurgeRules::default());
    ledger.insert(EntryId(1), &key("/f"), 0, 4096, 0, 1);
    ledger.grew(&key("/f"), 0, Some(4096), 8192);
    ledger.grew(&key("/new"), 0, None, 8192);
    ledger.grew(&key("/there"), 1, None, 8192);
    ledger.forget_growth(0);
    assert_eq!((ledger.disk_usage(0), ledger.disk_usage(1)), (Footprint::of_entry(4096), Footprint::of_entry(8192)));
    ledger.grew(&key("/f"), 0, Some(4096), 8192);
    ledger.resized(EntryId(1), &key("/f"), 8192);
    assert_eq!(ledger.disk_usage(0), Footprint::of_entry(8192));
}

#[test]
fn no_victim_is_taken_from_a_disk_that_is_offline() {
    for policy in Policy::ALL {
        let mut ledger = Ledger::new(&PurgeRules { policy, ..short_lives(Vec::new()) });
        for (id, disk) in [(0, 1), (1, 0), (2, 1)] {
            ledger.insert(EntryId(id), &key(&format!("/{id}")), disk, 8192, 0, 1);
        }
        let to_free = Footprint { bytes: GIB, inodes: 0 };
        let all = Goal { scope: Scope::All, reason: PurgeReason::Requested, to_free };
        ledger.set_offline([1]);
        assert_eq!(ledger.expired(100, 0, 100).0, [EntryId(1)]);
        assert!(PurgeRun::new(&[]).next_expired(EntryId(0), 100, &mut ledger).is_none());
        assert_eq!(purge(&[all], &mut ledger).0, [1], "{policy:?}");
        ledger.set_offline([]);
        assert_eq!(purge(&[all], &mut ledger).0.len(), 2, "{policy:?}");
    }
}

#[test]
fn what_goes_without_a_report_leaves_the_sums_once() {
    let quotas = vec![quota("/q", 0, None)];
    let mut ledger = Ledger::new(&PurgeRules { quotas, ..PurgeRules::default() });
    let one = Footprint::of_entry(8192);
    ledger.insert(EntryId(1), &key("/q/reported"), 0, 8192, 0, 1);
    ledger.insert(EntryId(2), &key("/q/grown"), 0, 4096, 0, 1);
    ledger.grew(&key("/q/grown"), 0, Some(4096), 8192);
    ledger.grew(&key("/q/new"), 0, None, 8192);
    assert_eq!(ledger.usage(), one + one + one);
    for (path, left) in [("reported", one + one), ("grown", one), ("new", Footprint::ZERO)] {
        ledger.gone_unreported(&key(&format!("/q/{path}")), 0, one);
        assert_eq!((ledger.usage(), ledger.disk_usage(0), ledger.quota_usage(0)), (left, left, left), "{path}");
    }
}

#[test]
fn a_disk_at_its_margin_is_purged_whatever_the_marks() {
    let budget = Budget { total: Some(1000 * GIB), ..Budget::default() };
    let late = Budget { marks: Marks { high: percent(100), low: percent(100) }, ..Budget::default() };
    for bytes in [budget, late] {
        let rules = PurgeRules { bytes, inodes: bytes, ..PurgeRules::default() };
        let goals = |free: u64, free_inodes: u64| {
            let inodes = Some(Extent { total: 10_000, used: 10_000 - free_inodes });
            let disk = DiskSpace { disk: 3, bytes: Extent { total: 10_000, used: 10_000 - free }, inodes };
            let room = disk_headroom(&rules, &disk);
            let goals = plan_purge(&rules, &[disk], &Ledger::new(&rules));
            assert_eq!(room.bytes == 0 || room.inodes == 0, !goals.is_empty(), "a full disk is purged");
            goals.iter().map(|goal| (goal.scope, goal.to_free)).collect::<Vec<_>>()
        };
        assert_eq!(goals(101, 101), []);
        assert_eq!(goals(100, 101), [(Scope::Disk(3), Footprint { bytes: 100, inodes: 0 })]);
        assert_eq!(goals(101, 0), [(Scope::Disk(3), Footprint { bytes: 0, inodes: 200 })]);
    }
}

#[test]
fn headroom_ends_at_the_high_mark_and_at_the_budget() {
    let rules = rules(1000, Marks::default());
    let mut ledger = Ledger::new(&rules);
    assert_eq!(headroom(&rules, &[], &ledger).until_purge.bytes, 950);
    assert_eq!(headroom(&rules, &[], &ledger).until_full.bytes, 1000);
    ledger.insert(EntryId(1), &key("/f"), 0, 0, 0, 1);
    assert_eq!(headroom(&rules, &[], &ledger).until_full.bytes, 0);
    let file_system = DiskSpace { disk: 0, bytes: Extent { total: 1000, used: 900 }, inodes: None };
    let room = headroom(&PurgeRules::default(), &[file_system], &ledger);
    assert_eq!((room.until_purge.bytes, room.until_full), (50, Footprint { bytes: 90, inodes: u64::MAX }));
    let rules = PurgeRules { free_min: Some(percent(5)), ..PurgeRules::default() };
    let inodes = Some(Extent { total: 10_000, used: 9_000 });
    let room = |disk| disk_headroom(&rules, &DiskSpace { inodes, ..disk });
    assert_eq!(room(file_system), Footprint { bytes: 50, inodes: 900 });
    let large = DiskSpace { bytes: Extent { total: 100 << 40, used: 99 << 40 }, ..file_system };
    assert_eq!(disk_headroom(&PurgeRules::default(), &large).bytes, (1 << 40) - (256 << 20), "the margin is bounded");
    let two = headroom(&PurgeRules::default(), &[file_system, DiskSpace { disk: 1, ..file_system }], &ledger);
    assert_eq!(two.until_full.bytes, 180, "the cache is full when both disks are");
}

proptest! {
    #[test]
    fn runs_end_at_the_low_mark_and_spare_guarantees_and_pins(
        policy in prop::sample::select(&Policy::ALL[..]),
        sizes in prop::collection::vec((0_u64..4, 1_u64..64, 0_u8..8), 1..120),
        (high, low) in (0_u64..4000).prop_flat_map(|high| (Just(high), 0..=high)),
        guaranteed in 0_u64..1000,
        max in prop::option::of(0_u64..2000),
    ) {
        let unit = 4096;
        let min_bytes = guaranteed * unit;
        let max_bytes = max.map(|max| (max + guaranteed) * unit);
        let quotas = vec![quota("/q0", min_bytes, None), quota("/q1", 0, max_bytes)];
        let rules = PurgeRules { policy, quotas, ..rules(4000 * unit, amounts(high * unit, low * unit)) };
        let mut ledger = Ledger::new(&rules);
        let mut in_use = Vec::new();
        for (id, &(group, units, luck)) in (0_u64..).zip(&sizes) {
            ledger.insert(EntryId(id), &key(&format!("/q{group}/{id}")), 0, units * unit, 0, 1);
            match luck {
                0 => ledger.pin(EntryId(id), i64::MAX),
                1 => in_use.push(EntryId(id)),
                _ => {}
            }
        }
        let before = (ledger.usage(), ledger.quota_usage(0), ledger.quota_usage(1), ledger.pin_count());
        let goals = plan_purge(&rules, &[], &ledger);
        let mut run = PurgeRun::new(&goals);
        let (mut steps, mut last) = (0, 0);
        while let Some(victim) = run.next(&mut ledger) {
            steps += 1;
            prop_assert!(steps <= sizes.len());
            prop_assert_eq!(ledger.pinned_until(victim.id), None);
            if in_use.contains(&victim.id) {
                run.refused(&victim);
            } else {
                last = last.max(victim.footprint.bytes);
                run.removed(&victim, &mut ledger);
            }
        }
        let freed = run.freed;
        let unmet = run.finish(&mut ledger, 0);
        let after = (ledger.usage(), ledger.quota_usage(0), ledger.quota_usage(1));
        prop_assert_eq!(before.0 - freed, after.0);
        prop_assert_eq!(ledger.pin_count(), before.3);
        prop_assert!(after.1.bytes >= min_bytes.min(before.1.bytes), "a guarantee is not taken for others");
        if goals.is_empty() {
            prop_assert!(before.0.bytes <= high * unit || before.0.bytes <= low * unit);
            prop_assert_eq!(freed, Footprint::ZERO);
        } else {
            // One victim too many at most: for the space, or for the quota.
            let low_total = low * unit;
            let low_quota = max_bytes.map_or(u64::MAX, |max| max - max / 20);
            prop_assert!(after.0.bytes + last > low_total || after.2.bytes + last > low_quota);
            for goal in unmet {
                prop_assert!(!goal.to_free.is_zero());
            }
        }
    }
}
