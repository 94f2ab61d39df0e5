//! Prepares and checks a store's root, and tries whether its disk works.

use crate::{Permissions, Reserve, Space, StoreError, permissions::Creation, tree::Tree, xattrs};
use rustix::{
    fs::{
        AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, StatxAttributes, StatxFlags, flock, fstat, fstatvfs, openat,
        stat, statx, unlinkat,
    },
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::Write,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::Path,
    sync::Arc,
};

/// Our own directory below the root.
pub(crate) const OWN_DIRECTORY: &str = ".forebay";

/// Where records are written before they get their names.
pub(crate) const STAGING_DIRECTORY: &str = ".forebay/tmp";

/// Space for records on a full disk.
pub(crate) const RESERVE_FILE: &str = ".forebay/reserve";

pub(crate) const LOCK_FILE: &str = ".forebay/lock";

/// Properties of a store's root.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreReport {
    /// Whether the file system keeps extended attributes. Without them a changed file at the origin goes unnoticed when
    /// its size stays the same.
    pub keeps_xattrs: bool,
    pub space: Space,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tree: Tree,
    pub(crate) creation: Creation,
    pub(crate) staging: Arc<OwnedFd>,
    pub(crate) report: StoreReport,
}

/// Checks that `root` can be a store: it is created if need be, and must be a directory that can be written to. The
/// store may be in use.
///
/// # Errors
/// Says what is wrong.
pub fn check(root: &Path) -> Result<StoreReport, StoreError> {
    prepare(root, Permissions::default()).map(|prepared| prepared.report)
}

/// Whether a file system is mounted at `path`. If the operating system does not report it (Linux before 5.8), another device than
/// the directory above.
pub fn is_mount_point(path: &Path) -> bool {
    let reported = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE);
    match reported {
        Ok(reported) if reported.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            reported.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        }
        _ => matches!((stat(path), stat(path.join(".."))), (Ok(it), Ok(above)) if it.st_dev != above.st_dev),
    }
}

pub(crate) fn prepare(root: &Path, permissions: Permissions) -> Result<Prepared, StoreError> {
    let (tree, creation) = prepare_root(root, permissions)?;
    // Our own files are for no other user, even if entries may be read by others.
    let staging = tree.create_directory(STAGING_DIRECTORY, Creation::with(Permissions::default()))?;
    finish(tree, creation, staging, STAGING_DIRECTORY)
}

/// As [`prepare`], with the directory `staging` below the root, which must be there, for files before they get their names.
pub(crate) fn prepare_part(root: &Path, permissions: Permissions, staging: &str) -> Result<Prepared, StoreError> {
    let (tree, creation) = prepare_root(root, permissions)?;
    let path = tree.path.join(staging);
    let directory = tree.directory(staging).map_err(StoreError::io("opening the directory", &path))?;
    finish(tree, creation, directory, staging)
}

/// Opens the tree below `root`, which is created if need be.
pub(crate) fn prepare_root(root: &Path, permissions: Permissions) -> Result<(Tree, Creation), StoreError> {
    let is_new = !root.exists();
    std::fs::create_dir_all(root).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            StoreError::NotADirectory { path: root.to_owned() }
        }
        _ => StoreError::io("creating the directory", root)(source),
    })?;
    // Resolved once: a later change of a link on the way must not move the store under a running server.
    let root = root.canonicalize().map_err(StoreError::io("resolving", root))?;
    let creation = Creation::with(permissions);
    let tree = Tree::open(&root, creation)?;
    // An existing root keeps its permissions: the site may have set them.
    if is_new {
        creation.settle_directory(&tree.root).map_err(StoreError::io("setting the permissions of", &root))?;
    }
    Ok((tree, creation))
}

fn finish(tree: Tree, creation: Creation, staging: Arc<OwnedFd>, staging_name: &str) -> Result<Prepared, StoreError> {
    let keeps_xattrs = try_with_reserve(&tree, (&staging, staging_name), creation)?;
    let space = space(&tree)?;
    Ok(Prepared { tree, creation, staging, report: StoreReport { keeps_xattrs, space } })
}

/// As [`try_writing`], also on a disk that is full: its entries are served, and purged until there is room.
fn try_with_reserve(tree: &Tree, staging: (&OwnedFd, &str), creation: Creation) -> Result<bool, StoreError> {
    let mut tried = try_writing(tree, staging, creation);
    let is_full = |tried: &Result<bool, StoreError>| tried.as_ref().is_err_and(StoreError::is_out_of_space);
    if is_full(&tried) && Reserve::release_at(&tree.path.join(RESERVE_FILE)) {
        tried = try_writing(tree, staging, creation);
    }
    if is_full(&tried) {
        tracing::warn!(store = %tree.path.display(), "the disk is full: nothing can be written to it for now");
        return Ok(xattrs::are_supported(&tree.root));
    }
    tried
}

