//! Finding files below the root without ever leaving it by accident.

use crate::{
    FileIdentity, StoreError,
    permissions::{Creation, FILE_FLAGS},
};
use forebay_cache::{CINFO_SUFFIX, CacheKey};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat, unlinkat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
};

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) path: PathBuf,
    creation: Creation,
}

/// The directory of an entry, and the entry's name in it.
#[derive(Debug)]
pub(crate) struct Place {
    directory: Arc<OwnedFd>,
    name: String,
    creation: Creation,
    path: PathBuf,
}

/// Where a file of an entry really is: its name in the tree, or what a link into a space of XCache points to.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: OsString,
    pub(crate) path: PathBuf,
    creation: Creation,
    link: Option<(Arc<OwnedFd>, OsString)>,
}

impl Tree {
    /// Opens the tree below `path`, in which entries are created by `creation`.
    pub(crate) fn open(path: &Path, creation: Creation) -> Result<Self, StoreError> {
        let root = openat(CWD, path, DIRECTORY_FLAGS, Mode::empty()).map_err(StoreError::io("opening", path))?;
        Ok(Self { root: Arc::new(root), path: path.to_owned(), creation })
    }

    pub(crate) fn path_of(&self, key: &CacheKey) -> PathBuf {
        self.path.join(key.as_str().trim_start_matches('/'))
    }

    /// The place of `key`, or `None` when its directory does not exist or is none.
    pub(crate) fn place(&self, key: &CacheKey) -> Result<Option<Place>, StoreError> {
        let (parent, name) = key.split();
        match self.directory(parent) {
            Ok(directory) => Ok(Some(self.place_at(directory, name, key))),
            // NOTDIR: the name above is a file here, perhaps an entry; it was a directory once, or will be.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.directory_error(parent, errno)),
        }
    }

    pub(crate) fn place_in(&self, directory: &Arc<OwnedFd>, key: &CacheKey) -> Place {
        self.place_at(Arc::clone(directory), key.split().1, key)
    }

    fn place_at(&self, directory: Arc<OwnedFd>, name: &str, key: &CacheKey) -> Place {
        Place { directory, name: name.to_owned(), creation: self.creation, path: self.path_of(key) }
    }

    /// The place of `key`; its directory is created if need be.
    pub(crate) fn create_place(&self, key: &CacheKey) -> Result<Place, StoreError> {
        let (parent, name) = key.split();
        let directory = self.create_directory(parent, self.creation)?;
        Ok(self.place_at(directory, name, key))
    }

    /// Opens the directory `path` below the root, creating by `creation` what is missing of it.
    pub(crate) fn create_directory(&self, path: &str, creation: Creation) -> Result<Arc<OwnedFd>, StoreError> {
        match self.directory(path) {
            Err(Errno::NOENT) => {}
            other => return other.map_err(|errno| self.directory_error(path, errno)),
        }
        // Mostly only the last components are missing, but which ones is known only by trying.
        let mut directory = Arc::clone(&self.root);
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut start = 0;
        for end in ends {
            let component = path.get(start..end).unwrap_or_default();
            let below_root = path.get(..end).unwrap_or(path);
            creation.directory(&directory, component).map_err(|errno| self.directory_error(below_root, errno))?;
            directory = self.directory(below_root).map_err(|errno| self.directory_error(below_root, errno))?;
            start = end + 1;
        }
        Ok(directory)
    }

