//! An index after a crash, with a damaged file, and on a failing disk.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_cache::CacheKey;
use forebay_index::{Change, DiskFacts, Found, Generation, Index, IndexOptions, StorageBackend};
use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex},
};

const OPTIONS: IndexOptions = IndexOptions { cache_bytes: 1 << 20 };

fn key(n: u64) -> CacheKey {
    CacheKey::from_text(&format!("/store/file-{n:04}")).unwrap()
}

fn seen(present_bytes: u64) -> Change {
    let generation = Generation { inode: 1, created: 1 };
    Change::seen(DiskFacts {
        volume: 0,
        generation,
        file_size: 1 << 20,
        block_size: 4096,
        present_bytes,
        last_use: 0,
        uses: 0,
    })
}

/// Notes in one commit that all `count` entries have `round` bytes.
fn commit_round(index: &Index, count: u64, round: u64) -> bool {
    let keys: Vec<CacheKey> = (0..count).map(key).collect();
    let change = seen(round);
    index.apply(1, keys.iter().map(|key| (key, &change))).is_ok()
}

/// The round that all entries agree on.
fn round_of(index: &Index, count: u64) -> u64 {
    let page = index.page(None, usize::MAX).unwrap();
    if page.is_empty() {
        return 0;
    }
    assert_eq!(page.len() as u64, count);
    let round = page[0].1.disk.present_bytes;
    assert!(page.iter().all(|(_, record)| record.disk.present_bytes == round), "a commit was torn");
    round
}

/// Memory that remembers what was synced. After `writes_left` further writes everything fails.
#[derive(Clone, Debug, Default)]
struct Fragile(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    writes_left: Option<u64>,
    /// Since the last sync: offset and bytes.
    unsynced: Vec<(u64, Vec<u8>)>,
}

