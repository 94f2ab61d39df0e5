//! Several disks as one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use bytes::Bytes;
use forebay_cache::{BlockMap, CacheKey, ChecksumState, Cinfo, Geometry, Health, HealthLimits, Trust};
use forebay_store::{
    Clock, Disk, DiskSet, Entry, LocalDisk, OriginMark, Permissions, StoreError, VolumeId, VolumeSpec,
};
use forebay_testkit::{DiskFaults, FaultyDisk};
use forebay_types::{BlockIndex, Endpoint, Lfn, Validator};
use std::{
    cell::Cell,
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::Ordering::SeqCst, mpsc},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const FILE_SIZE: u64 = 10_000;
const CREATED: i64 = 1_700_000_000;

thread_local! {
    static SECONDS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that each test sets, on its own thread.
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn clock() -> Instant {
    static START: Mutex<Option<Instant>> = Mutex::new(None);
    let start = *START.lock().unwrap().get_or_insert_with(Instant::now);
    start + Duration::from_secs(SECONDS.get())
}

fn wait(seconds: u64) {
    SECONDS.set(SECONDS.get() + seconds);
}

/// Disks with faults, in a directory each.
struct Disks {
    directory: TempDir,
    faults: Vec<Arc<DiskFaults>>,
    set: DiskSet,
}

impl Disks {
    fn new(weights: &[u32]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut specs = Vec::new();
        let mut faults = Vec::new();
        for (number, &weight) in weights.iter().enumerate() {
            let (disk, its_faults) = FaultyDisk::open(&root(directory.path(), number)).unwrap();
            faults.push(its_faults);
            let path = PathBuf::from(format!("/disk/{number}"));
            specs.push(VolumeSpec {
                path,
                weight,
                open: Box::new(move |_| Ok(Arc::<FaultyDisk<DiskFaults>>::clone(&disk))),
            });
        }
        let set = DiskSet::open(specs, HealthLimits::default(), clock as Clock).unwrap();
        Self { directory, faults, set }
    }

    /// The directory of disk `number`.
    fn root(&self, number: usize) -> PathBuf {
        root(self.directory.path(), number)
    }

    /// The numbers of the disks that hold `key`.
    fn holders(&self, key: &CacheKey) -> Vec<usize> {
        (0..self.faults.len()).filter(|&number| self.root(number).join(&key.as_str()[1..]).exists()).collect()
    }

    fn health(&self, number: usize) -> Health {
        self.set.volumes()[number].health
    }

    fn break_disk(&self, number: usize) {
        self.faults[number].broken.store(true, SeqCst);
    }

    fn mend_disk(&self, number: usize) {
        self.faults[number].broken.store(false, SeqCst);
    }

    /// Has `number` fail until it is offline.
    fn take_offline(&self, number: usize) {
        self.break_disk(number);
        for attempt in 0..HealthLimits::default().errors_max {
            self.set.open_entry(&key(&format!("/other/{attempt}"))).unwrap();
        }
        assert_eq!(self.probe(), [(VolumeId(u16::try_from(number).unwrap()), false)]);
        assert_eq!(self.health(number), Health::Offline);
    }

    /// Probes whatever is due.
    fn probe(&self) -> Vec<(VolumeId, bool)> {
        self.set.due_probes().into_iter().map(|volume| (volume, self.set.probe(volume).is_ok())).collect()
    }
}

fn root(directory: &Path, number: usize) -> PathBuf {
    directory.join(number.to_string())
}

fn key(path: &str) -> CacheKey {
    CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap()
}

fn cinfo(created: i64) -> Cinfo {
    Cinfo::new(Geometry::new(BLOCK, FILE_SIZE).unwrap(), created, ChecksumState::Net)
}

fn mark(mtime: i64) -> Option<OriginMark> {
    Some(OriginMark::new(Endpoint::new("origin.example", 1094).into(), Validator::of_mtime(mtime)))
}

fn fill(disk: &dyn Disk, key: &CacheKey, entry: &Entry, blocks: u64) {
    let map = BlockMap::from_cinfo(&entry.cinfo, Trust::Given);
    for index in (0..blocks).map(BlockIndex) {
        let block = map.geometry().range_of(index);
        let bytes = Bytes::from(vec![7; usize::try_from(block.len()).unwrap()]);
        entry.data.write_vectored_at(block.start(), &[bytes]).unwrap();
        map.set_written(index);
    }
    entry.data.sync_data().unwrap();
    let cinfo = Cinfo { blocks: map.snapshot_written(), ..entry.cinfo.clone() };
    disk.write_cinfo(key, &*entry.data, &cinfo, entry.origin.as_ref()).unwrap();
}

#[test]
fn each_entry_lies_on_one_disk_and_is_found_there() {
    let disks = Disks::new(&[1, 3]);
    let mut counts = BTreeMap::new();
    for number in 0..200 {
        let key = key(&format!("/store/{number}"));
        let created = disks.set.create_entry(&key, cinfo(CREATED), None).unwrap();
        let holders = disks.holders(&key);
        assert_eq!(holders, [usize::from(created.volume().0)]);
        assert_eq!(disks.set.open_entry(&key).unwrap().unwrap().volume(), created.volume());
        *counts.entry(created.volume()).or_insert(0) += 1;
    }
    // A quarter and three quarters, with some play; both directories are on one file system, so they have the same room.
    assert!((30..70).contains(&counts[&VolumeId(0)]), "{counts:?}");

    // The disks are named the other way round in the configuration.
    let Disks { directory, set, .. } = disks;
    drop(set);
    let spec = |number: usize| VolumeSpec::local(root(directory.path(), number), 1, Permissions::default());
    let again = DiskSet::open(vec![spec(1), spec(0)], HealthLimits::default(), clock as Clock).unwrap();
    for number in 0..200 {
        let key = key(&format!("/store/{number}"));
        let entry = again.open_entry(&key).unwrap().unwrap();
        assert!(root(directory.path(), 1 - usize::from(entry.volume().0)).join(&key.as_str()[1..]).exists());
        again.touch(&key, CREATED).unwrap();
        again.remove_entry(&key).unwrap();
        assert!(again.open_entry(&key).unwrap().is_none());
    }
}

#[test]
fn a_full_disk_costs_nothing_but_its_room() {
    let disks = Disks::new(&[1, 1]);
    let keys: Vec<_> = (0..20).map(|number| key(&format!("/store/{number}"))).collect();
    let on_first: Vec<_> =
        keys.iter().filter(|key| disks.set.create_entry(key, cinfo(CREATED), None).unwrap().volume().0 == 0).collect();
    assert!(on_first.len() > 2);
    disks.faults[0].create_fails.store(true, SeqCst);
    for key in &on_first {
        assert_eq!(disks.set.create_entry(key, cinfo(CREATED), None).unwrap().volume(), VolumeId(1));
        assert_eq!(disks.holders(key), [1], "the old copy is gone");
    }
    assert_eq!(disks.health(0), Health::Full);
    assert!(!disks.set.is_writable(VolumeId(0)) && disks.set.is_writable(VolumeId(1)));
    disks.faults[0].create_fails.store(false, SeqCst);
    wait(10);
    assert_eq!(disks.health(0), Health::Healthy);

    for faults in &disks.faults {
        faults.create_fails.store(true, SeqCst);
    }
    let error = disks.set.create_entry(&keys[0], cinfo(CREATED), None).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let error = disks.set.create_entry(&keys[0], cinfo(CREATED), None).unwrap_err();
    assert!(matches!(error, StoreError::NoVolume), "{error}");
}

#[test]
fn a_file_that_others_read_stays_open_to_them_whatever_the_other_disks_say() {
    let disks = Disks::new(&[1, 1]);
    for number in 0..10 {
        let key = key(&format!("/store/{number}"));
        let entry = disks.set.create_entry(&key, cinfo(CREATED), None).unwrap();
        let holder = usize::from(entry.volume().0);
        let mode = || entry.data.file().metadata().unwrap().permissions().mode() & 0o777;
        entry.data.file().set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
        disks.faults[1 - holder].read_only.store(true, SeqCst);
        assert!(!disks.set.close_to_others(&key, CREATED).unwrap(), "it was used since");
        assert_eq!(mode(), 0o644);
        disks.faults[1 - holder].read_only.store(false, SeqCst);
        assert!(disks.set.close_to_others(&key, i64::MAX).unwrap());
        assert_eq!(mode(), 0o600);
    }
}

#[test]
fn entries_of_a_dead_disk_are_misses_until_it_is_back() {
    let disks = Disks::new(&[1, 1]);
    let keys: Vec<_> = (0..20).map(|number| key(&format!("/store/{number}"))).collect();
    for key in &keys {
        disks.set.create_entry(key, cinfo(CREATED), mark(1)).unwrap();
    }
    let of_dead: Vec<_> = keys.iter().filter(|key| disks.holders(key) == [0]).collect();
    disks.take_offline(0);
    let errors = disks.set.volumes()[0].errors;
    for key in &of_dead {
        assert!(disks.set.open_entry(key).unwrap().is_none());
        assert_eq!(disks.set.create_entry(key, cinfo(CREATED + 1), mark(1)).unwrap().volume(), VolumeId(1));
    }
    assert_eq!(disks.set.volumes()[0].errors, errors, "a disk that is offline is not asked");
    assert_eq!(disks.set.volumes()[0].space, None);

    assert!(disks.probe().is_empty(), "it is too early");
    wait(5);
    assert_eq!(disks.probe(), [(VolumeId(0), false)]);
    disks.mend_disk(0);
    wait(10);
    assert_eq!(disks.probe(), [(VolumeId(0), true)]);
    assert_eq!(disks.health(0), Health::Healthy);
    for key in &of_dead {
        assert_eq!(disks.holders(key), [0, 1]);
        assert_eq!(disks.set.open_entry(key).unwrap().unwrap().volume(), VolumeId(1), "the newer copy");
        assert_eq!(disks.holders(key), [1]);
    }
}

#[test]
fn of_two_copies_the_better_one_is_kept() {
    // The copy on each disk: when it was created, the origin's change time, and its blocks of three.
    type Copy = (i64, Option<i64>, u64);
    let cases: [(&str, Copy, Copy, usize); 5] = [
        ("the newer of two parts", (CREATED, Some(1), 1), (CREATED + 9, Some(1), 1), 1),
        ("all of it, however old", (CREATED, Some(1), 3), (CREATED + 9, Some(1), 1), 0),
        ("the newer of two whole ones", (CREATED + 9, Some(1), 3), (CREATED, Some(1), 3), 0),
        ("the newer content, in part", (CREATED, Some(1), 3), (CREATED + 9, Some(2), 1), 1),
        ("the newer one when nothing is known of the content", (CREATED, None, 3), (CREATED + 9, None, 1), 1),
    ];
    for (name, first, second, better) in cases {
        let disks = Disks::new(&[1, 1]);
        let key = key("/store/a");
        let Disks { directory, faults, set } = disks;
        drop(set);
        for (number, (created, mtime, blocks)) in [first, second].into_iter().enumerate() {
            let disk = LocalDisk::open(&root(directory.path(), number)).unwrap();
            let entry = disk.create_entry(&key, cinfo(created), mtime.and_then(mark)).unwrap();
            fill(&disk, &key, &entry, blocks);
        }
        let specs =
            (0..2).map(|number| VolumeSpec::local(root(directory.path(), number), 1, Permissions::default())).collect();
        let set = DiskSet::open(specs, HealthLimits::default(), clock as Clock).unwrap();
        let disks = Disks { directory, faults, set };
        let entry = disks.set.open_entry(&key).unwrap().unwrap();
        assert_eq!((usize::from(entry.volume().0), disks.holders(&key)), (better, vec![better]), "{name}");
    }
}

#[test]
fn a_disk_that_can_only_be_read_is_read() {
    let disks = Disks::new(&[1]);
    let key = key("/store/a");
    let entry = disks.set.create_entry(&key, cinfo(CREATED), None).unwrap();
    fill(&disks.set, &key, &entry, 2);
    disks.faults[0].read_only.store(true, SeqCst);
    disks.set.write_cinfo(&key, &*entry.data, &entry.cinfo, None).unwrap_err();
    assert_eq!(disks.health(0), Health::ReadOnly);
    assert!(!disks.set.is_writable(VolumeId(0)));
    assert_eq!(disks.set.open_entry(&key).unwrap().unwrap().cinfo.blocks.count(), 2);
    disks.set.touch(&key, CREATED).unwrap();
    wait(5);
    assert_eq!(disks.probe(), [(VolumeId(0), false)]);
    assert_eq!(disks.health(0), Health::ReadOnly);
    disks.faults[0].read_only.store(false, SeqCst);
    wait(10);
    assert_eq!(disks.probe(), [(VolumeId(0), true)]);
    assert!(disks.set.is_writable(VolumeId(0)));
}

#[test]
fn reads_that_fail_elsewhere_count_against_the_disk() {
    let disks = Disks::new(&[1, 1]);
    for _ in 0..HealthLimits::default().errors_max {
        disks.set.note_read_failure(VolumeId(1), &io::Error::from_raw_os_error(5));
        disks.set.note_read_failure(VolumeId(0), &io::ErrorKind::UnexpectedEof.into());
    }
    assert_eq!((disks.health(0), disks.health(1)), (Health::Healthy, Health::Degraded));
    // It works: some of its files may be damaged, not the disk.
    assert_eq!(disks.probe(), [(VolumeId(1), true)]);
    assert_eq!(disks.health(1), Health::Healthy);
}

#[test]
fn a_disk_whose_operations_hang_is_not_waited_for() {
    let disks = Disks::new(&[1, 1]);
    let key = key("/store/a");
    let entry = disks.set.create_entry(&key, cinfo(CREATED), None).unwrap();
    let number = usize::from(entry.volume().0);
    disks.faults[number].sync_hangs.store(true, SeqCst);
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel();
        let data = Arc::clone(&entry.data);
        scope.spawn(move || {
            data.sync_data().unwrap();
            ended.send(()).unwrap();
        });
        while disks.faults[number].syncs.load(SeqCst) == 0 {
            thread::yield_now();
        }
        wait(119);
        assert!(disks.set.due_probes().is_empty());
        assert_eq!(disks.health(number), Health::Healthy, "syncs may take long");
        wait(1);
        assert!(disks.set.due_probes().is_empty());
        assert_eq!(disks.health(number), Health::Offline);
        assert!(disks.set.open_entry(&key).unwrap().is_none());
        entry.data.write_vectored_at(0, &[Bytes::from_static(b"x")]).unwrap_err();
        assert!(end.try_recv().is_err());
        disks.faults[number].sync_hangs.store(false, SeqCst);
        end.recv().unwrap();
    });
    wait(5);
    assert_eq!(disks.probe(), [(entry.volume(), true)]);
    assert!(disks.set.open_entry(&key).unwrap().is_some());
}

