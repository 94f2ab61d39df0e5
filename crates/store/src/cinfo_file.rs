//! Records as files.

use crate::{
    OriginMark, StoreError,
    tree::{Spot, create_file},
    xattrs::{self, Attributes},
};
use forebay_cache::{CINFO_LEN_MAX, Cinfo, CinfoError};
use rustix::{
    fs::{AtFlags, OFlags, renameat, unlinkat},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::File,
    io::Write,
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, MetadataExt},
    },
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most names tried for a file being written: a crash may have left some beside files in spaces.
const STAGING_ATTEMPTS_MAX: u32 = 1000;

/// A record as it was found.
#[derive(Debug)]
pub(crate) struct StoredCinfo {
    pub(crate) cinfo: Result<Cinfo, CinfoError>,
    pub(crate) origin: Option<OriginMark>,
    /// When it was written or touched last, in seconds of the Unix epoch.
    pub(crate) modified: i64,
}

/// Writes records: as a whole, or not at all.
#[derive(Debug)]
pub(crate) struct CinfoWriter {
    staging: Arc<OwnedFd>,
    keeps_xattrs: bool,
    next_name: AtomicU64,
}

/// Reads the record at `spot`, or returns `None` when there is none.
pub(crate) fn read(spot: &Spot) -> Result<Option<StoredCinfo>, StoreError> {
    let Some((file, metadata)) = spot.open(OFlags::RDONLY)? else {
        return Ok(None);
    };
    let mut bytes = vec![0; usize::try_from(metadata.len().min(CINFO_LEN_MAX)).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0).map_err(StoreError::io("reading", &spot.path))?;
    Ok(Some(StoredCinfo { cinfo: Cinfo::decode(&bytes), origin: xattrs::origin(&file), modified: metadata.mtime() }))
}

impl CinfoWriter {
    pub(crate) const fn new(staging: Arc<OwnedFd>, keeps_xattrs: bool) -> Self {
        Self { staging, keeps_xattrs, next_name: AtomicU64::new(0) }
    }

    /// Writes the first record of an entry, in place and without syncing: it holds no bit that could be lost.
    pub(crate) fn create(
        &self,
        spot: &Spot,
        carried: &Attributes,
        cinfo: &Cinfo,
        origin: Option<&OriginMark>,
    ) -> Result<(), StoreError> {
        let file = spot.create()?;
        self.fill(&file, carried, cinfo, origin).map_err(StoreError::io("writing", &spot.path))
    }

    /// Replaces the record at `spot` durably and at once, keeping its foreign attributes.
    pub(crate) fn replace(&self, spot: &Spot, cinfo: &Cinfo, origin: Option<&OriginMark>) -> Result<(), StoreError> {
        let carried = match spot.open(OFlags::RDONLY)? {
            Some((old, _)) if self.keeps_xattrs => {
                Attributes::foreign(&old).map_err(StoreError::io("reading the attributes of", &spot.path))?
            }
            _ => Attributes::default(),
        };
        let write = |directory: &OwnedFd| {
            let (file, name) = self.stage(directory)?;
            self.fill(&file, &carried, cinfo, origin)
                .and_then(|()| file.sync_all())
                .and_then(|()| Ok(renameat(directory, &name, &*spot.directory, &spot.name)?))
                .inspect_err(|_| {
                    // What is left over has no meaning, and is removed at the next start at the latest.
                    let _ = unlinkat(directory, &name, AtFlags::empty());
                })
        };
        let written = if spot.is_linked() { write(&spot.directory) } else { write(&self.staging) };
        match written {
            // The entry lies on another file system, mounted below the root.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::XDEV) => write(&spot.directory),
            other => other,
        }
        .map_err(StoreError::io("replacing", &spot.path))
    }

    /// Creates a file with a name of its own.
    fn stage(&self, directory: &OwnedFd) -> std::io::Result<(File, OsString)> {
        for _ in 0..STAGING_ATTEMPTS_MAX {
            let name = OsString::from(format!(".forebay-{}", self.next_name.fetch_add(1, Ordering::Relaxed)));
            match create_file(directory, &name) {
                Ok(file) => return Ok((file, name)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn fill(
        &self,
        mut file: &File,
        carried: &Attributes,
        cinfo: &Cinfo,
        origin: Option<&OriginMark>,
    ) -> std::io::Result<()> {
        let mut image = Vec::new();
        cinfo.encode(&mut image);
        file.write_all(&image)?;
        if self.keeps_xattrs {
            carried.give_to(file)?;
            xattrs::describe(file, cinfo.geometry.file_size(), origin)?;
        }
        Ok(())
    }
}
