//! The cache within its bounds: what is removed, what stays, and that no client reads a wrong byte meanwhile.

use crate::house::{BLOCK, House, check, open_data_files, options, request, run, until};
use forebay_cache::{Budget, CacheKey, Expiry, Mark, Marks, PathPattern, PurgeRules, Quota};
use forebay_engine::{Caller, Evicted, IndexState, Options, PurgeOptions};
use forebay_index::{Found, InMemoryBackend, Index, IndexError, IndexFile, IndexOptions, IndexPlace, StorageBackend};
use forebay_telemetry::BlockCheck;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Lfn, Outcome, PurgeReason};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, MIB);

/// A file of one MiB takes this much.
const TAKES: u64 = MIB + 4096;

fn amounts(high: u64, low: u64) -> Marks {
    Marks { high: Mark::Amount(high), low: Mark::Amount(low) }
}

/// Rules of a budget in bytes alone.
fn rules(total: u64, high: u64, low: u64) -> PurgeRules {
    let bytes = Budget { total: Some(total), marks: amounts(high, low) };
    PurgeRules { bytes, ..unlimited() }
}

fn unlimited() -> PurgeRules {
    let none = Budget { total: Some(u64::MAX), marks: amounts(u64::MAX, u64::MAX) };
    PurgeRules { bytes: none, inodes: none, ..PurgeRules::default() }
}

fn with(rules: PurgeRules) -> Options {
    let purge = PurgeOptions { rules, interval: Duration::from_millis(100) };
    Options { purge, sync_interval: Duration::from_millis(50), ..options() }
}

fn house(root: &Path, rules: PurgeRules) -> House {
    House::build_with(root, MemoryOrigin::new(MIB), with(rules))
}

fn key(path: &str) -> CacheKey {
    CacheKey::fixed(&Lfn::parse(path).expect("a good path")).expect("a name of an entry")
}

/// Reads a whole file and closes it when it is on disk.
async fn keep(house: &House, path: &str) {
    let handle = house.open(path).await;
    check(&handle, WHOLE).await;
    until(|| handle.hit(WHOLE).is_some()).await;
}

/// Entries in the index.
fn indexed(house: &House) -> u64 {
    match house.engine.index_state() {
        IndexState::Off | IndexState::Loading => 0,
        IndexState::Rebuilding { files } | IndexState::Ready { files, .. } => files,
    }
}

/// Waits until every file is closed and the index and the accounts know all of them, whole ones.
async fn settle(house: &House, root: &Path, files: u64) {
    until(|| open_data_files(root) == 0).await;
    until(|| indexed(house) == files).await;
    while used_bytes(house).await != files * TAKES {
        tokio::task::yield_now().await;
    }
}

async fn used_bytes(house: &House) -> u64 {
    house.engine.usage().await.used.bytes
}

fn member_of(organization: Option<&str>) -> Arc<Caller> {
    let mut caller = Caller::operator("tester").as_ref().clone();
    Arc::make_mut(&mut caller.client).organization = organization.map(str::to_owned);
    Arc::new(caller)
}

#[test]
fn the_longest_unused_files_go_when_the_budget_is_short() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), rules(10 * TAKES, 8 * TAKES, 5 * TAKES));
        for number in 0..8 {
            keep(&house, &format!("/d/{number}")).await;
        }
        settle(&house, root.path(), 8).await;
        assert_eq!(house.engine.metrics().purged_files(PurgeReason::Space), 0, "nothing goes at the mark");
        keep(&house, "/e/8").await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Space) == 4).await;
        settle(&house, root.path(), 5).await;
        assert_eq!(used_bytes(&house).await, 5 * TAKES);
        assert!(root.path().join("e/8").exists(), "the newest stays");
        assert_eq!(std::fs::read_dir(root.path().join("d")).unwrap().count(), 8, "with the records");
    });
}

