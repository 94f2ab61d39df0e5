//! Walking over all entries of a disk.

use crate::{
    FileIdentity, OriginMark, StoreError, VolumeId,
    cinfo_file::{self, StoredCinfo},
    tree::{Place, Tree},
};
use forebay_cache::{CINFO_SUFFIX, CacheKey, Cinfo, is_reserved_top};
use rustix::{
    fs::{Dir, DirEntry, FileType},
    io::Errno,
};
use std::{collections::BTreeSet, os::fd::OwnedFd, sync::Arc};

/// A walk over the entries of one disk, in the order of their directories. Entries that come and go meanwhile may be
/// missed. All methods block.
pub trait Scan: Send {
    /// Examines up to `limit` further names and returns the entries found. Unreadable ones are skipped and counted.
    ///
    /// # Errors
    /// When the disk fails as a whole; the walk cannot continue.
    fn next_slice(&mut self, limit: usize) -> Result<ScanSlice, StoreError>;
}

/// The result of one part of a walk.
#[derive(Debug, Default)]
pub struct ScanSlice {
    pub entries: Vec<ScannedEntry>,
    /// Data files without a record, and records without data.
    pub orphans: u64,
    /// Records that cannot be read, names that no entry has, directories that cannot be listed.
    pub unusable: u64,
    pub is_last: bool,
}

impl ScanSlice {
    /// Adds the result of the part that comes next.
    pub(crate) fn append(&mut self, next: Self) {
        self.entries.extend(next.entries);
        self.orphans += next.orphans;
        self.unusable += next.unusable;
        self.is_last = next.is_last;
    }
}

/// An entry as a walk finds it.
#[derive(Clone, Debug)]
pub struct ScannedEntry {
    pub key: CacheKey,
    pub volume: VolumeId,
    pub identity: FileIdentity,
    pub cinfo: Cinfo,
    /// The origin's file, if the record has it.
    pub origin: Option<OriginMark>,
    /// When the entry was last used, in seconds of the Unix epoch.
    pub last_use: i64,
}

pub(crate) struct TreeScan {
    tree: Tree,
    volume: VolumeId,
    /// Entries of directories without a change since then, in seconds of the Unix epoch, are passed over.
    changed_since: Option<i64>,
    /// Directories that are being walked, the innermost last.
    levels: Vec<Level>,
    /// The directory to be walked next, below the innermost one.
    listing: Option<Listing>,
}

struct Level {
    /// Open while it is the innermost one: trees may be deeper than a process may have files open.
    directory: Option<Arc<OwnedFd>>,
    /// Path below the root, with a slash after it unless it is the root.
    path: String,
    work: Vec<Work>,
}

enum Work {
    Enter(String),
    /// An entry, by the name of its data file.
    Examine(String),
}

/// A directory that is being listed.
struct Listing {
    directory: Arc<OwnedFd>,
    /// As that of a [`Level`].
    path: String,
    names: Dir,
    directories: BTreeSet<String>,
    files: BTreeSet<String>,
    unusable: u64,
}

/// Names that are listed in the time of one that is examined: a cold disk lists hundreds of thousands in minutes.
const NAMES_PER_STEP: usize = 256;

impl TreeScan {
    pub(crate) const fn new(tree: Tree, volume: VolumeId, changed_since: Option<i64>) -> Self {
        Self { tree, volume, changed_since, levels: Vec::new(), listing: None }
    }

    /// Begins to list the directory `path`.
    fn enter(&mut self, path: &str, slice: &mut ScanSlice) -> Result<(), StoreError> {
        match Listing::begin(&self.tree, path) {
            Ok(listing) => self.list(listing, slice),
            Err(errno) => self.pass_over(path, errno, slice),
        }
    }

    /// Lists a part of a directory, which is entered at its end.
    fn list(&mut self, mut listing: Listing, slice: &mut ScanSlice) -> Result<(), StoreError> {
        match listing.read_on() {
            Ok(true) => self.descend(listing, slice),
            Ok(false) => self.listing = Some(listing),
            Err(errno) => return self.pass_over(&listing.path, errno, slice),
        }
        Ok(())
    }

    /// Takes note of a directory that cannot be listed.
    fn pass_over(&self, path: &str, errno: Errno, slice: &mut ScanSlice) -> Result<(), StoreError> {
        // A root that cannot be listed is a failed disk, not an empty one.
        if path.is_empty() {
            return Err(StoreError::io("listing", &self.tree.path)(errno));
        }
        let directory = self.tree.path.join(path.trim_end_matches('/'));
        tracing::warn!(directory = %directory.display(), error = %errno, "not listed");
        slice.unusable += 1;
        Ok(())
    }

