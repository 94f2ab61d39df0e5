//! Simulates crashes: of everything that was not synced, any part may survive.

use crate::dice::Dice;
use bytes::Bytes;
use forebay_cache::{CINFO_SUFFIX, CacheKey};
use forebay_store::{DataFile, FileIdentity};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Changes of a disk since it was last synced.
pub(crate) struct Unsynced {
    root: PathBuf,
    /// Data files that were written, each with what the writes replaced, oldest first.
    written: BTreeMap<(u64, u64), Written>,
    /// Entries whose names are not durable yet.
    created: BTreeSet<CacheKey>,
    /// Records that were written in place and could not be synced, with what they held before.
    records: BTreeMap<PathBuf, Vec<u8>>,
    /// Data files that were removed, and where they are kept: a crash may bring them back.
    removed: Vec<(PathBuf, PathBuf)>,
}

struct Written {
    data: Arc<dyn DataFile>,
    replaced: Vec<Replaced>,
    /// Pages that a sync has failed to bring to the disk: a later one does not report them.
    given_up: Vec<Replaced>,
    /// Whether its own next sync reports that pages were given up.
    tells_loss: bool,
}

/// A page before it was written, and the length of the file then.
struct Replaced {
    offset: u64,
    bytes: Vec<u8>,
    len: u64,
}

/// The unit in which a crash loses written bytes.
const PAGE: u64 = 4096;

/// Where removed data files are kept, next to the store.
const GRAVEYARD: &str = "graveyard";