    /// Opens the directory `path` below the root. Links on the way are followed if they stay below the root.
    pub(crate) fn directory(&self, path: &str) -> rustix::io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        // The kernel refuses every way out of the root, also one that a link opens during the call.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&*self.root, path, DIRECTORY_FLAGS, Mode::empty(), resolve) {
            // Linux before 5.6, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => self.directory_without_links(path),
            other => other.map(Arc::new),
        }
    }

    /// Opens the data file of `key` for reading and writing if there is a record next to it, and the kernel finds both without
    /// waiting. A failure says nothing: links into spaces are not followed here, and kernels before 5.12 do not know such an open.
    pub(crate) fn open_cached(&self, key: &CacheKey) -> rustix::io::Result<(File, Metadata)> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        let open = |path: &str, flags| openat2(&*self.root, path, flags, Mode::empty(), resolve);
        let path = key.as_str().trim_start_matches('/');
        let data = File::from(open(path, OFlags::RDWR | FILE_FLAGS)?);
        // Only whether it is there: administrators remove records to have files fetched again.
        open(&format!("{path}{CINFO_SUFFIX}"), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        let metadata = data.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok((data, metadata))
    }

    fn directory_without_links(&self, path: &str) -> rustix::io::Result<Arc<OwnedFd>> {
        path.split('/').try_fold(Arc::clone(&self.root), |directory, component| {
            // Without the kernel's help no link is followed at all: a check of its target could be outrun.
            match openat(&*directory, component, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
                // Neither a file nor a link is a directory; only the latter can be read as a link.
                Err(Errno::NOTDIR) if readlinkat(&*directory, component, Vec::new()).is_ok() => Err(Errno::LOOP),
                other => other.map(Arc::new),
            }
        })
    }

    fn directory_error(&self, path: &str, errno: Errno) -> StoreError {
        let path = self.path.join(path);
        match errno {
            Errno::XDEV | Errno::LOOP => StoreError::ForeignLink { path },
            _ => StoreError::io("opening the directory", &path)(errno),
        }
    }
}

impl Place {
    pub(crate) fn data(&self) -> Result<Spot, StoreError> {
        self.spot(OsString::from(&self.name), self.path.clone())
    }

    pub(crate) fn cinfo(&self) -> Result<Spot, StoreError> {
        let Spot { name, path, .. } = self.cinfo_here();
        self.spot(name, path)
    }

    /// Where the data file is, unless a link leads elsewhere.
    pub(crate) fn data_here(&self) -> Spot {
        self.here(OsString::from(&self.name), self.path.clone())
    }

    /// Where the record is, unless a link leads elsewhere.
    pub(crate) fn cinfo_here(&self) -> Spot {
        let mut path = self.path.clone().into_os_string();
        path.push(CINFO_SUFFIX);
        self.here(OsString::from(format!("{}{CINFO_SUFFIX}", self.name)), path.into())
    }

    /// Opens the data file, or returns `None` when there is none.
    pub(crate) fn open_data(&self, access: OFlags) -> Result<Option<(File, Metadata)>, StoreError> {
        self.open(self.data_here(), access)
    }

    /// Opens the record, or returns `None` when there is none.
    pub(crate) fn open_cinfo(&self, access: OFlags) -> Result<Option<(File, Metadata)>, StoreError> {
        self.open(self.cinfo_here(), access)
    }

    pub(crate) fn data_identity(&self) -> Result<Option<FileIdentity>, StoreError> {
        match self.data_here().identity()? {
            Some(identity) => Ok(Some(identity)),
            // Nothing, or a link.
            None => self.data()?.identity(),
        }
    }

    /// Opens a file that is here, as it mostly is, or where a link leads.
    fn open(&self, here: Spot, access: OFlags) -> Result<Option<(File, Metadata)>, StoreError> {
        match here.open(access) {
            // Links into spaces are rare: they are read only after the plain open has failed.
            Err(StoreError::NotAFile { .. }) => self.spot(here.name, here.path)?.open(access),
            opened => opened,
        }
    }

    fn here(&self, name: OsString, path: PathBuf) -> Spot {
        Spot { directory: Arc::clone(&self.directory), name, path, creation: self.creation, link: None }
    }

    fn spot(&self, name: OsString, path: PathBuf) -> Result<Spot, StoreError> {
        let text = match readlinkat(&*self.directory, &name, Vec::new()) {
            Ok(text) => text,
            // No link, or nothing there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(self.here(name, path)),
            Err(errno) => return Err(StoreError::io("reading the link", &path)(errno)),
        };
        let target = Path::new(OsStr::from_bytes(text.as_bytes()));
        let (Some(parent), Some(target_name)) = (target.parent(), target.file_name()) else {
            return Err(StoreError::ForeignLink { path });
        };
        // XCache writes only such links. Any other one may be planted, and could lead a write anywhere.
        if !target.is_absolute() || !target_name.as_bytes().ends_with(b"%") {
            return Err(StoreError::ForeignLink { path });
        }
        let directory =
            openat(CWD, parent, DIRECTORY_FLAGS, Mode::empty()).map_err(StoreError::io("opening the space", parent))?;
        Ok(Spot {
            directory: Arc::new(directory),
            name: target_name.to_owned(),
            path: target.to_owned(),
            creation: self.creation,
            link: Some((Arc::clone(&self.directory), name)),
        })
    }
}

