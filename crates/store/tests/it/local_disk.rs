//! Entries on a real file system.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use bytes::Bytes;
use forebay_cache::{BlockMap, CacheKey, ChecksumState, Cinfo, Fault, Geometry, Health, Trust};
use forebay_store::{Disk, Entry, FileState, LocalDisk, MayWait, OriginMark, StoreError, VolumeId, check};
use forebay_types::{BlockIndex, Endpoint, Lfn, Validator};
use std::{
    cell::Cell,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const FILE_SIZE: u64 = 10_000;

struct Store {
    directory: TempDir,
    disk: LocalDisk,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = LocalDisk::open(&directory.path().join("root")).unwrap();
        Self { directory, disk }
    }

    /// The path of `name` below the root.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("root").join(name)
    }
}

fn key(path: &str) -> CacheKey {
    CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap()
}

fn new_cinfo() -> Cinfo {
    Cinfo::new(Geometry::new(BLOCK, FILE_SIZE).unwrap(), 1_700_000_000, ChecksumState::Net)
}

fn mark() -> OriginMark {
    OriginMark::new(Endpoint::new("origin.example", 1094).into(), Validator::of_mtime(1_600_000_000))
}

/// Writes block `index`, full of `byte`, and syncs it in the documented order.
fn write_block(disk: &LocalDisk, key: &CacheKey, entry: &Entry, index: u64, byte: u8) -> Result<(), StoreError> {
    let map = BlockMap::from_cinfo(&entry.cinfo, Trust::Given);
    let block = map.geometry().range_of(BlockIndex(index));
    let bytes = Bytes::from(vec![byte; usize::try_from(block.len()).unwrap()]);
    entry.data.write_vectored_at(block.start(), &[bytes]).unwrap();
    map.set_written(BlockIndex(index));
    let cinfo = Cinfo { blocks: map.snapshot_written(), ..entry.cinfo.clone() };
    entry.data.sync_data().unwrap();
    disk.write_cinfo(key, &*entry.data, &cinfo, entry.origin.as_ref())
}

/// The state of a file that was written long ago: times of change are as coarse as the ticks of the kernel.
fn state_of(file: &fs::File) -> FileState {
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    FileState::of(&file.metadata().unwrap())
}

/// Whether the data file of `key` is found again as it was in `state`. A call that does not wait may fail in any case.
fn is_found_again(disk: &LocalDisk, key: &CacheKey, state: &FileState) -> bool {
    let found = |may_wait| disk.reopen(key, VolumeId(0), state, may_wait).map(|data| data.identity());
    let (at_once, in_the_end) = (found(MayWait::No), found(MayWait::Yes));
    assert!(at_once.is_none() || at_once == in_the_end);
    in_the_end.is_some()
}

#[test]
fn a_data_file_is_opened_again_only_as_it_was() {
    let store = Store::new();
    let key = key("/d/e/f");
    let entry = create(&store.disk, &key);
    write_block(&store.disk, &key, &entry, 0, 1).unwrap();
    let state = state_of(entry.data.file());
    let found = store.disk.reopen(&key, VolumeId(0), &state, MayWait::Yes).unwrap();
    assert_eq!((found.identity(), found.is_writable()), (entry.data.identity(), true));
    assert!(store.disk.reopen(&key, VolumeId(1), &state, MayWait::Yes).is_none());
    let (data, record) = (store.path("d/e/f"), store.path("d/e/f.cinfo"));

    fs::rename(&record, store.path("away")).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "without its record");
    fs::rename(store.path("away"), &record).unwrap();
    assert!(is_found_again(&store.disk, &key, &state));

    fs::rename(&data, store.path("away")).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "without the data");
    fs::copy(store.path("away"), &data).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "another file");
    fs::remove_file(&data).unwrap();
    symlink(store.path("away"), &data).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "a link");
    fs::remove_file(&data).unwrap();
    fs::rename(store.path("away"), store.path("space%")).unwrap();
    symlink(store.path("space%"), &data).unwrap();
    assert!(is_found_again(&store.disk, &key, &state), "a link into a space");
    fs::rename(store.path("space%"), &data).unwrap();
    assert!(is_found_again(&store.disk, &key, &state));

    let bytes = fs::read(&data).unwrap();
    fs::write(&data, &bytes).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "written by another process");
    let state = state_of(entry.data.file());
    fs::File::options().write(true).open(&data).unwrap().set_len(1).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "cut");
    fs::write(&data, &bytes).unwrap();
    let state = state_of(entry.data.file());

    write_block(&store.disk, &key, &entry, 1, 2).unwrap();
    assert!(!is_found_again(&store.disk, &key, &state), "written since");
}