impl Unsynced {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            written: BTreeMap::new(),
            created: BTreeSet::new(),
            records: BTreeMap::new(),
            removed: Vec::new(),
        }
    }

    /// Keeps what a write to `data` is about to replace.
    pub(crate) fn note_write(&mut self, data: &Arc<dyn DataFile>, offset: u64, len: u64) -> io::Result<()> {
        let identity = data.identity();
        let file_len = data.file().metadata()?.len();
        let written = self.written.entry((identity.device, identity.inode));
        let written = written.or_insert_with(|| Written {
            data: Arc::clone(data),
            replaced: Vec::new(),
            given_up: Vec::new(),
            tells_loss: false,
        });
        let mut start = offset;
        while start < offset + len {
            let end = (offset + len).min((start / PAGE + 1) * PAGE);
            let mut bytes = vec![0; usize::try_from(end.min(file_len).saturating_sub(start)).unwrap_or(0)];
            data.read_exact_at(&mut bytes, start)?;
            bytes.resize(usize::try_from(end - start).unwrap_or(0), 0);
            written.replaced.push(Replaced { offset: start, bytes, len: file_len });
            start = end;
        }
        Ok(())
    }

    pub(crate) fn note_synced(&mut self, identity: FileIdentity) {
        if let Some(written) = self.written.get_mut(&(identity.device, identity.inode)) {
            written.note_synced();
        }
    }

    /// Everything was synced, but for the files that `is_lost` says of.
    pub(crate) fn note_all_synced(&mut self, mut is_lost: impl FnMut() -> bool) {
        for written in self.written.values_mut().filter(|written| !written.replaced.is_empty()) {
            if is_lost() {
                written.given_up.append(&mut written.replaced);
                written.tells_loss = true;
            } else {
                written.note_synced();
            }
        }
    }

    /// Whether a file has lost something since it was asked last.
    pub(crate) fn take_loss(&mut self, identity: FileIdentity) -> bool {
        let written = self.written.get_mut(&(identity.device, identity.inode));
        written.is_some_and(|written| std::mem::take(&mut written.tells_loss))
    }

    pub(crate) fn note_sync_failed(&mut self, identity: FileIdentity) {
        let Some(written) = self.written.get_mut(&(identity.device, identity.inode)) else { return };
        written.given_up.append(&mut written.replaced);
    }

    /// The entry whose data is at `path` was created.
    pub(crate) fn note_created(&mut self, key: &CacheKey, path: &Path) {
        self.records.remove(&record_of(path));
        self.created.insert(key.clone());
    }

    /// The record of the entry whose data is at `path` was written, and the directory synced with it.
    pub(crate) fn note_recorded(&mut self, key: &CacheKey, path: &Path) {
        self.created.remove(key);
        self.records.remove(&record_of(path));
    }

    /// The bytes of the record of the entry whose data is at `path`.
    pub(crate) fn image_of_record(path: &Path) -> Option<Vec<u8>> {
        fs::read(record_of(path)).ok()
    }

    /// The record of the entry whose data is at `path` was written over `image`, and not synced.
    pub(crate) fn note_record_not_synced(&mut self, path: &Path, image: Vec<u8>) {
        self.records.entry(record_of(path)).or_insert(image);
    }

    /// The entry is about to be removed: its record durably, its data not.
    pub(crate) fn note_removal(&mut self, key: &CacheKey, path: &Path) {
        self.created.remove(key);
        self.records.remove(&record_of(path));
        let graveyard = self.root.with_extension(GRAVEYARD);
        let grave = graveyard.join(self.removed.len().to_string());
        let is_kept = fs::create_dir_all(&graveyard).and_then(|()| fs::hard_link(path, &grave)).is_ok();
        if is_kept {
            self.removed.push((path.to_owned(), grave));
        }
    }

    /// Forgets everything: the machine was shut down in order.
    pub(crate) fn forget(&mut self) {
        let _ = fs::remove_dir_all(self.root.with_extension(GRAVEYARD));
        *self = Self::new(&self.root.clone());
    }

    /// The machine has crashed: loses any part of what was not synced.
    pub(crate) fn crash(&mut self, dice: &mut Dice) -> io::Result<()> {
        for written in std::mem::take(&mut self.written).into_values() {
            lose_writes(&written, dice)?;
        }
        for (record, old) in std::mem::take(&mut self.records) {
            tear(&record, &old, dice)?;
        }
        for key in std::mem::take(&mut self.created) {
            let path = self.root.join(key.as_str().trim_start_matches('/'));
            let cinfo = record_of(&path);
            for name in [path, cinfo] {
                if dice.one_in(2) {
                    remove_if_there(&name)?;
                }
            }
        }
        for (path, grave) in std::mem::take(&mut self.removed) {
            if dice.one_in(2) && !path.exists() {
                fs::rename(grave, path)?;
            }
        }
        self.forget();
        Ok(())
    }
}

impl Written {
    fn note_synced(&mut self) {
        let synced: BTreeSet<u64> = self.replaced.drain(..).map(|replaced| replaced.offset / PAGE).collect();
        self.given_up.retain(|replaced| !synced.contains(&(replaced.offset / PAGE)));
    }
}

/// The record of the entry whose data is at `path`.
fn record_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}{CINFO_SUFFIX}", path.display()))
}

/// Leaves a record as it is, as it was, or some of both.
fn tear(record: &Path, old: &[u8], dice: &mut Dice) -> io::Result<()> {
    let Ok(mut image) = fs::read(record) else { return Ok(()) };
    let kept = usize::try_from(dice.within(0..=image.len() as u64)).unwrap_or(0);
    image.truncate(kept);
    image.extend_from_slice(old.get(kept..).unwrap_or_default());
    fs::write(record, image)
}

/// Undoes some of the pages written, the newest first: at times none, at times all.
fn lose_writes(written: &Written, dice: &mut Dice) -> io::Result<()> {
    let one_in = dice.within(1..=4);
    for replaced in written.given_up.iter().chain(&written.replaced).rev() {
        if dice.one_in(one_in) {
            written.data.write_vectored_at(replaced.offset, &[Bytes::copy_from_slice(&replaced.bytes)])?;
            if dice.one_in(4) {
                written.data.file().set_len(replaced.len)?;
            }
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