impl Spot {
    pub(crate) const fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Opens the regular file here, or returns `None` when there is nothing.
    pub(crate) fn open(&self, access: OFlags) -> Result<Option<(File, Metadata)>, StoreError> {
        let file = match openat(&*self.directory, &self.name, access | FILE_FLAGS, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            // A directory, a link, or a socket or FIFO without a peer.
            Err(Errno::ISDIR | Errno::LOOP | Errno::NXIO) => {
                return Err(StoreError::NotAFile { path: self.path.clone() });
            }
            Err(errno) => return Err(StoreError::io("opening", &self.path)(errno)),
        };
        let metadata = file.metadata().map_err(StoreError::io("examining", &self.path))?;
        // Checked after the open: a check by name could be outrun by a rename.
        if metadata.is_file() {
            Ok(Some((file, metadata)))
        } else {
            Err(StoreError::NotAFile { path: self.path.clone() })
        }
    }

    /// Creates the file here, which must not exist.
    pub(crate) fn create(&self) -> Result<File, StoreError> {
        self.creation.file(&self.directory, &self.name).map_err(StoreError::io("creating", &self.path))
    }

    /// Creates the file here, or returns `None` when there is something.
    pub(crate) fn create_if_free(&self) -> Result<Option<File>, StoreError> {
        match self.creation.file(&self.directory, &self.name) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(StoreError::io("creating", &self.path)(errno)),
        }
    }

    pub(crate) fn identity(&self) -> Result<Option<FileIdentity>, StoreError> {
        match statat(&*self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(FileIdentity { device: stat.st_dev, inode: stat.st_ino }))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(StoreError::io("examining", &self.path)(errno)),
        }
    }

    /// Removes the file here and leaves a link to it alone; true when there was one.
    pub(crate) fn remove_file(&self) -> Result<bool, StoreError> {
        match unlinkat(&*self.directory, &self.name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            // A file system that cannot be written says so even of what is not there.
            Err(Errno::ROFS) if matches!(self.identity(), Ok(None)) => Ok(false),
            Err(errno) => Err(StoreError::io("removing", &self.path)(errno)),
        }
    }

    /// Removes the file here and a link to it; true when there was a file.
    pub(crate) fn remove(&self) -> Result<bool, StoreError> {
        let was_there = self.remove_file()?;
        // The file goes before the link: a link to nothing is harmless, a file without a link is lost room.
        let Some((directory, name)) = &self.link else {
            return Ok(was_there);
        };
        match unlinkat(&**directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(was_there),
            Err(errno) => Err(StoreError::io("removing the link to", &self.path)(errno)),
        }
    }

    /// Makes the removal or creation of names in this directory durable.
    pub(crate) fn sync_directory(&self) -> Result<(), StoreError> {
        rustix::fs::fsync(&*self.directory).map_err(StoreError::io("syncing the directory of", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Permissions;
    use std::os::unix::fs::symlink;

    #[test]
    fn directories_are_found_without_openat2_too() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        symlink("a", root.path().join("link")).unwrap();
        symlink("/", root.path().join("a/out")).unwrap();
        let tree = Tree::open(root.path(), Creation::with(Permissions::default())).unwrap();
        assert!(tree.directory_without_links("a/b").is_ok());
        assert_eq!(tree.directory_without_links("a/c").unwrap_err(), Errno::NOENT);
        for path in ["link", "link/b", "a/out", "a/out/etc"] {
            let errno = tree.directory_without_links(path).unwrap_err();
            let error = tree.directory_error(path, errno);
            assert!(matches!(error, StoreError::ForeignLink { .. }), "{path}: {error:?}");
        }
    }

    #[test]
    fn directories_are_created_once_and_below_each_other() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::open(root.path(), Creation::with(Permissions::default())).unwrap();
        for path in ["", "a", "a/b/c", "a/b/c", "a/x"] {
            tree.create_directory(path, tree.creation).unwrap();
            assert!(root.path().join(path).is_dir());
        }
    }
}