/// Writes and removes a file, created as those of entries; true when it could keep an extended attribute.
fn try_writing(tree: &Tree, (staging, staging_name): (&OwnedFd, &str), creation: Creation) -> Result<bool, StoreError> {
    let name = format!("probe-{}", std::process::id());
    let path = tree.path.join(staging_name).join(&name);
    let mut file = match creation.file(staging, OsStr::new(&name)) {
        // Left by a process that was killed.
        Err(Errno::EXIST) => {
            openat(staging, &name, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map(File::from)
        }
        other => other,
    }
    .map_err(StoreError::io("creating", &path))?;
    let written = file.write_all(b"probe").map_err(StoreError::io("writing", &path));
    // Tried on a real file: mount options may forbid what the file system supports. A full disk says nothing about that.
    let keeps_xattrs = xattrs::are_kept(&file) || (written.is_err() && xattrs::are_supported(&file));
    let removed = unlinkat(staging, &name, AtFlags::empty()).map_err(StoreError::io("removing", &path));
    written.and(removed).map(|()| keeps_xattrs)
}

/// Takes the store for this process, until the file that is returned is closed.
pub(crate) fn lock(tree: &Tree) -> Result<OwnedFd, StoreError> {
    let path = tree.path.join(LOCK_FILE);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(&tree.root, LOCK_FILE, flags, Mode::from_raw_mode(0o600)).map_err(StoreError::io("opening", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(StoreError::Locked { path }),
        // Some network file systems have no locks. Refusing them would exclude setups that are safe.
        Err(Errno::NOSYS | Errno::NOTSUP) => {
            tracing::warn!(path = %path.display(), "the file system has no locks: make sure that one process uses the store");
        }
        Err(errno) => return Err(StoreError::io("locking", &path)(errno)),
    }
    Ok(file)
}

/// Removes what a crash left in the staging directory. The store must be locked.
pub(crate) fn clear_staging(prepared: &Prepared) -> Result<(), StoreError> {
    let path = prepared.tree.path.join(STAGING_DIRECTORY);
    let entries = Dir::read_from(&*prepared.staging).map_err(StoreError::io("listing", &path))?;
    for entry in entries {
        let entry = entry.map_err(StoreError::io("listing", &path))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            match unlinkat(&*prepared.staging, name, AtFlags::empty()) {
                // Directories are not ours: they are left to the site.
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
                Err(errno) => return Err(StoreError::io("removing", &path.join(name))(errno)),
            }
        }
    }
    Ok(())
}

pub(crate) fn space(tree: &Tree) -> Result<Space, StoreError> {
    let statvfs = fstatvfs(&tree.root).map_err(StoreError::io("asking for the space of", &tree.path))?;
    Ok(Space {
        total_bytes: statvfs.f_blocks.saturating_mul(statvfs.f_frsize),
        // Not `f_bfree`, which includes blocks that are reserved for root.
        free_bytes: statvfs.f_bavail.saturating_mul(statvfs.f_frsize),
        total_inodes: statvfs.f_files,
        free_inodes: statvfs.f_favail,
    })
}

/// The bytes written: one page, so that the file system does not store them inline in its metadata.
const PATTERN: [u8; 4096] = [0xa5; 4096];

/// Name of the file in the staging directory.
const NAME: &str = "health";

/// Tries whether the disk of `tree` works, and still is the one at its path.
pub(crate) fn probe(tree: &Tree, staging: &OwnedFd) -> Result<(), StoreError> {
    // Otherwise writes would go to the old file system, or below the mount point of a missing one.
    if !is_at_its_path(tree)? {
        return Err(StoreError::Replaced { path: tree.path.to_owned() });
    }
    let path = tree.path.join(STAGING_DIRECTORY).join(NAME);
    let name = OsStr::new(NAME);
    // Left by an earlier probe that was killed or hung.
    remove(staging).map_err(StoreError::io("removing", &path))?;
    let own = Creation::with(Permissions::default());
    let mut file = own.file(staging, name).map_err(StoreError::io("creating", &path))?;
    let tried = file
        .write_all(&PATTERN)
        .map_err(StoreError::io("writing", &path))
        // Without a sync the page cache alone would answer for the disk.
        .and_then(|()| file.sync_all().map_err(StoreError::io("syncing", &path)))
        .and_then(|()| read_back(&file).map_err(StoreError::io("reading", &path)));
    // Removed also after a failure: a full disk should not keep the file.
    let removed = remove(staging).map_err(StoreError::io("removing", &path));
    tried.and(removed)
}

/// Whether the tree's root is what its path leads to: another file system may be mounted there by now, or none.
pub(crate) fn is_at_its_path(tree: &Tree) -> Result<bool, StoreError> {
    let failed = || StoreError::io("examining", &tree.path);
    let root = fstat(&tree.root).map_err(failed())?;
    match stat(&tree.path) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (root.st_dev, root.st_ino)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(errno) => Err(failed()(errno)),
    }
}

fn read_back(file: &File) -> std::io::Result<()> {
    // From the disk, not from memory, if the system honours the advice.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    let mut back = [0; PATTERN.len()];
    file.read_exact_at(&mut back, 0)?;
    if back == PATTERN { Ok(()) } else { Err(Errno::IO.into()) }
}

fn remove(staging: &OwnedFd) -> rustix::io::Result<()> {
    match unlinkat(staging, NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