#[test]
fn the_budget_holds_under_readers_and_every_byte_is_right() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let total = 16 * TAKES;
        let high = 12 * TAKES;
        let low = 8 * TAKES;
        let house = Arc::new(house(root.path(), rules(total, high, low)));
        let held = house.open("/held").await;
        check(&held, WHOLE).await;
        until(|| held.hit(WHOLE).is_some()).await;
        let readers: Vec<_> = (0..8_u64)
            .map(|reader| {
                let house = Arc::clone(&house);
                tokio::spawn(async move {
                    for round in 0..25_u64 {
                        let number = (reader * 7 + round * 5) % 24;
                        let handle = house.open(&format!("/d{}/{number}", number % 3)).await;
                        check(&handle, ByteRange::at((round % 16) * BLOCK, MIB - (round % 16) * BLOCK)).await;
                        // Bytes in flight come on top; nothing is kept beyond the budget.
                        assert!(used_bytes(&house).await <= total + 8 * TAKES);
                    }
                })
            })
            .collect();
        for reader in readers {
            reader.await.unwrap();
        }
        assert!(held.hit(WHOLE).is_some());
        check(&held, WHOLE).await;
        assert!(root.path().join("held").exists(), "an open file is not removed");
        drop(held);
        until(|| open_data_files(root.path()) == 0).await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Space) > 0).await;
        while used_bytes(&house).await > high {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn inodes_have_a_budget_too() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let inodes = Budget { total: Some(40), marks: amounts(20, 10) };
        let origin = MemoryOrigin::new(1);
        let house = House::build_with(root.path(), origin, with(PurgeRules { inodes, ..unlimited() }));
        for number in 0..60 {
            let handle = house.open(&format!("/{number}")).await;
            check(&handle, ByteRange::at(0, 1)).await;
        }
        until(|| open_data_files(root.path()) == 0).await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Inodes) > 0).await;
        while house.engine.usage().await.used.inodes > 20 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn files_expire_by_path_and_by_the_organization_that_fetched_them() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let path = |text| Some(PathPattern::parse(text).unwrap());
        let unused = Some(Duration::from_secs(1));
        let of_cms = Expiry { path: path("/user/**"), vo: Some("cms".to_owned()), unused };
        let house = house(root.path(), PurgeRules { expiries: vec![of_cms], ..unlimited() });
        for (name, organization) in [("/user/a", Some("cms")), ("/user/b", Some("atlas")), ("/user/c", None)] {
            let client = member_of(organization);
            let handle = house.engine.open(&request(name), &client).await.unwrap();
            check(&handle, WHOLE).await;
        }
        // A later client does not make it theirs.
        let late = member_of(Some("cms"));
        drop(house.engine.open(&request("/user/b"), &late).await.unwrap());
        let open = house.engine.open(&request("/user/open"), &late).await.unwrap();
        check(&open, WHOLE).await;
        drop(house.engine.open(&request("/elsewhere"), &late).await.unwrap());
        until(|| house.engine.metrics().purged_files(PurgeReason::Expired) == 1).await;
        assert!(!root.path().join("user/a").exists());
        assert!(["user/b", "user/c", "user/open"].iter().all(|name| root.path().join(name).exists()));
        let owner = house.engine.entry(&key("/user/b")).await.unwrap().unwrap().record.owner;
        assert_eq!(owner.as_deref(), Some("atlas"));
        drop(open);
        until(|| house.engine.metrics().purged_files(PurgeReason::Expired) == 2).await;
        assert!(!root.path().join("user/open").exists());
    });
}

#[test]
fn files_that_were_not_used_for_too_long_go_although_there_is_room() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let age_max = Some(Duration::from_secs(1));
        let house = house(root.path(), PurgeRules { age_max, ..unlimited() });
        keep(&house, "/old/1").await;
        let open = house.open("/open/2").await;
        check(&open, WHOLE).await;
        until(|| !root.path().join("old").exists()).await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Age) == 1).await;
        assert!(root.path().join("open/2").exists());
    });
}

#[test]
fn a_quota_is_held_and_a_guarantee_kept() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let quota = |path, min_bytes, max_bytes| Quota { path: Lfn::parse(path).unwrap(), min_bytes, max_bytes };
        let quotas = vec![quota("/group", 3 * TAKES, None), quota("/user", 0, Some(4 * TAKES))];
        let house = house(root.path(), PurgeRules { quotas, ..rules(20 * TAKES, 9 * TAKES, 4 * TAKES) });
        for number in 0..3 {
            keep(&house, &format!("/group/{number}")).await;
        }
        for number in 0..6 {
            keep(&house, &format!("/user/{number}")).await;
        }
        until(|| house.engine.metrics().purged_files(PurgeReason::Quota) >= 2).await;
        for number in 0..8 {
            keep(&house, &format!("/other/{number}")).await;
        }
        until(|| open_data_files(root.path()) == 0).await;
        while used_bytes(&house).await > 9 * TAKES {
            tokio::task::yield_now().await;
        }
        let usage = house.engine.usage().await;
        assert_eq!(usage.quotas[0].used.bytes, 3 * TAKES, "older than all others, and guaranteed");
        assert!(usage.quotas[1].used.bytes <= 4 * TAKES);
    });
}

