//! The files that say which fillers there are, and which of them owns each part.

use super::{PARTS_DIRECTORY, Part};
use crate::{FillerRecord, StoreError};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The directory of the parts of a store, except for the parts themselves.
#[derive(Debug)]
pub struct Registry {
    root: PathBuf,
    /// Contents of owner files, which never change.
    owners: BTreeMap<(Part, u64), Option<String>>,
}

/// The content of the files at one time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Snapshot {
    /// The records of fillers by their ids; `None` for one that is being written.
    pub fillers: BTreeMap<String, Option<FillerRecord>>,
    pub owners: BTreeMap<Part, Ownership>,
}

/// The owner of a part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ownership {
    pub epoch: u64,
    /// Id of the filler; `None` if the part is free.
    pub owner: Option<String>,
}

const FILLERS: &str = "fillers";
const OWNERS: &str = "owners";
const COUNT: &str = "count";

/// Length of a record in bytes: always the same, so that it is replaced by one write.
const RECORD_LEN: usize = 2048;

/// Longest id of a filler in bytes.
const ID_LEN_MAX: u64 = 64;

/// Former owners of a part whose files are kept: a filler that has read the directory before them must find its epoch taken.
const EPOCHS_KEPT: u64 = 8;

impl Registry {
    /// The registry of the store below `root`, for reading only.
    pub fn of(root: &Path) -> Self {
        Self { root: root.join(PARTS_DIRECTORY), owners: BTreeMap::new() }
    }

    /// As [`Self::of`], created if need be for `count` parts.
    ///
    /// # Errors
    /// [`StoreError::Divided`] if the store has another number of parts, or is not divided; else when the disk fails.
    pub fn create(root: &Path, count: u16) -> Result<Self, StoreError> {
        if root.join(crate::prepare::LOCK_FILE).exists() {
            return Err(StoreError::Divided { path: root.to_owned(), parts: 1 });
        }
        let registry = Self::of(root);
        for directory in [FILLERS, OWNERS] {
            let path = registry.root.join(directory);
            let created = DirBuilder::new().recursive(true).mode(0o755).create(&path);
            created.map_err(StoreError::io("creating the directory", &path))?;
        }
        let path = registry.root.join(COUNT);
        registry.link(&path, &count.to_string()).map_err(StoreError::io("creating", &path))?;
        match Self::count_in(root)? {
            Some(found) if found == count => Ok(registry),
            found => Err(StoreError::Divided { path: root.to_owned(), parts: found.unwrap_or(1) }),
        }
    }

    /// The number of parts of the store below `root`; `None` if it is not divided.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn count_in(root: &Path) -> Result<Option<u16>, StoreError> {
        let path = root.join(PARTS_DIRECTORY).join(COUNT);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().parse().unwrap_or(0))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("reading", &path)(error)),
        }
    }

    /// The present content of the files.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read(&mut self) -> Result<Snapshot, StoreError> {
        // Owners first: an owner that is named has a record, unless it has left since.
        let owners = self.read_owners()?;
        let mut fillers = BTreeMap::new();
        for id in self.names(FILLERS)?.into_iter().filter(|name| !name.starts_with('.')) {
            let path = self.root.join(FILLERS).join(&id);
            match read_bounded(&path, RECORD_LEN as u64) {
                Ok(text) => {
                    fillers.insert(id, serde_json::from_str(text.trim_end()).ok());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("reading", &path)(error)),
            }
        }
        Ok(Snapshot { fillers, owners })
    }

    fn read_owners(&mut self) -> Result<BTreeMap<Part, Ownership>, StoreError> {
        let mut highest: BTreeMap<Part, u64> = BTreeMap::new();
        for (part, epoch) in self.names(OWNERS)?.iter().filter_map(|name| parse_owner(name)) {
            let known = highest.entry(part).or_insert(epoch);
            *known = epoch.max(*known);
        }
        let mut owners = BTreeMap::new();
        for (part, epoch) in highest {
            if let Some(owner) = self.owner(part, epoch)? {
                owners.insert(part, Ownership { epoch, owner });
            }
        }
        self.owners.retain(|(part, epoch), _| owners.get(part).is_some_and(|found| found.epoch == *epoch));
        Ok(owners)
    }

    /// The content of an owner file; `None` if it has been removed, because there are higher epochs by now.
    fn owner(&mut self, part: Part, epoch: u64) -> Result<Option<Option<String>>, StoreError> {
        if let Some(known) = self.owners.get(&(part, epoch)) {
            return Ok(Some(known.clone()));
        }
        let path = self.owner_path(part, epoch);
        match read_bounded(&path, ID_LEN_MAX) {
            Ok(id) => {
                let owner = Some(id).filter(|id| !id.is_empty());
                self.owners.insert((part, epoch), owner.clone());
                Ok(Some(owner))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("reading", &path)(error)),
        }
    }

    /// Makes `owner` the owner of a part in `epoch`, or frees the part; false if another filler was first.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn take(&self, part: Part, epoch: u64, owner: Option<&str>) -> Result<bool, StoreError> {
        let path = self.owner_path(part, epoch);
        let taken = self.link(&path, owner.unwrap_or_default()).map_err(StoreError::io("creating", &path))?;
        if taken {
            for old in (1..=epoch.saturating_sub(EPOCHS_KEPT)).rev() {
                // All below it were removed with it.
                if fs::remove_file(self.owner_path(part, old)).is_err() {
                    break;
                }
            }
        }
        Ok(taken)
    }

    /// Writes the record of a filler at `now_ms`.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub(crate) fn renew(&self, record: &mut FillerRecord, now_ms: i64) -> Result<(), StoreError> {
        // Never the same twice: the change is what others look for.
        record.renewed_ms = now_ms.max(record.renewed_ms.saturating_add(1));
        let path = self.root.join(FILLERS).join(&record.instance);
        let write = || {
            let mut text = serde_json::to_vec(record).map_err(io::Error::other)?;
            text.resize(RECORD_LEN, b' ');
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(&path)?;
            // In place: clients of network file systems see that sooner than a new file under the name.
            file.write_all_at(&text, 0)?;
            file.sync_data()
        };
        write().map_err(StoreError::io("writing", &path))
    }

    /// Removes the record of a filler.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn forget(&self, id: &str) -> Result<(), StoreError> {
        let path = self.root.join(FILLERS).join(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("removing", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Creates `path` with `text`, all at once; false if there is such a file.
    fn link(&self, path: &Path, text: &str) -> io::Result<bool> {
        let mut random = [0_u8; 8];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let name = format!(".new-{}-{:x}", std::process::id(), u64::from_le_bytes(random));
        let staged = self.root.join(FILLERS).join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&staged)?;
        let linked = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_data());
        let linked = linked.and_then(|()| fs::hard_link(&staged, path));
        let _ = fs::remove_file(&staged);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn owner_path(&self, part: Part, epoch: u64) -> PathBuf {
        self.root.join(OWNERS).join(format!("{part}.{epoch}"))
    }

    fn names(&self, directory: &str) -> Result<BTreeSet<String>, StoreError> {
        let path = self.root.join(directory);
        let list = || fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name().into_string())).collect();
        let names: io::Result<Vec<Result<String, _>>> = list();
        Ok(names.map_err(StoreError::io("listing", &path))?.into_iter().flatten().collect())
    }
}

