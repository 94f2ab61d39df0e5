//! Trying whether a disk works: writing, syncing and reading back a small file.

use crate::{Permissions, StoreError, permissions::Creation, prepare::STAGING_DIRECTORY, tree::Tree};
use rustix::{
    fs::{AtFlags, fstat, stat, unlinkat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::Write,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

/// The bytes written: one page, so that the file system does not store them inline in its metadata.
const PATTERN: [u8; 4096] = [0xa5; 4096];

/// Name of the file in the staging directory.
const NAME: &str = "health";

/// Tries whether the disk of `tree` works, and still is the one at its path.
pub(crate) fn probe(tree: &Tree, staging: &OwnedFd) -> Result<(), StoreError> {
    // Otherwise writes would go to the old file system, or below the mount point of a missing one.
    if !is_at_its_path(tree)? {
        return Err(StoreError::Replaced { path: tree.path().to_owned() });
    }
    let path = tree.path().join(STAGING_DIRECTORY).join(NAME);
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
fn is_at_its_path(tree: &Tree) -> Result<bool, StoreError> {
    let failed = || StoreError::io("examining", tree.path());
    let root = fstat(tree.root()).map_err(failed())?;
    match stat(tree.path()) {
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
