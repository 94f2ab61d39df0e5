//! How policies order entries, one by one and all alike.

use super::*;
use crate::EntryId;
use proptest::prelude::*;
use std::collections::BTreeMap;

const HERE: Partition = Partition { disk: 0, quota: None };
const THERE: Partition = Partition { disk: 1, quota: Some(3) };

fn entry(id: u64, bytes: u64, last_use_ms: i64) -> NewEntry {
    let facts = Facts { id: EntryId(id), partition: HERE, bytes, last_use_ms, expiry: None };
    NewEntry { facts, uses: 1, key_hash: u32::try_from(id).unwrap() }
}

/// Takes victims until there are none and returns their order.
fn order(policy: &mut dyn Replacement) -> Vec<u64> {
    let next = || {
        let (_, facts) = policy.next(&|_| true)?;
        policy.remove(facts.id);
        Some(facts.id.0)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn names_of_policies_are_understood() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_name(policy.as_str()), Some(policy));
    }
    assert_eq!(Policy::from_name("LRU"), None);
}

#[test]
fn lru_takes_the_entry_that_was_not_used_for_the_longest_time() {
    let mut lru = Policy::Lru.build(Entries::sparse());
    for (id, last_use_ms) in [(1, 30), (2, 10), (3, 20), (4, -5)] {
        lru.insert(entry(id, 1, last_use_ms));
    }
    lru.used(EntryId(2), 40, 1);
    assert_eq!(order(&mut *lru), [4, 3, 1, 2]);
}

#[test]
fn gdsf_takes_large_entries_before_small_ones_and_rare_before_frequent() {
    let mut gdsf = Policy::Gdsf.build(Entries::sparse());
    for (id, bytes) in [(1, 1 << 20), (2, 4 << 20), (3, 4 << 20), (4, 64 << 20)] {
        gdsf.insert(entry(id, bytes, 0));
    }
    for _ in 0..20 {
        gdsf.used(EntryId(4), 1, 1);
    }
    gdsf.used(EntryId(3), 1, 1);
    // Uses per MiB: 1, 1/4, 2/4, 21/64.
    assert_eq!(order(&mut *gdsf), [2, 4, 3, 1]);
}

#[test]
fn gdsf_evicts_formerly_popular_entries_in_the_end() {
    let mut gdsf = Policy::Gdsf.build(Entries::sparse());
    gdsf.insert(entry(0, 4096, 0));
    for _ in 0..9 {
        gdsf.used(EntryId(0), 0, 1);
    }
    // Each victim raises what the next entry starts with.
    let went = (1..100).find(|&id| {
        gdsf.insert(entry(id, 4096, 0));
        let victim = gdsf.next(&|_| true).unwrap().1.id;
        gdsf.remove(victim);
        victim == EntryId(0)
    });
    assert_eq!(went, Some(10));
}

#[test]
fn s3_fifo_resists_scans_and_keeps_reused_entries() {
    let mut s3_fifo = Policy::S3Fifo.build(Entries::sparse());
    for id in 0..10 {
        s3_fifo.insert(entry(id, 1, i64::try_from(id).unwrap()));
        s3_fifo.used(EntryId(id), 10, 1);
        s3_fifo.used(EntryId(id), 10, 1);
    }
    let mut went = Vec::new();
    for id in 100..200 {
        s3_fifo.insert(entry(id, 1, 100));
        let victim = s3_fifo.next(&|_| true).unwrap().1.id;
        s3_fifo.remove(victim);
        went.push(victim.0);
    }
    // Until the scan has a tenth of the bytes, it takes them from the main queue.
    assert_eq!(went.iter().filter(|&&id| id < 100).count(), 1, "{went:?}");
}

#[test]
fn s3_fifo_knows_entries_that_come_back() {
    let mut s3_fifo = Policy::S3Fifo.build(Entries::sparse());
    s3_fifo.insert(NewEntry { key_hash: 7, ..entry(1, 1, 0) });
    assert_eq!(order(&mut *s3_fifo), [1]);
    s3_fifo.insert(NewEntry { key_hash: 7, ..entry(2, 1, 1) });
    s3_fifo.insert(NewEntry { key_hash: 8, ..entry(3, 1, 2) });
    assert_eq!(order(&mut *s3_fifo), [3, 2]);
}