fn parse_owner(name: &str) -> Option<(Part, u64)> {
    let (part, epoch) = name.split_once('.')?;
    Some((part.parse().ok()?, epoch.parse().ok()?))
}

fn read_bounded(path: &Path, len_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_filler_takes_a_part_and_the_highest_epoch_counts() {
        let root = tempfile::tempdir().unwrap();
        let mut registry = Registry::create(root.path(), 4).unwrap();
        assert!(registry.take(2, 1, Some("a")).unwrap());
        assert!(!registry.take(2, 1, Some("b")).unwrap());
        let of_part_2 = |registry: &mut Registry| registry.read().unwrap().owners.remove(&2).unwrap();
        assert_eq!(of_part_2(&mut registry), Ownership { epoch: 1, owner: Some("a".to_owned()) });
        assert!(registry.take(2, 2, None).unwrap());
        assert_eq!(of_part_2(&mut registry), Ownership { epoch: 2, owner: None });
        for epoch in 3..30 {
            assert!(registry.take(2, epoch, Some("b")).unwrap());
        }
        assert_eq!(of_part_2(&mut registry), Ownership { epoch: 29, owner: Some("b".to_owned()) });
        assert_eq!(registry.names(OWNERS).unwrap().len(), 8, "old ones are removed");
    }

    #[test]
    fn records_are_seen_as_they_were_written_until_their_fillers_leave() {
        let root = tempfile::tempdir().unwrap();
        let mut registry = Registry::create(root.path(), 4).unwrap();
        let mut record = FillerRecord::of_this_process("root://a:1094".to_owned());
        registry.renew(&mut record, 5_000).unwrap();
        registry.renew(&mut record, 5_000).unwrap();
        assert_eq!(record.renewed_ms, 5_001, "a renewal always shows");
        let seen = registry.read().unwrap().fillers;
        assert_eq!(seen, BTreeMap::from([(record.instance.clone(), Some(record.clone()))]));
        registry.forget(&record.instance).unwrap();
        assert!(registry.read().unwrap().fillers.is_empty());
    }

    #[test]
    fn the_number_of_parts_never_changes() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Registry::count_in(root.path()).unwrap(), None);
        Registry::create(root.path(), 4).unwrap();
        Registry::create(root.path(), 4).unwrap();
        assert_eq!(Registry::count_in(root.path()).unwrap(), Some(4));
        assert!(matches!(Registry::create(root.path(), 5), Err(StoreError::Divided { parts: 4, .. })));
        let used = tempfile::tempdir().unwrap();
        drop(crate::LocalDisk::open(used.path()).unwrap());
        assert!(matches!(Registry::create(used.path(), 4), Err(StoreError::Divided { parts: 1, .. })));
    }
}