    /// Enters a directory; its contents are added to `slice` where names alone suffice.
    fn descend(&mut self, listing: Listing, slice: &mut ScanSlice) {
        let Listing { directory, path, .. } = listing;
        slice.unusable += listing.unusable;
        let is_own = |name: &str| path.is_empty() && is_reserved_top(name);
        let mut work = Vec::new();
        // Creations and removals change the directory's time; changes of existing entries are in the index already.
        let changed = |directory| rustix::fs::fstat(directory).ok().map(|stat| stat.st_mtime);
        let is_wanted = self.changed_since.is_none_or(|since| changed(&directory).is_none_or(|time| time >= since));
        for name in listing.files.iter().filter(|name| is_wanted && !is_own(name)) {
            match name.strip_suffix(CINFO_SUFFIX) {
                Some(data) if listing.files.contains(data) => work.push(Work::Examine(data.to_owned())),
                None if listing.files.contains(&format!("{name}{CINFO_SUFFIX}")) => {}
                _ => slice.orphans += 1,
            }
        }
        work.extend(listing.directories.into_iter().filter(|name| !is_own(name)).map(Work::Enter));
        // In reverse, because work is taken from the end.
        work.sort_by(|a, b| b.name().cmp(a.name()));
        if let Some(above) = self.levels.last_mut() {
            // Opened again by path when the walk returns to it.
            above.directory = None;
        }
        self.levels.push(Level { directory: Some(directory), path, work });
    }

    /// Looks at the entry `name` of the innermost directory.
    fn examine(&mut self, name: &str, slice: &mut ScanSlice) {
        let Some(level) = self.levels.last_mut() else { return };
        // The name comes from the disk: it may be none that a client can ask for.
        let key = CacheKey::from_text(&format!("/{}{name}", level.path));
        let directory = level.directory.take().or_else(|| self.tree.directory(level.path.trim_end_matches('/')).ok());
        let (Some(key), Some(directory)) = (key, directory) else {
            slice.unusable += 1;
            return;
        };
        let place = self.tree.place_in(&directory, &key);
        level.directory = Some(directory);
        match read(&place) {
            Ok(Some((StoredCinfo { cinfo: Ok(cinfo), origin, modified: last_use }, identity))) => {
                slice.entries.push(ScannedEntry { key, volume: self.volume, identity, cinfo, origin, last_use });
            }
            // The entry was removed since its directory was listed, or is being created.
            Ok(None) => slice.orphans += 1,
            Ok(Some((StoredCinfo { cinfo: Err(error), .. }, _))) => {
                tracing::debug!(%key, %error, "record passed over");
                slice.unusable += 1;
            }
            Err(error) => {
                tracing::debug!(%key, %error, "entry passed over");
                slice.unusable += 1;
            }
        }
    }
}

impl Scan for TreeScan {
    fn next_slice(&mut self, limit: usize) -> Result<ScanSlice, StoreError> {
        let mut slice = ScanSlice::default();
        if self.levels.is_empty() && self.listing.is_none() {
            self.enter("", &mut slice)?;
        }
        for _ in 0..limit {
            if let Some(listing) = self.listing.take() {
                self.list(listing, &mut slice)?;
                continue;
            }
            let Some(level) = self.levels.last_mut() else { break };
            match level.work.pop() {
                Some(Work::Enter(name)) => {
                    let path = format!("{}{name}/", level.path);
                    self.enter(&path, &mut slice)?;
                }
                Some(Work::Examine(name)) => self.examine(&name, &mut slice),
                None => drop(self.levels.pop()),
            }
        }
        slice.is_last = self.levels.is_empty() && self.listing.is_none();
        Ok(slice)
    }
}

impl Work {
    fn name(&self) -> &str {
        match self {
            Self::Enter(name) | Self::Examine(name) => name,
        }
    }
}

impl Listing {
    fn begin(tree: &Tree, path: &str) -> rustix::io::Result<Self> {
        let directory = tree.directory(path.trim_end_matches('/'))?;
        Ok(Self {
            names: Dir::read_from(&*directory)?,
            directory,
            path: path.to_owned(),
            directories: BTreeSet::new(),
            files: BTreeSet::new(),
            unusable: 0,
        })
    }

    /// Reads some further names; whether these were the last ones.
    fn read_on(&mut self) -> rustix::io::Result<bool> {
        for _ in 0..NAMES_PER_STEP {
            let Some(entry) = self.names.next() else { return Ok(true) };
            self.take_in(&entry?);
        }
        Ok(false)
    }

    fn take_in(&mut self, entry: &DirEntry) {
        let Ok(name) = entry.file_name().to_str() else {
            self.unusable += 1;
            return;
        };
        if name == "." || name == ".." {
            return;
        }
        let file_type = match entry.file_type() {
            FileType::Unknown => type_of(&self.directory, name),
            known => known,
        };
        match file_type {
            FileType::Directory => drop(self.directories.insert(name.to_owned())),
            // A link may lead into a space of XCache.
            FileType::RegularFile | FileType::Symlink => drop(self.files.insert(name.to_owned())),
            _ => self.unusable += 1,
        }
    }
}

/// For file systems that do not give the type with the name.
fn type_of(directory: &OwnedFd, name: &str) -> FileType {
    let stat = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// The record at a place and the data file it is about; `None` when one of them is missing.
fn read(place: &Place) -> Result<Option<(StoredCinfo, FileIdentity)>, StoreError> {
    let Some(stored) = cinfo_file::read(place)? else { return Ok(None) };
    Ok(place.data_identity()?.map(|identity| (stored, identity)))
}
