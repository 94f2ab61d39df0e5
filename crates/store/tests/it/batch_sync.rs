//! Batches of entries made durable at once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use bytes::Bytes;
use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry};
use forebay_store::{DataFile, Disk, Entry, FileIdentity, LocalDisk, NewRecord, OriginMark, StoreError, VolumeId};
use forebay_types::{BlockIndex, Endpoint, Lfn, Validator};
use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};
use tempfile::TempDir;

const FILES: usize = 20;

/// Calls of syncs of a whole file system.
#[derive(Default)]
struct Calls {
    made: AtomicU64,
    fails: AtomicBool,
    /// Done during the next call.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce(&LocalDisk) + Send>;

/// A disk whose sync calls are counted and may fail.
struct Store {
    directory: TempDir,
    disk: Arc<LocalDisk>,
    calls: Arc<Calls>,
}

/// A data file that counts its own syncs.
#[derive(Debug)]
struct Counted {
    data: Arc<dyn DataFile>,
    syncs: AtomicU64,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let calls = Arc::new(Calls::default());
        let disk = Arc::new_cyclic(|this: &std::sync::Weak<LocalDisk>| {
            let (calls, this) = (Arc::clone(&calls), this.clone());
            let call = move || {
                calls.made.fetch_add(1, SeqCst);
                if let Some(meanwhile) = calls.meanwhile.lock().unwrap().take() {
                    meanwhile(&this.upgrade().unwrap());
                }
                if calls.fails.load(SeqCst) { Err(io::Error::other("simulated failure")) } else { Ok(()) }
            };
            LocalDisk::open(&directory.path().join("root")).unwrap().with_sync_call(8, Box::new(call))
        });
        Self { directory, disk, calls }
    }

    /// The path of `name` below the root.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("root").join(name)
    }

    fn calls(&self) -> u64 {
        self.calls.made.load(SeqCst)
    }

    fn create(&self, key: &CacheKey) -> Entry {
        self.disk.create_entry(key, new_cinfo(), Some(mark())).unwrap()
    }

    /// Entries `/d/0`, `/d/1` and so on, each with its first block written.
    fn create_many(&self, count: usize) -> (Vec<CacheKey>, Vec<Entry>) {
        let keys: Vec<CacheKey> = (0..count).map(|number| key(&format!("/d/{number}"))).collect();
        let entries: Vec<Entry> = keys.iter().map(|key| self.create(key)).collect();
        for entry in &entries {
            entry.data.write_vectored_at(0, &[Bytes::from(vec![8; 4096])]).unwrap();
        }
        (keys, entries)
    }
}

impl Counted {
    fn of(entries: &[Entry]) -> Vec<Self> {
        let counted = |entry: &Entry| Self { data: Arc::clone(&entry.data), syncs: AtomicU64::new(0) };
        entries.iter().map(counted).collect()
    }

    fn syncs(files: &[Self]) -> u64 {
        files.iter().map(|file| file.syncs.load(SeqCst)).sum()
    }
}