impl Fragile {
    fn with(bytes: Vec<u8>, writes_left: Option<u64>) -> Self {
        let state = State { synced: bytes.clone(), bytes, writes_left, unsynced: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The bytes after a crash: those synced, and of the writes since then those that `survives` picks, the last one torn.
    fn crashed(&self, survives: impl Fn(usize) -> bool) -> Vec<u8> {
        let state = self.0.lock().unwrap();
        let mut bytes = state.synced.clone();
        let count = state.unsynced.len();
        for (n, (offset, written)) in state.unsynced.iter().enumerate().filter(|(n, _)| survives(*n)) {
            let len = if n + 1 == count { written.len() / 2 } else { written.len() };
            let at = usize::try_from(*offset).unwrap();
            if bytes.len() < at + len {
                bytes.resize(at + len, 0);
            }
            bytes[at..at + len].copy_from_slice(&written[..len]);
        }
        bytes
    }
}

impl StorageBackend for Fragile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(state.bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.bytes.resize(usize::try_from(len).unwrap(), 0);
        // The length of a file is kept in order: a crash leaves it as it was last.
        state.synced.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.writes_left == Some(0) {
            return Err(io::ErrorKind::Other.into());
        }
        state.synced = state.bytes.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.writes_left == Some(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.writes_left = state.writes_left.map(|left| left - 1);
        let at = usize::try_from(offset).unwrap();
        state.bytes[at..at + data.len()].copy_from_slice(data);
        state.unsynced.push((offset, data.to_vec()));
        Ok(())
    }
}

#[test]
fn a_crash_at_any_write_leaves_all_of_a_commit_or_nothing() {
    const ENTRIES: u64 = 40;
    let calm = Fragile::default();
    let (index, _) = Index::with_backend(calm.clone(), OPTIONS).unwrap();
    assert!(commit_round(&index, ENTRIES, 1));
    drop(index);
    let begin = calm.crashed(|_| true);

    let mut rounds_seen = Vec::new();
    for writes in 0.. {
        let fragile = Fragile::with(begin.clone(), Some(writes));
        let Ok((index, _)) = Index::with_backend(fragile.clone(), OPTIONS) else { continue };
        let is_done = commit_round(&index, ENTRIES, 2);
        let images = [fragile.crashed(|_| true), fragile.crashed(|_| false), fragile.crashed(|n| n % 2 == 0)];
        drop(index);
        for image in images {
            let (index, found) = Index::with_backend(Fragile::with(image, None), OPTIONS).unwrap();
            assert_eq!(found, Found::Existing);
            let round = round_of(&index, ENTRIES);
            assert!(round == 2 || (round == 1 && !is_done), "round {round} after {writes} writes");
            rounds_seen.push(round);
        }
        if is_done {
            break;
        }
    }
    assert!(rounds_seen.contains(&1) && rounds_seen.contains(&2));
}

#[test]
fn a_full_disk_is_an_error_that_opening_again_mends() {
    let fragile = Fragile::default();
    let (index, _) = Index::with_backend(fragile.clone(), OPTIONS).unwrap();
    assert!(commit_round(&index, 10, 1));
    fragile.0.lock().unwrap().writes_left = Some(0);
    let change = seen(2);
    let error = index.apply(1, [(&key(0), &change)]).unwrap_err();
    assert!(error.is_retryable() && !error.is_damage(), "{error}");
    drop(index);
    let (index, _) = Index::with_backend(Fragile::with(fragile.crashed(|_| true), None), OPTIONS).unwrap();
    assert_eq!(round_of(&index, 10), 1);
    assert!(commit_round(&index, 10, 2));
}

/// Makes an index of 200 entries in the file `path`.
fn make(path: &Path) {
    let (index, _) = Index::open(path, OPTIONS).unwrap();
    assert!(commit_round(&index, 200, 1));
}

#[test]
fn the_file_has_space_behind_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let (index, _) = Index::open(&path, OPTIONS).unwrap();
    let mut lengths = BTreeSet::new();
    let keys: Vec<CacheKey> = (0..20_000).map(key).collect();
    for (count, change) in [(100, seen(1)), (10_000, seen(1)), (10_000, Change::removed()), (20_000, seen(1))] {
        index.apply(1, keys.iter().take(count).map(|key| (key, &change))).unwrap();
        let file = fs::metadata(&path).unwrap();
        lengths.insert(file.len());
        let behind = file.blocks() * 512 - file.len();
        assert!(behind >= file.len().max(1 << 20), "{behind} bytes behind {}", file.len());
    }
    assert!(lengths.len() > 2, "it has grown: {lengths:?}");
}

#[test]
fn a_file_that_is_not_an_index_is_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let aside = directory.path().join("index.replaced");
    for content in [b"no index at all".to_vec(), vec![0; 100_000], vec![0xff; 1 << 20]] {
        fs::write(&path, &content).unwrap();
        let (index, found) = Index::open(&path, OPTIONS).unwrap();
        assert!(matches!(found, Found::Replaced { .. }), "{found:?}");
        assert_eq!(index.count().unwrap(), 0);
        assert!(commit_round(&index, 10, 1));
        drop(index);
        assert_eq!(fs::read(&aside).unwrap(), content);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_truncated_index_is_moved_aside_or_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    make(&path);
    let image = fs::read(&path).unwrap();
    for sixteenths in 1..16 {
        fs::write(&path, &image[..image.len() / 16 * sixteenths]).unwrap();
        let (index, found) = Index::open(&path, OPTIONS).unwrap();
        if found == Found::Existing {
            assert_eq!(round_of(&index, 200), 1);
        } else {
            assert_eq!(index.count().unwrap(), 0);
        }
    }
}

#[test]
fn no_damage_of_the_file_gives_a_wrong_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    make(&path);
    let image = fs::read(&path).unwrap();
    let mut damages = 0;
    for at in (64..image.len()).step_by(image.len() / 97) {
        let mut damaged = image.clone();
        damaged[at..image.len().min(at + 512)].fill(0x5a);
        fs::write(&path, &damaged).unwrap();
        let (index, _) = Index::open(&path, OPTIONS).unwrap();
        match index.page(None, usize::MAX) {
            Ok(page) => assert!(page.iter().all(|(_, record)| record.disk.present_bytes == 1)),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                damages += 1;
            }
        }
        drop(index);
        let _ = fs::remove_file(directory.path().join("index.replaced"));
    }
    assert!(damages > 0);
}

#[test]
fn an_index_that_is_open_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    make(&path);
    let (open, _) = Index::open(&path, OPTIONS).unwrap();
    assert!(!Index::open(&path, OPTIONS).unwrap_err().is_damage());
    assert_eq!(round_of(&open, 200), 1);
}