#[test]
fn pinned_files_stay_until_they_are_unpinned() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), unlimited());
        for number in 0..3 {
            keep(&house, &format!("/{number}")).await;
        }
        settle(&house, root.path(), 3).await;
        assert!(house.engine.pin(&key("/0"), i64::MAX).await.unwrap());
        assert!(house.engine.pin(&key("/1"), 1000).await.unwrap(), "a pin that has expired long ago");
        assert!(!house.engine.pin(&key("/none"), i64::MAX).await.unwrap());
        assert_eq!(house.engine.evict(&key("/0"), false).await.unwrap(), Evicted::Pinned);
        let preview = house.engine.purge_to(0.0, true).await.unwrap();
        assert_eq!((preview.files, preview.unmet.bytes), (2, TAKES));
        assert_eq!(used_bytes(&house).await, 3 * TAKES, "a preview removes nothing");
        let report = house.engine.purge_to(0.0, false).await.unwrap();
        assert_eq!((report.files, report.unmet.bytes), (2, TAKES));
        assert!(root.path().join("0").exists());
        assert!(house.engine.unpin(&key("/0")).await.unwrap());
        assert_eq!(house.engine.purge_to(0.0, false).await.unwrap().files, 1);
        assert_eq!(used_bytes(&house).await, 0);
        assert!(house.engine.purge_to(1.5, false).await.is_err());
    });
}

#[test]
fn a_preview_counts_no_open_file() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), unlimited());
        for number in 0..3 {
            keep(&house, &format!("/{number}")).await;
        }
        settle(&house, root.path(), 3).await;
        until(|| open_data_files(root.path()) == 0).await;
        let open = house.open("/0").await;
        let preview = house.engine.purge_to(0.0, true).await.unwrap();
        assert_eq!((preview.files, preview.refused, preview.unmet.bytes), (2, 1, TAKES));
        drop(open);
        until(|| open_data_files(root.path()) == 0).await;
        assert_eq!(house.engine.purge_to(0.0, true).await.unwrap().files, 3);
    });
}

#[test]
fn evictions_tell_what_became_of_the_file() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), unlimited());
        assert_eq!(house.engine.evict(&key("/f"), false).await.unwrap(), Evicted::NotCached);
        let handle = house.open("/f").await;
        check(&handle, WHOLE).await;
        until(|| handle.hit(WHOLE).is_some()).await;
        assert_eq!(house.engine.evict(&key("/f"), false).await.unwrap(), Evicted::Open);
        assert_eq!(house.engine.evict(&key("/f"), true).await.unwrap(), Evicted::Removed { bytes: MIB });
        check(&handle, WHOLE).await;
        assert!(!root.path().join("f").exists());
        drop(handle);
        keep(&house, "/f").await;
        assert_eq!(house.origin.opens(), 2, "the next open has begun a new copy");
        settle(&house, root.path(), 1).await;
        assert_eq!(house.engine.evict(&key("/f"), false).await.unwrap(), Evicted::Removed { bytes: MIB });
        assert!(!root.path().join("f").exists() && !root.path().join("f.cinfo").exists());
        assert_eq!(house.engine.metrics().purged_files(PurgeReason::Evicted), 2);
        assert_eq!(used_bytes(&house).await, 0);
    });
}

#[test]
fn a_file_that_is_evicted_while_it_is_synced_with_others_is_gone() {
    const FILES: u64 = 12;
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), unlimited());
        // As long as one hangs, no other sync begins: then all the others are due together.
        house.faults.sync_hangs.store(true, SeqCst);
        keep(&house, "/first").await;
        until(|| house.faults.syncs.load(SeqCst) == 1).await;
        for number in 0..FILES {
            keep(&house, &format!("/d/{number}")).await;
        }
        house.faults.records_held.store(true, SeqCst);
        house.faults.sync_hangs.store(false, SeqCst);
        until(|| house.faults.records_written.load(SeqCst) == 1).await;
        assert_eq!(house.engine.evict(&key("/d/7"), true).await.unwrap(), Evicted::Removed { bytes: MIB });
        keep(&house, "/d/7").await;
        assert_eq!(house.engine.evict(&key("/d/8"), true).await.unwrap(), Evicted::Removed { bytes: MIB });
        house.faults.records_held.store(false, SeqCst);
        settle(&house, root.path(), FILES).await;
        assert!(!root.path().join("d/8").exists() && root.path().join("d/7").exists());
        let metrics = house.engine.metrics();
        check(&house.open("/d/7").await, WHOLE).await;
        assert_eq!(metrics.block_checks(BlockCheck::Damaged), 0);
    });
}