#[test]
fn s3_fifo_spares_an_entry_of_the_main_queue_once_for_each_use() {
    let mut s3_fifo = Policy::S3Fifo.build(Entries::sparse());
    for id in 1..=3 {
        s3_fifo.insert(NewEntry { uses: 2, ..entry(id, 1, i64::try_from(id).unwrap()) });
    }
    s3_fifo.used(EntryId(1), 10, 1);
    assert_eq!(order(&mut *s3_fifo), [2, 3, 1]);
}

#[test]
fn s3_fifo_moves_entries_that_it_spares_to_the_end_also_within_one_millisecond() {
    for entries in [Entries::sparse(), Entries::dense(10)] {
        let mut s3_fifo = Policy::S3Fifo.build(entries);
        for id in 1..=3 {
            s3_fifo.insert(NewEntry { uses: 2, ..entry(id, 1, 7) });
        }
        s3_fifo.used(EntryId(1), 7, 3);
        s3_fifo.used(EntryId(2), 7, 1);
        assert_eq!(order(&mut *s3_fifo), [3, 2, 1]);
    }
}

#[test]
fn parked_entries_are_no_victims() {
    for policy in Policy::ALL {
        let mut replacement = policy.build(Entries::sparse());
        for id in 1..=3 {
            replacement.insert(entry(id, 1, i64::try_from(id).unwrap()));
        }
        replacement.park(EntryId(1));
        replacement.park(EntryId(1));
        replacement.used(EntryId(1), 5, 1);
        replacement.resized(EntryId(1), 2);
        assert_eq!(order(&mut *replacement), [2, 3], "{policy:?}");
        let (_, parked) = replacement.entries().of(EntryId(1)).unwrap();
        assert_eq!((parked.facts.bytes, parked.facts.last_use_ms), (2, 5));
        replacement.unpark(EntryId(1));
        replacement.unpark(EntryId(1));
        assert_eq!(order(&mut *replacement), [1], "{policy:?}");
    }
}

#[test]
fn victims_are_sought_where_they_may_be() {
    for policy in Policy::ALL {
        let mut replacement = policy.build(Entries::sparse());
        replacement.insert(entry(1, 1, 1));
        let there = entry(2, 1, 2);
        replacement.insert(NewEntry { facts: Facts { partition: THERE, ..there.facts }, ..there });
        let found = replacement.next(&|facts| facts.partition == THERE).map(|(_, facts)| facts.id);
        assert_eq!(found, Some(EntryId(2)), "{policy:?}");
        assert_eq!(replacement.next(&|_| true).map(|(_, facts)| facts.id), Some(EntryId(1)), "{policy:?}");
        assert_eq!(replacement.next(&|_| false), None, "{policy:?}");
    }
}

#[test]
fn scans_see_every_entry_once_in_pieces() {
    for policy in Policy::ALL {
        let mut replacement = policy.build(Entries::sparse());
        (0..10).for_each(|id| assert!(replacement.insert(entry(id, 1, 0))));
        replacement.remove(EntryId(4));
        replacement.park(EntryId(5));
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            from = replacement.entries().scan(start, 3, &mut |facts| seen.push(facts.id.0));
        }
        assert_eq!(seen, [0, 1, 2, 3, 6, 7, 8, 9], "{policy:?}");
    }
}

/// A call of a policy.
#[derive(Clone, Debug)]
enum Event {
    Insert(u64, u64),
    Used(u64),
    Resized(u64, u64),
    Removed(u64),
    Park(u64),
    Unpark(u64),
    Victim,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let id = 0_u64..20;
    let event = prop_oneof![
        3 => (id.clone(), 0_u64..1_000_000).prop_map(|(id, bytes)| Event::Insert(id, bytes)),
        3 => id.clone().prop_map(Event::Used),
        2 => (id.clone(), 0_u64..1_000_000).prop_map(|(id, bytes)| Event::Resized(id, bytes)),
        1 => id.clone().prop_map(Event::Removed),
        1 => id.clone().prop_map(Event::Park),
        1 => id.prop_map(Event::Unpark),
        3 => Just(Event::Victim),
    ];
    prop::collection::vec(event, 0..200)
}