#[test]
fn a_disk_that_is_absent_at_the_start_is_used_once_it_appears() {
    let directory = tempfile::tempdir().unwrap();
    let late = root(directory.path(), 1);
    fs::write(&late, "not a directory").unwrap();
    let specs = || {
        vec![
            VolumeSpec::local(root(directory.path(), 0), 1, Permissions::default()),
            VolumeSpec::local(late.clone(), 1, Permissions::default()),
        ]
    };
    let set = DiskSet::open(specs(), HealthLimits::default(), clock as Clock).unwrap();
    let infos = set.volumes();
    assert_eq!(infos.iter().map(|info| info.health).collect::<Vec<_>>(), [Health::Healthy, Health::Offline]);
    for number in 0..10 {
        let key = key(&format!("/store/{number}"));
        assert_eq!(set.create_entry(&key, cinfo(CREATED), None).unwrap().volume(), VolumeId(0));
    }
    assert_eq!(set.space().unwrap().total_bytes, infos[0].space.unwrap().total_bytes);
    let error = DiskSet::open(specs(), HealthLimits::default(), clock as Clock).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "none is left: {error}");

    fs::remove_file(&late).unwrap();
    wait(5);
    assert_eq!(set.due_probes(), [VolumeId(1)]);
    set.probe(VolumeId(1)).unwrap();
    let on_late = (10..30).filter(|number| {
        let key = key(&format!("/store/{number}"));
        set.create_entry(&key, cinfo(CREATED), None).unwrap().volume() == VolumeId(1)
    });
    assert!(on_late.count() > 2);

    // Another file system is mounted in its place.
    fs::rename(&late, directory.path().join("away")).unwrap();
    for _ in 0..HealthLimits::default().errors_max {
        set.note_read_failure(VolumeId(1), &io::Error::from_raw_os_error(5));
    }
    wait(10);
    assert_eq!(set.due_probes(), [VolumeId(1)]);
    set.probe(VolumeId(1)).unwrap();
    assert!(late.join(".forebay").is_dir());
    let found = (10..30).filter(|number| set.open_entry(&key(&format!("/store/{number}"))).unwrap().is_some());
    assert!(found.count() < 20, "what is away is away");
}