impl DataFile for Counted {
    fn file(&self) -> &Arc<File> {
        self.data.file()
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn volume(&self) -> VolumeId {
        self.data.volume()
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.data.write_vectored_at(offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.data.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, SeqCst);
        self.data.sync_data()
    }
}

fn key(path: &str) -> CacheKey {
    CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap()
}

fn new_cinfo() -> Cinfo {
    Cinfo::new(Geometry::new(4096, 10_000).unwrap(), 1_700_000_000, ChecksumState::Net)
}

fn mark() -> OriginMark {
    OriginMark::new(Endpoint::new("origin.example", 1094).into(), Validator::of_mtime(1_600_000_000))
}

fn sync_data(store: &Store, files: &[Counted]) {
    let files: Vec<&dyn DataFile> = files.iter().map(|file| file as &dyn DataFile).collect();
    assert!(store.disk.sync_data_of(&files).iter().all(Result::is_ok));
}

/// The record of `entry` with its first block.
fn with_first_block(entry: &Entry) -> Cinfo {
    let mut cinfo = entry.cinfo.clone();
    cinfo.blocks.insert(BlockIndex(0));
    cinfo
}

/// Writes records with the first block; every other one as the first that names a block.
fn write_cinfos(store: &Store, keys: &[CacheKey], entries: &[Entry]) -> Vec<Result<(), StoreError>> {
    let cinfos: Vec<Cinfo> = entries.iter().map(with_first_block).collect();
    let record = |number: usize| NewRecord {
        key: &keys[number],
        data: &*entries[number].data,
        cinfo: &cinfos[number],
        origin: entries[number].origin.as_ref(),
        is_first: number.is_multiple_of(2),
    };
    store.disk.write_cinfos(&(0..keys.len()).map(record).collect::<Vec<_>>())
}

#[test]
fn the_file_system_is_synced_once_for_the_data_of_many_and_once_for_their_records() {
    let store = Store::new();
    let (keys, entries) = store.create_many(FILES);
    let files = Counted::of(&entries);
    sync_data(&store, &files);
    assert_eq!((store.calls(), Counted::syncs(&files)), (1, 0));
    write_cinfos(&store, &keys, &entries).into_iter().for_each(Result::unwrap);
    assert_eq!(store.calls(), 2);
    for (key, entry) in keys.iter().zip(&entries) {
        let found = store.disk.open_entry(key).unwrap().unwrap();
        assert_eq!((found.cinfo, found.origin), (with_first_block(entry), Some(mark())));
    }
    assert_eq!(fs::read_dir(store.path(".forebay/tmp")).unwrap().count(), 0);
}

#[test]
fn a_few_files_are_synced_for_themselves() {
    let store = Store::new();
    let (_, entries) = store.create_many(7);
    let files = Counted::of(&entries);
    sync_data(&store, &files);
    assert_eq!((store.calls(), Counted::syncs(&files)), (0, 7));
}

#[test]
fn once_the_file_system_could_not_be_synced_each_file_answers_for_itself() {
    let store = Store::new();
    let (keys, entries) = store.create_many(FILES);
    let files = Counted::of(&entries);
    store.calls.fails.store(true, SeqCst);
    sync_data(&store, &files);
    assert_eq!((store.calls(), Counted::syncs(&files)), (1, 20));
    // The failure may have been that of a file that comes next, and no second call would report it.
    store.calls.fails.store(false, SeqCst);
    sync_data(&store, &files);
    write_cinfos(&store, &keys, &entries).into_iter().for_each(Result::unwrap);
    assert_eq!((store.calls(), Counted::syncs(&files)), (1, 40));
}

#[test]
fn records_that_could_not_be_synced_together_take_the_failure_from_data_as_well() {
    let store = Store::new();
    let (keys, entries) = store.create_many(FILES);
    store.calls.fails.store(true, SeqCst);
    write_cinfos(&store, &keys, &entries).into_iter().for_each(Result::unwrap);
    store.calls.fails.store(false, SeqCst);
    let files = Counted::of(&entries);
    sync_data(&store, &files);
    assert_eq!((store.calls(), Counted::syncs(&files)), (1, 20));
}

#[test]
fn entries_that_are_replaced_before_or_while_records_become_durable_get_none() {
    let store = Store::new();
    let (keys, entries) = store.create_many(FILES);
    store.create(&keys[5]);
    let meanwhile = [keys[8].clone(), keys[9].clone()];
    *store.calls.meanwhile.lock().unwrap() = Some(Box::new(move |disk: &LocalDisk| {
        for key in &meanwhile {
            disk.remove_entry(key).unwrap();
            disk.create_entry(key, new_cinfo(), Some(mark())).unwrap();
        }
    }));
    let written = write_cinfos(&store, &keys, &entries);
    for (number, written) in written.into_iter().enumerate() {
        let found = store.disk.open_entry(&keys[number]).unwrap().unwrap();
        if [5, 8, 9].contains(&number) {
            assert!(matches!(written, Err(StoreError::Superseded { .. })), "{number}: {written:?}");
            assert_eq!(found.cinfo, new_cinfo());
        } else {
            written.unwrap();
            assert_eq!(found.cinfo, with_first_block(&entries[number]));
        }
    }
    assert_eq!(fs::read_dir(store.path(".forebay/tmp")).unwrap().count(), 0);
}

#[test]
fn the_first_record_takes_changes_of_the_mark() {
    let store = Store::new();
    let entry = store.create(&key("/f"));
    let checked = OriginMark { checked: Some(1_650_000_000), ..mark() };
    let (cinfo, key, data) = (with_first_block(&entry), key("/f"), &*entry.data);
    entry.data.write_vectored_at(0, &[Bytes::from(vec![8; 4096])]).unwrap();
    let record = NewRecord { key: &key, data, cinfo: &cinfo, origin: Some(&checked), is_first: true };
    store.disk.write_cinfos(&[record]).into_iter().for_each(Result::unwrap);
    assert_eq!(store.disk.open_entry(&key).unwrap().unwrap().origin, Some(checked));
}

#[test]
fn a_torn_first_record_names_no_missing_block() {
    let store = Store::new();
    let (key, path) = (key("/f"), store.path("f.cinfo"));
    let entry = store.create(&key);
    entry.data.write_vectored_at(0, &[Bytes::from(vec![8; 4096])]).unwrap();
    let old = fs::read(&path).unwrap();
    let cinfo = with_first_block(&entry);
    let record =
        NewRecord { key: &key, data: &*entry.data, cinfo: &cinfo, origin: entry.origin.as_ref(), is_first: true };
    store.disk.write_cinfos(&[record]).into_iter().for_each(Result::unwrap);
    let new = fs::read(&path).unwrap();
    let bytes = fs::read(store.path("f")).unwrap();
    for cut in 0..new.len() {
        let (mut mixed, mut swapped) = (new[..cut].to_vec(), old[..cut.min(old.len())].to_vec());
        mixed.extend_from_slice(old.get(cut..).unwrap_or_default());
        swapped.extend_from_slice(&new[cut.min(old.len())..]);
        for image in [mixed, swapped, new[..cut].to_vec()] {
            fs::write(&path, &image).unwrap();
            fs::write(store.path("f"), &bytes).unwrap();
            if let Some(found) = store.disk.open_entry(&key).unwrap() {
                assert!(found.cinfo == cinfo || found.cinfo.blocks.last().is_none(), "cut at {cut}");
            }
        }
    }
}