proptest! {
    #[test]
    fn every_policy_knows_exactly_the_entries_that_are_there(events in events()) {
        for (policy, is_dense) in Policy::ALL.into_iter().flat_map(|policy| [(policy, false), (policy, true)]) {
            let mut replacement = policy.build(if is_dense { Entries::dense(20) } else { Entries::sparse() });
            // Bytes, and whether it is parked.
            let mut model: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
            for (event, now_ms) in events.iter().zip(0..) {
                match *event {
                    Event::Insert(id, bytes) => {
                        replacement.insert(entry(id, bytes, now_ms));
                        model.entry(id).or_insert((bytes, false));
                    }
                    Event::Used(id) => replacement.used(EntryId(id), now_ms, 1),
                    Event::Resized(id, bytes) => {
                        replacement.resized(EntryId(id), bytes);
                        if let Some(known) = model.get_mut(&id) {
                            known.0 = bytes;
                        }
                    }
                    Event::Removed(id) => {
                        let went = replacement.remove(EntryId(id)).map(|record| record.facts.bytes);
                        prop_assert_eq!(went, model.remove(&id).map(|(bytes, _)| bytes));
                    }
                    Event::Park(id) => {
                        replacement.park(EntryId(id));
                        model.entry(id).and_modify(|known| known.1 = true);
                    }
                    Event::Unpark(id) => {
                        replacement.unpark(EntryId(id));
                        model.entry(id).and_modify(|known| known.1 = false);
                    }
                    Event::Victim => {
                        let victim = replacement.next(&|_| true).map(|(_, facts)| (facts.id.0, facts.bytes));
                        prop_assert_eq!(victim.is_some(), model.values().any(|(_, is_parked)| !is_parked));
                        if let Some((id, bytes)) = victim {
                            prop_assert_eq!(model.remove(&id), Some((bytes, false)));
                            replacement.remove(EntryId(id));
                        }
                    }
                }
                prop_assert_eq!(replacement.entries().len(), model.len());
            }
            let mut rest = order(&mut *replacement);
            rest.sort_unstable();
            let victims: Vec<u64> = model.iter().filter(|(_, known)| !known.1).map(|(id, _)| *id).collect();
            prop_assert_eq!(rest, victims);
        }
    }
}

/// A policy that looks at all entries for the lowest rank, as a model of the ranked ones.
#[derive(Default)]
struct Scan {
    entries: BTreeMap<u64, Scanned>,
    inflation: f64,
}

#[derive(Clone, Copy)]
struct Scanned {
    rank: f64,
    partition: Partition,
    uses: u8,
    bytes: u64,
    is_parked: bool,
}

impl Scan {
    fn rank(&self, policy: Policy, entry: &Scanned, now_ms: i64) -> f64 {
        match policy {
            Policy::Gdsf => self.inflation + f64::from(entry.uses) / entry.bytes.div_ceil(4096).max(1) as f64,
            Policy::Lru | Policy::S3Fifo => now_ms as f64,
        }
    }

    /// The entries of the lowest rank of a partition, any one of which may go.
    fn firsts(&self, partition: Partition) -> Vec<u64> {
        let there = || self.entries.iter().filter(|(_, entry)| !entry.is_parked && entry.partition == partition);
        let lowest = there().map(|(_, entry)| entry.rank).fold(f64::INFINITY, f64::min);
        there().filter(|(_, entry)| entry.rank <= lowest).map(|(id, _)| *id).collect()
    }
}