fn create(disk: &LocalDisk, key: &CacheKey) -> Entry {
    disk.create_entry(key, new_cinfo(), Some(mark())).unwrap()
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    let len = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(len);
    Some(value)
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

#[test]
fn synced_blocks_are_found_again() {
    let store = Store::new();
    let key = key("/store/user/a b%20ü.root");
    assert!(store.disk.open_entry(&key).unwrap().is_none());
    let entry = create(&store.disk, &key);
    assert_eq!(fs::metadata(store.disk.local_path(&key)).unwrap().len(), 0);
    write_block(&store.disk, &key, &entry, 2, 7).unwrap();

    let found = store.disk.open_entry(&key).unwrap().unwrap();
    assert_eq!(found.data.identity(), entry.data.identity());
    assert_eq!((found.cinfo.geometry, found.cinfo.checksum), (entry.cinfo.geometry, ChecksumState::Net));
    assert_eq!((found.cinfo.blocks.count(), found.cinfo.blocks.last()), (1, Some(BlockIndex(2))));
    let mut tail = [0; 100];
    found.data.read_exact_at(&mut tail, FILE_SIZE - 100).unwrap();
    assert_eq!(tail, [7; 100]);
    assert_eq!(found.data.file().metadata().unwrap().len(), FILE_SIZE);
    if store.disk.keeps_xattrs() {
        assert_eq!(found.origin, Some(mark()));
        let size = xattr(&store.path("store/user/a b%20ü.root.cinfo"), "user.pfc.fsize").unwrap();
        assert_eq!(size, i64::try_from(FILE_SIZE).unwrap().to_ne_bytes());
    }
}

#[test]
fn an_entry_survives_a_restart() {
    let Store { directory, disk } = Store::new();
    let key = key("/a");
    write_block(&disk, &key, &create(&disk, &key), 0, 1).unwrap();
    drop(disk);
    let disk = LocalDisk::open(&directory.path().join("root")).unwrap();
    assert_eq!(disk.open_entry(&key).unwrap().unwrap().cinfo.blocks.count(), 1);
}

#[test]
fn a_new_entry_without_any_sync_is_empty_and_usable() {
    let store = Store::new();
    create(&store.disk, &key("/a"));
    let found = store.disk.open_entry(&key("/a")).unwrap().unwrap();
    assert!(found.cinfo.blocks.is_empty());
}

#[test]
fn other_users_may_not_use_the_store() {
    let store = Store::new();
    create(&store.disk, &key("/store/a"));
    for name in ["store/a", "store/a.cinfo"] {
        assert_eq!(fs::metadata(store.path(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(store.path("store")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_damaged_record_costs_the_entry_and_nothing_else() {
    let store = Store::new();
    let key = key("/store/a");
    for damage in ["flip", "truncate", "empty"] {
        let entry = create(&store.disk, &key);
        write_block(&store.disk, &key, &entry, 0, 1).unwrap();
        let path = store.path("store/a.cinfo");
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "flip" => bytes[56] ^= 2,
            "truncate" => bytes.truncate(59),
            _ => bytes.clear(),
        }
        fs::write(&path, bytes).unwrap();
        assert!(store.disk.open_entry(&key).unwrap().is_none(), "{damage}");
        assert!(!path.exists() && !store.path("store/a").exists(), "{damage}");
    }
}

#[test]
fn a_record_without_its_data_is_removed() {
    let store = Store::new();
    let key = key("/a");
    write_block(&store.disk, &key, &create(&store.disk, &key), 0, 1).unwrap();
    fs::remove_file(store.path("a")).unwrap();
    assert!(store.disk.open_entry(&key).unwrap().is_none());
    assert!(!store.path("a.cinfo").exists());
}

#[test]
fn data_shorter_than_recorded_is_removed() {
    let store = Store::new();
    let key = key("/a");
    for (block, enough) in [(1, 2 * BLOCK), (2, FILE_SIZE)] {
        for (len, is_usable) in [(enough, true), (enough - 1, false)] {
            let entry = create(&store.disk, &key);
            write_block(&store.disk, &key, &entry, block, 1).unwrap();
            entry.data.file().set_len(len).unwrap();
            assert_eq!(store.disk.open_entry(&key).unwrap().is_some(), is_usable, "block {block}, {len} bytes");
        }
    }
}

#[test]
fn data_without_a_record_is_not_trusted() {
    let store = Store::new();
    fs::write(store.path("a"), vec![9; 10_000]).unwrap();
    assert!(store.disk.open_entry(&key("/a")).unwrap().is_none());
    let entry = create(&store.disk, &key("/a"));
    assert_eq!(entry.data.file().metadata().unwrap().len(), 0);
}

#[test]
fn handles_on_a_replaced_entry_keep_their_bytes_and_cannot_touch_the_new_record() {
    let store = Store::new();
    let key = key("/a");
    let old = create(&store.disk, &key);
    write_block(&store.disk, &key, &old, 0, 1).unwrap();
    let new = create(&store.disk, &key);
    assert_ne!(old.data.identity(), new.data.identity());

    let mut byte = [0];
    old.data.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [1]);
    let late = write_block(&store.disk, &key, &old, 1, 1);
    assert!(matches!(late, Err(StoreError::Superseded { .. })));
    assert!(store.disk.open_entry(&key).unwrap().unwrap().cinfo.blocks.is_empty());
}

#[test]
fn a_removed_entry_is_gone_and_its_record_stays_gone() {
    let store = Store::new();
    let key = key("/store/a");
    let entry = create(&store.disk, &key);
    store.disk.remove_entry(&key).unwrap();
    assert!(!store.path("store/a").exists() && !store.path("store/a.cinfo").exists());
    assert!(matches!(write_block(&store.disk, &key, &entry, 0, 1), Err(StoreError::Superseded { .. })));
    assert!(store.disk.open_entry(&key).unwrap().is_none());
    store.disk.remove_entry(&key).unwrap();
    store.disk.remove_entry(&self::key("/no/such/directory")).unwrap();
}

#[test]
fn attributes_of_others_survive_the_rewriting_of_a_record() {
    let store = Store::new();
    if !store.disk.keeps_xattrs() {
        return;
    }
    let (key, path) = (key("/a"), store.path("a.cinfo"));
    let entry = create(&store.disk, &key);
    set_xattr(&path, "user.pfc.cache-control", b"{\"max-age\":5}");
    set_xattr(&path, "user.pfc.fsize", &1_i64.to_ne_bytes());
    let inode = fs::metadata(&path).unwrap().ino();
    write_block(&store.disk, &key, &entry, 0, 1).unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode, "the record is replaced as a whole");
    assert_eq!(xattr(&path, "user.pfc.cache-control").unwrap(), b"{\"max-age\":5}");
    assert_eq!(xattr(&path, "user.pfc.fsize").unwrap(), 10_000_i64.to_ne_bytes());
    assert_eq!(xattr(&path, "user.forebay.origin").unwrap(), b"v1 origin.example:1094 1600000000");
    assert_eq!(fs::read_dir(store.path(".forebay/tmp")).unwrap().count(), 0);
}

#[test]
fn a_record_without_room_for_all_attributes_is_not_a_full_disk() {
    let store = Store::new();
    if !store.disk.keeps_xattrs() {
        return;
    }
    let (key, path) = (key("/a"), store.path("a.cinfo"));
    let entry = create(&store.disk, &key);
    // As long as the file system allows: those of a file on ext4 share one block.
    let is_taken =
        |len: usize| rustix::fs::setxattr(&path, "user.other", &vec![1; len], rustix::fs::XattrFlags::empty()).is_ok();
    assert!((0..4000).rev().any(is_taken));
    let host = format!("{}.example", "h".repeat(200));
    let mark = OriginMark::new(Endpoint::new(&host, 1094).into(), Validator::of_mtime(1_600_000_000));
    store.disk.write_cinfo(&key, &*entry.data, &entry.cinfo, Some(&mark)).unwrap();
    assert_eq!(xattr(&path, "user.forebay.origin").unwrap(), mark.to_string().as_bytes());
}

/// Puts the file `name` of the store into a space: `target` there, and a link to it in the tree.
fn move_to_space(store: &Store, name: &str, space: &str) -> PathBuf {
    let target = store.directory.path().join(space).join("08/B9EC016BA104000000007f00000108000000104%");
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::rename(store.path(name), &target).unwrap();
    symlink(&target, store.path(name)).unwrap();
    if store.disk.keeps_xattrs() {
        set_xattr(&target, "user.XrdFrm.Pfn", store.path(name).to_str().unwrap().as_bytes());
    }
    target
}

#[test]
fn entries_in_spaces_are_used_through_their_links() {
    let store = Store::new();
    let key = key("/store/a");
    write_block(&store.disk, &key, &create(&store.disk, &key), 0, 1).unwrap();
    let data = move_to_space(&store, "store/a", "space/data");
    let record = move_to_space(&store, "store/a.cinfo", "ssd/meta");

    let entry = store.disk.open_entry(&key).unwrap().unwrap();
    write_block(&store.disk, &key, &entry, 2, 3).unwrap();
    store.disk.touch(&key, 1_234_567_890).unwrap();
    assert!(store.path("store/a.cinfo").is_symlink(), "the link stays, its target is replaced");
    assert_eq!(fs::metadata(&record).unwrap().mtime(), 1_234_567_890);
    assert_eq!(fs::metadata(&data).unwrap().len(), FILE_SIZE);
    assert_eq!(fs::read_dir(record.parent().unwrap()).unwrap().count(), 1, "nothing is left next to the record");
    assert_eq!(store.disk.open_entry(&key).unwrap().unwrap().cinfo.blocks.count(), 2);

    let replaced = create(&store.disk, &key);
    assert_eq!(replaced.data.identity().inode, fs::metadata(&data).unwrap().ino(), "a new copy stays in the space");
    if store.disk.keeps_xattrs() {
        for (target, name) in [(&data, "store/a"), (&record, "store/a.cinfo")] {
            assert_eq!(xattr(target, "user.XrdFrm.Pfn").unwrap(), store.path(name).to_str().unwrap().as_bytes());
        }
    }

    store.disk.remove_entry(&key).unwrap();
    assert!(!data.exists() && !record.exists());
    assert!(!store.path("store/a").is_symlink() && !store.path("store/a.cinfo").is_symlink());
}

#[test]
fn a_space_that_is_not_mounted_is_an_error_and_costs_nothing() {
    let store = Store::new();
    let key = key("/a");
    write_block(&store.disk, &key, &create(&store.disk, &key), 0, 1).unwrap();
    let data = move_to_space(&store, "a", "space/data");
    let (space, away) = (store.directory.path().join("space"), store.directory.path().join("away"));
    fs::rename(&space, &away).unwrap();
    assert!(matches!(store.disk.open_entry(&key), Err(StoreError::Io { .. })));
    assert!(store.path("a.cinfo").exists());
    fs::rename(&away, &space).unwrap();
    assert!(data.exists());
    assert!(store.disk.open_entry(&key).unwrap().is_some());
}

#[test]
fn other_links_out_of_the_store_are_refused() {
    let store = Store::new();
    let outside = store.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();

    symlink(outside.join("secret"), store.path("absolute")).unwrap();
    symlink("../outside/secret", store.path("relative")).unwrap();
    symlink(&outside, store.path("directory")).unwrap();
    symlink("../outside", store.path("climbing")).unwrap();
    for path in ["/absolute", "/relative", "/directory/secret", "/directory/new/file", "/climbing/secret"] {
        let created = store.disk.create_entry(&key(path), new_cinfo(), None);
        assert!(matches!(created, Err(StoreError::ForeignLink { .. })), "{path}: {created:?}");
    }
    for path in ["/directory/secret", "/climbing/secret"] {
        assert!(matches!(store.disk.open_entry(&key(path)), Err(StoreError::ForeignLink { .. })), "{path}");
        assert!(matches!(store.disk.remove_entry(&key(path)), Err(StoreError::ForeignLink { .. })), "{path}");
    }
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn links_to_directories_inside_the_store_are_followed() {
    let store = Store::new();
    create(&store.disk, &key("/real/a"));
    symlink("real", store.path("link")).unwrap();
    match store.disk.open_entry(&key("/link/a")) {
        Ok(found) => assert!(found.is_some()),
        // Linux before 5.6 cannot distinguish such links from those that lead out.
        Err(error) => assert!(matches!(error, StoreError::ForeignLink { .. })),
    }
}

#[test]
fn things_that_are_no_files_are_in_the_way_and_stay() {
    let store = Store::new();
    fs::create_dir_all(store.path("a")).unwrap();
    let created = store.disk.create_entry(&key("/a"), new_cinfo(), None).unwrap_err();
    assert!(!created.is_out_of_space() && !created.is_retryable(), "{created:?}");
    assert!(store.path("a").is_dir() && !store.path("a.cinfo").exists());

    fs::create_dir_all(store.path("b.cinfo")).unwrap();
    assert!(matches!(store.disk.open_entry(&key("/b")), Err(StoreError::NotAFile { .. })));
}

#[test]
fn use_is_noted_as_the_time_of_the_record() {
    let store = Store::new();
    create(&store.disk, &key("/a"));
    store.disk.touch(&key("/a"), 1_234_567_890).unwrap();
    assert_eq!(fs::metadata(store.path("a.cinfo")).unwrap().mtime(), 1_234_567_890);
    assert!(store.disk.touch(&key("/b"), 1).is_err());
}

#[test]
fn a_store_belongs_to_one_process_at_a_time() {
    let store = Store::new();
    let root = store.path("");
    let second = LocalDisk::open(&root).unwrap_err();
    assert!(matches!(second, StoreError::Locked { .. }), "{second}");
    assert!(check(&root).is_ok(), "a store in use can be checked");
    drop(store.disk);
    assert!(LocalDisk::open(&root).is_ok());
}

#[test]
fn half_written_files_are_cleared_at_the_start() {
    let Store { directory, disk } = Store::new();
    drop(disk);
    let root = directory.path().join("root");
    fs::write(root.join(".forebay/tmp/.forebay-0"), "half").unwrap();
    LocalDisk::open(&root).unwrap();
    assert_eq!(fs::read_dir(root.join(".forebay/tmp")).unwrap().count(), 0);
}

#[test]
fn unusable_roots_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(check(&file), Err(StoreError::NotADirectory { .. })));
    assert!(matches!(check(&file.join("below")), Err(StoreError::NotADirectory { .. })));
    let report = check(&directory.path().join("new/root")).unwrap();
    assert!(report.space.total_bytes >= report.space.free_bytes && report.space.total_bytes > 0);
}

#[test]
fn keys_that_name_their_origin_have_a_directory_for_it() {
    let store = Store::new();
    let key = CacheKey::forwarded(&Endpoint::new("::1", 11).into(), &Lfn::parse("/store/a").unwrap()).unwrap();
    create(&store.disk, &key);
    assert!(store.path("root:/[::1]:11/store/a.cinfo").exists());
    assert_eq!(store.disk.local_path(&key), store.path("root:/[::1]:11/store/a").canonicalize().unwrap());
}

#[test]
fn a_name_below_an_entry_is_no_entry_and_cannot_become_one() {
    let store = Store::new();
    create(&store.disk, &key("/store/a"));
    let below = key("/store/a/b/c");
    assert!(store.disk.open_entry(&below).unwrap().is_none());
    store.disk.remove_entry(&below).unwrap();
    let error = store.disk.create_entry(&below, new_cinfo(), Some(mark())).unwrap_err();
    assert!(error.concerns_one_entry(), "{error:?}");
    assert!(store.disk.open_entry(&key("/store/a")).unwrap().is_some());
}

#[test]
fn a_probe_tells_whether_the_disk_works_and_is_still_there() {
    let store = Store::new();
    let volumes = store.disk.volumes();
    assert_eq!(volumes.len(), 1);
    assert_eq!((volumes[0].id, volumes[0].health), (VolumeId(0), Health::Healthy));
    assert!(volumes[0].space.is_some());
    for _ in 0..2 {
        store.disk.probe(VolumeId(0)).unwrap();
    }
    assert_eq!(fs::read_dir(store.path(".forebay/tmp")).unwrap().count(), 0);

    fs::rename(store.directory.path().join("root"), store.directory.path().join("away")).unwrap();
    assert!(matches!(store.disk.probe(VolumeId(0)), Err(StoreError::Replaced { .. })));
    fs::create_dir(store.directory.path().join("root")).unwrap();
    let error = store.disk.probe(VolumeId(0)).unwrap_err();
    assert_eq!(error.fault(), Some(Fault::Absent), "{error}");
}

#[test]
fn a_store_that_was_removed_is_noticed_when_an_entry_is_created() {
    let store = Store::new();
    create(&store.disk, &key("/store/a"));
    fs::remove_dir_all(store.directory.path().join("root")).unwrap();
    for name in ["/b", "/store/c"] {
        let created = store.disk.create_entry(&key(name), new_cinfo(), None);
        assert!(matches!(created, Err(StoreError::Replaced { .. })), "{created:?}");
    }
}

#[test]
fn many_entries_are_removed_together_with_directories_they_leave_empty() {
    let store = Store::new();
    let keys = ["/a/b/c/1", "/a/b/c/2", "/a/d/3", "/a/never", "/4"].map(key);
    for key in keys.iter().filter(|key| key.as_str() != "/a/never") {
        create(&store.disk, key);
    }
    create(&store.disk, &key("/a/d/stays"));
    fs::create_dir_all(store.path("a/x.cinfo")).unwrap();
    create_dir_in_the_way(&store, "a/d/way");
    let results = store.disk.remove_entries(&[&keys[..], &[key("/a/d/way"), key("/a/d/3")]].concat());
    let failed: Vec<usize> =
        results.iter().enumerate().filter(|(_, result)| result.is_err()).map(|(at, _)| at).collect();
    assert_eq!(failed, [5], "only a path that is not an entry cannot be removed");
    assert!(!store.path("a/b").exists() && !store.path("4").exists() && !store.path("4.cinfo").exists());
    assert!(store.path("a/d/stays.cinfo").exists() && store.path("a/d/stays").exists());
    assert!(store.disk.open_entry(&keys[0]).unwrap().is_none());
    create(&store.disk, &keys[0]);
    assert!(store.disk.open_entry(&keys[0]).unwrap().is_some());
}

#[test]
fn removals_are_settled_in_pieces_of_a_few_directories() {
    let store = Store::new();
    let keys: Vec<CacheKey> = (0..40).map(|number| key(&format!("/{number}/f"))).collect();
    for key in &keys {
        create(&store.disk, key);
    }
    assert!(store.disk.remove_entries(&keys).iter().all(Result::is_ok));
    assert_eq!(store.disk.unsettled_removals(), 40);
    let pieces = Cell::new(0);
    let settled = store.disk.settle_removals_in_pieces(&|piece| {
        pieces.set(pieces.get() + 1);
        piece()
    });
    settled.unwrap();
    assert_eq!((pieces.get(), store.disk.unsettled_removals()), (1 + 3, 0), "that of the reserve, and 40 directories");
}

fn create_dir_in_the_way(store: &Store, name: &str) {
    fs::create_dir_all(store.path(&format!("{name}.cinfo"))).unwrap();
}

#[test]
fn entries_are_created_while_their_directory_is_taken_away() {
    let store = Store::new();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let disk = &store.disk;
            scope.spawn(move || {
                for _ in 0..500 {
                    let key = key(&format!("/deep/below/{thread}"));
                    disk.create_entry(&key, new_cinfo(), None).unwrap();
                    disk.remove_entries(std::slice::from_ref(&key)).pop().unwrap().unwrap();
                }
            });
        }
    });
    assert!(!store.path("deep").exists());
}

#[test]
fn an_entry_is_made_where_none_is_and_left_alone_where_one_may_be() {
    let store = Store::new();
    let key = key("/d/f");
    let make = || store.disk.create_entry_if_free(&key, new_cinfo(), Some(mark())).unwrap();
    let made = make().expect("nothing is there");
    write_block(&store.disk, &key, &made, 0, 7).unwrap();
    assert!(make().is_none());
    assert!(store.disk.open_entry(&key).unwrap().unwrap().cinfo.blocks.contains(BlockIndex(0)));
    fs::write(store.path("d/f.cinfo"), "no record").unwrap();
    assert!(make().is_none(), "whether it is one is for others to judge");
    fs::remove_file(store.path("d/f.cinfo")).unwrap();
    make().expect("data without a record belongs to no entry");
    assert_eq!(fs::metadata(store.path("d/f")).unwrap().len(), 0);
}