#[test]
fn removals_that_race_opens_cost_nobody_a_byte() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(house(root.path(), unlimited()));
        let paths = ["/a/1", "/a/2", "/b/3"];
        let reader = |seed: usize| {
            let house = Arc::clone(&house);
            tokio::spawn(async move {
                for round in 0..60 {
                    let handle = house.open(paths[(seed + round) % 3]).await;
                    check(&handle, ByteRange::at((round as u64 % 15) * BLOCK, 2 * BLOCK)).await;
                }
            })
        };
        let readers: Vec<_> = (0..4).map(reader).collect();
        let mut removed = 0;
        let mut round = 0;
        while readers.iter().any(|reader| !reader.is_finished()) {
            round += 1;
            if round % 5 == 0 {
                removed += house.engine.purge_to(0.0, false).await.map_or(0, |report| report.files);
            }
            let evicted = house.engine.evict(&key(paths[round % 3]), false).await.unwrap();
            removed += u64::from(matches!(evicted, Evicted::Removed { .. }));
            tokio::task::yield_now().await;
        }
        for reader in readers {
            reader.await.unwrap();
        }
        assert!(removed > 0, "nothing was removed in {round} rounds");
        until(|| open_data_files(root.path()) == 0).await;
        house.engine.purge_to(0.0, false).await.unwrap();
        until(|| indexed(&house) == 0).await;
        assert_eq!(used_bytes(&house).await, 0, "the accounts sum up");
    });
}

#[test]
fn a_full_disk_is_purged_and_used_again_without_a_pause() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let mut options = with(unlimited());
        options.disk_pause = Duration::from_secs(3600);
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        for number in 0..3 {
            keep(&house, &format!("/{number}")).await;
        }
        settle(&house, root.path(), 3).await;
        house.faults.full.store(true, SeqCst);
        check(&house.open("/new").await, WHOLE).await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Space) > 0).await;
        let handle = house.open("/newer").await;
        while handle.hit(WHOLE).is_none() {
            check(&handle, WHOLE).await;
        }
        assert!(house.bytes(Outcome::Hit) > 0);
    });
}

#[test]
fn without_an_index_the_purge_finds_entries_on_the_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        std::fs::File::create(root.path().join("in_the_way")).unwrap();
        let index = IndexFile { path: root.path().join("in_the_way/index"), options: IndexOptions::default() };
        let options = Options { index: Arc::new(index), ..with(rules(10 * TAKES, 8 * TAKES, 5 * TAKES)) };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        until(|| house.engine.index_state() == IndexState::Off).await;
        for number in 0..9 {
            keep(&house, &format!("/d/{number}")).await;
        }
        let metrics = house.engine.metrics();
        until(|| metrics.purged_files(PurgeReason::Space) > 0).await;
        until(|| open_data_files(root.path()) == 0).await;
        while used_bytes(&house).await > 5 * TAKES {
            tokio::task::yield_now().await;
        }
        assert_eq!(house.engine.index_state(), IndexState::Off);
        let kept = (0..9).filter(|number| root.path().join(format!("d/{number}")).exists()).count();
        assert!((3..=5).contains(&kept), "{kept} files are left");
    });
}

/// An index in memory whose disk fails from a moment on.
#[derive(Clone, Debug, Default)]
struct FragileIndex {
    backend: Arc<InMemoryBackend>,
    fails: Arc<AtomicBool>,
}

impl FragileIndex {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl IndexPlace for FragileIndex {
    fn open(&self) -> Result<(Index, Found), IndexError> {
        self.check().map_err(|source| IndexError::Io { operation: "opening", source })?;
        Index::with_backend(self.clone(), IndexOptions::default())
    }

    fn discard(&self) -> Result<(), IndexError> {
        Ok(())
    }
}

impl StorageBackend for FragileIndex {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.backend.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.backend.write(offset, data)
    }
}