proptest! {
    #[test]
    fn ranked_policies_take_what_has_the_lowest_rank(events in events(), elsewhere in any::<u32>()) {
        for (policy, is_dense) in [(Policy::Lru, false), (Policy::Lru, true), (Policy::Gdsf, false), (Policy::Gdsf, true)] {
            let mut replacement = policy.build(if is_dense { Entries::dense(20) } else { Entries::sparse() });
            let mut scan = Scan::default();
            for (event, now_ms) in events.iter().zip(0..) {
                match *event {
                    Event::Insert(id, bytes) => {
                        let partition = if elsewhere >> id & 1 == 1 { THERE } else { HERE };
                        let new = entry(id, bytes, now_ms);
                        replacement.insert(NewEntry { facts: Facts { partition, ..new.facts }, ..new });
                        let mut scanned = Scanned { rank: 0.0, partition, uses: 1, bytes, is_parked: false };
                        scanned.rank = scan.rank(policy, &scanned, now_ms);
                        scan.entries.entry(id).or_insert(scanned);
                    }
                    Event::Used(id) => {
                        replacement.used(EntryId(id), now_ms, 1);
                        if let Some(mut scanned) = scan.entries.get(&id).copied() {
                            scanned.uses += 1;
                            scanned.rank = scan.rank(policy, &scanned, now_ms);
                            scan.entries.insert(id, scanned);
                        }
                    }
                    Event::Removed(id) => {
                        replacement.remove(EntryId(id));
                        scan.entries.remove(&id);
                    }
                    Event::Resized(id, bytes) if policy == Policy::Gdsf => {
                        replacement.resized(EntryId(id), bytes);
                        if let Some(mut scanned) = scan.entries.get(&id).copied() {
                            scanned.bytes = bytes;
                            scanned.rank = scan.rank(policy, &scanned, now_ms);
                            scan.entries.insert(id, scanned);
                        }
                    }
                    Event::Park(id) => {
                        replacement.park(EntryId(id));
                        scan.entries.entry(id).and_modify(|entry| entry.is_parked = true);
                    }
                    Event::Unpark(id) => {
                        replacement.unpark(EntryId(id));
                        // It comes back by its rank as of now, which with GDSF counts from what went meanwhile.
                        if let Some(mut scanned) = scan.entries.get(&id).copied().filter(|entry| entry.is_parked) {
                            scanned.is_parked = false;
                            if policy == Policy::Gdsf {
                                scanned.rank = scan.rank(policy, &scanned, now_ms);
                            }
                            scan.entries.insert(id, scanned);
                        }
                    }
                    Event::Resized(..) | Event::Victim => {
                        let partition = if now_ms % 2 == 0 { THERE } else { HERE };
                        let firsts = scan.firsts(partition);
                        let victim = replacement.next(&|facts| facts.partition == partition).map(|(_, facts)| facts.id.0);
                        prop_assert_eq!(victim.is_some(), !firsts.is_empty());
                        if let Some(id) = victim {
                            prop_assert!(firsts.contains(&id), "{} of {:?}", id, firsts);
                            let gone = scan.entries.remove(&id).unwrap();
                            scan.inflation = scan.inflation.max(gone.rank);
                            replacement.remove(EntryId(id));
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn postponed_upkeep_gives_the_same_victims(events in prop::collection::vec(events(), 0..4)) {
        for policy in Policy::ALL {
            let victims = |entries: Entries| {
                let mut replacement = policy.build(entries);
                let mut victims = Vec::new();
                for (event, now_ms) in events.iter().flatten().zip(0..) {
                    match *event {
                        Event::Insert(id, bytes) => {
                            replacement.insert(entry(id, bytes, now_ms / 3));
                        }
                        Event::Used(id) => replacement.used(EntryId(id), now_ms / 3, 1),
                        Event::Resized(id, bytes) => {
                            replacement.resized(EntryId(id), bytes);
                        }
                        Event::Removed(id) => {
                            replacement.remove(EntryId(id));
                        }
                        Event::Park(id) => replacement.park(EntryId(id)),
                        Event::Unpark(id) => replacement.unpark(EntryId(id)),
                        Event::Victim => {
                            if let Some((_, facts)) = replacement.next(&|_| true) {
                                replacement.remove(facts.id);
                                victims.push(facts);
                            }
                        }
                    }
                }
                victims.extend(std::iter::from_fn(|| {
                    let (_, facts) = replacement.next(&|_| true)?;
                    replacement.remove(facts.id);
                    Some(facts)
                }));
                victims
            };
            prop_assert_eq!(victims(Entries::sparse()), victims(Entries::dense(20)), "{:?}", policy);
        }
    }
}