#[test]
fn an_index_that_fails_does_not_have_the_same_space_freed_twice() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let index = FragileIndex::default();
        let options = Options { index: Arc::new(index.clone()), ..with(rules(10 * TAKES, 8 * TAKES, 5 * TAKES)) };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        for number in 0..7 {
            keep(&house, &format!("/d/{number}")).await;
        }
        settle(&house, root.path(), 7).await;
        index.fails.store(true, SeqCst);
        for number in 7..9 {
            keep(&house, &format!("/d/{number}")).await;
        }
        let purged = || house.engine.metrics().purged_files(PurgeReason::Space);
        until(|| house.engine.index_state() == IndexState::Off && purged() > 0).await;
        // The sums follow although no index reports the removals: no other purge is due.
        while used_bytes(&house).await > 6 * TAKES {
            tokio::task::yield_now().await;
        }
        assert!(purged() <= 5, "{} of 9 files were removed", purged());
    });
}

#[test]
fn a_file_larger_than_the_cache_is_kept_in_part_and_evicts_no_other() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let mut options = with(rules(16 * TAKES, 15 * TAKES, 14 * TAKES));
        options.read_ahead.settings.enabled = false;
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        for number in 0..4 {
            keep(&house, &format!("/d/{number}")).await;
        }
        settle(&house, root.path(), 4).await;
        house.origin.script(|script| script.size = 32 * MIB);
        let handle = house.open("/large").await;
        for start in 0..32 {
            check(&handle, ByteRange::at(start * MIB, MIB)).await;
            // The share is looked at before each write: fills under way exceed it by what they write.
            house.filled().await;
        }
        assert!(handle.hit(ByteRange::at(0, BLOCK)).is_some(), "a part is kept");
        drop(handle);
        let kept = (0..4).filter(|number| root.path().join(format!("d/{number}")).exists()).count();
        assert_eq!(kept, 4);
        assert_eq!(house.engine.metrics().purged_files(PurgeReason::Space), 0);
    });
}

#[test]
fn a_working_set_far_above_the_budget_costs_no_more_than_its_reads() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(house(root.path(), rules(40 * MIB, 10 * MIB, 8 * MIB)));
        let asked = || house.origin.asked().iter().map(|range| range.len()).sum::<u64>();
        let delivered = || Outcome::ALL.map(|outcome| house.bytes(outcome)).iter().sum::<u64>();
        read_at_random(&house, 60, 0).await;
        // Before that, no entry can be purged, and as long as none is, surplus costs nothing.
        until(|| open_data_files(root.path()) == 0).await;
        until(|| house.engine.metrics().purged_files(PurgeReason::Space) > 0).await;
        let before = (asked(), delivered());
        // Hits until now may pay for surplus later.
        let saved = house.bytes(Outcome::Hit) + house.bytes(Outcome::Coalesced);
        read_at_random(&house, 200, 0).await;
        let (asked, delivered) = (asked() - before.0, delivered() - before.1);
        assert!(
            asked <= delivered + saved,
            "{asked} bytes from the origin for {delivered} bytes to clients, {saved} bytes saved before"
        );
    });
}

#[test]
fn files_that_are_read_again_are_cached_while_others_pass_through() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(house(root.path(), rules(40 * MIB, 10 * MIB, 8 * MIB)));
        let hits = || house.bytes(Outcome::Hit);
        let delivered = || Outcome::ALL.map(|outcome| house.bytes(outcome)).iter().sum::<u64>();
        // The cache turns over before the first of them is read.
        read_at_random(&house, 60, 0).await;
        loop {
            until(|| open_data_files(root.path()) == 0).await;
            let before = (hits(), delivered());
            read_at_random(&house, 100, 75).await;
            if hits() - before.0 >= (delivered() - before.1) / 2 {
                break;
            }
        }
    });
}

/// 16 clients read 32 to 64 KiB of a file `count` times each: of one of five files in `hot_percent` of the cases, else of 100 others.
async fn read_at_random(house: &Arc<House>, count: u64, hot_percent: u64) {
    let client = |house: Arc<House>, mut state: u64| async move {
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for _ in 0..count {
            let is_hot = below(100) < hot_percent;
            let path = if is_hot { format!("/hot/{}", below(5)) } else { format!("/{}", below(100)) };
            let handle = house.open(&path).await;
            let len = 32_768 + below(32_768);
            check(&handle, ByteRange::at(below(MIB - len), len)).await;
        }
    };
    let clients: Vec<_> = (0..16).map(|seed| tokio::spawn(client(Arc::clone(house), seed * 7919 + count))).collect();
    for client in clients {
        client.await.expect("a client reads right bytes");
    }
}
