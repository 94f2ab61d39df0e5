//! Records as files.

use crate::{
    OriginMark, StoreError,
    permissions::{Creation, Ownership},
    tree::{Place, Spot},
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
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, MetadataExt},
    },
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most names tried for a file being written: a crash may have left some next to files in spaces.
const STAGING_ATTEMPTS_MAX: u32 = 1000;

#[derive(Debug)]
pub(crate) struct StoredCinfo {
    pub(crate) cinfo: Result<Cinfo, CinfoError>,
    pub(crate) origin: Option<OriginMark>,
    /// When it was written or touched last, in seconds of the Unix epoch.
    pub(crate) modified: i64,
}

/// The contents of a record that is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Contents<'a> {
    pub(crate) cinfo: &'a Cinfo,
    pub(crate) origin: Option<&'a OriginMark>,
}

/// Writes records: as a whole, or not at all.
#[derive(Debug)]
pub(crate) struct CinfoWriter {
    staging: Arc<OwnedFd>,
    creation: Creation,
    keeps_xattrs: bool,
    next_name: AtomicU64,
}

/// Properties of a record that the next one keeps.
#[derive(Debug)]
struct Carried {
    attributes: Attributes,
    ownership: Option<Ownership>,
}

/// A record that is written and not durable yet.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    /// The directory and the name that it has until it gets the one of the record; `None` when it has that already.
    staged: Option<(Arc<OwnedFd>, OsString)>,
}

/// Reads the record of the entry at `place`, or returns `None` when there is none.
pub(crate) fn read(place: &Place) -> Result<Option<StoredCinfo>, StoreError> {
    let Some((file, metadata)) = place.open_cinfo(OFlags::RDONLY)? else {
        return Ok(None);
    };
    // The length comes from the disk, so it is bounded before memory is reserved.
    let mut bytes = vec![0; usize::try_from(metadata.len().min(CINFO_LEN_MAX)).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0).map_err(StoreError::io("reading", &place.cinfo_here().path))?;
    Ok(Some(StoredCinfo { cinfo: Cinfo::decode(&bytes), origin: xattrs::origin(&file), modified: metadata.mtime() }))
}

impl CinfoWriter {
    pub(crate) const fn new(staging: Arc<OwnedFd>, creation: Creation, keeps_xattrs: bool) -> Self {
        Self { staging, creation, keeps_xattrs, next_name: AtomicU64::new(0) }
    }

    /// Writes a record that is to replace the one at `spot`, without making it durable. The first record of an entry that
    /// names blocks is written over the one without any: when a crash leaves a part of it, that reads as no record, and
    /// nothing is lost that was promised.
    pub(crate) fn draft(&self, place: &Place, contents: Contents<'_>, is_first: bool) -> Result<Draft, StoreError> {
        if is_first && let Some((file, metadata)) = place.open_cinfo(OFlags::RDWR)? {
            let written = self.overwrite(&file, metadata.len(), contents);
            written.map_err(StoreError::io("writing", &place.cinfo_here().path))?;
            return Ok(Draft { file, staged: None });
        }
        let spot = place.cinfo()?;
        // A rename works within one file system only: a record in a space is staged there.
        let directory = if spot.is_linked() { &spot.directory } else { &self.staging };
        let carried = self.carried(place, &spot)?;
        self.write_staged(directory, &carried, contents).map_err(StoreError::io("writing", &spot.path))
    }

    /// Attributes and owner of the record at `spot`, for the next one. Without one, the owner of the data at `place`.
    fn carried(&self, place: &Place, spot: &Spot) -> Result<Carried, StoreError> {
        let Some((old, metadata)) = spot.open(OFlags::RDONLY)? else {
            let ownership = place.open_data(OFlags::RDONLY)?.map(|(_, metadata)| Ownership::of(&metadata));
            return Ok(Carried { attributes: Attributes::default(), ownership });
        };
        // Other programs keep attributes on records too (XCache, sites): a new file must not lose them.
        let attributes = if self.keeps_xattrs {
            Attributes::foreign(&old).map_err(StoreError::io("reading the attributes of", &spot.path))?
        } else {
            Attributes::default()
        };
        Ok(Carried { attributes, ownership: Some(Ownership::of(&metadata)) })
    }

    fn write_staged(&self, directory: &Arc<OwnedFd>, carried: &Carried, contents: Contents<'_>) -> io::Result<Draft> {
        let (file, name) = self.stage(directory)?;
        let filled = self.fill(&file, &carried.attributes, contents);
        let settled = filled.and_then(|()| carried.ownership.map_or(Ok(()), |ownership| ownership.give_to(&file)));
        settled.inspect_err(|_| remove_staged(directory, &name))?;
        Ok(Draft { file, staged: Some((Arc::clone(directory), name)) })
    }

    /// Writes a record over one of `old_len` bytes.
    fn overwrite(&self, file: &File, old_len: u64, Contents { cinfo, origin }: Contents<'_>) -> io::Result<()> {
        let mut image = Vec::new();
        cinfo.encode(&mut image);
        file.write_all_at(&image, 0)?;
        // Shortened after the write: in between, the bytes after the record are ignored by readers.
        let len = u64::try_from(image.len()).map_err(io::Error::other)?;
        if len < old_len {
            file.set_len(len)?;
        }
        // Mostly the mark is unchanged, and reading an attribute is cheaper than a journaled write.
        if self.keeps_xattrs && xattrs::origin(file).as_ref() != origin {
            xattrs::describe(file, cinfo.geometry.file_size(), origin)?;
        }
        Ok(())
    }

    /// Replaces the record of `place`, which is at `spot`, by one that is synced before, keeping its owner, and its foreign attributes if they
    /// fit.
    pub(crate) fn replace(&self, place: &Place, spot: &Spot, contents: Contents<'_>) -> Result<(), StoreError> {
        let carried = self.carried(place, spot)?;
        let write = |directory: &Arc<OwnedFd>| {
            let draft = self.write_staged(directory, &carried, contents)?;
            draft.sync().and_then(|()| draft.name(spot)).inspect_err(|_| draft.discard())
        };
        // Staged outside the tree, so that a crash leaves no stray names next to entries.
        let written = if spot.is_linked() { write(&spot.directory) } else { write(&self.staging) };
        match written {
            // The entry lies on another file system, mounted below the root.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::XDEV) => write(&spot.directory),
            other => other,
        }
        .map_err(StoreError::io("replacing", &spot.path))
    }

    fn stage(&self, directory: &OwnedFd) -> io::Result<(File, OsString)> {
        for _ in 0..STAGING_ATTEMPTS_MAX {
            // Counted from 0 after each start: names left by a crash in a space are skipped.
            let name = OsString::from(format!(".forebay-{}", self.next_name.fetch_add(1, Ordering::Relaxed)));
            match self.creation.file(directory, &name) {
                Ok(file) => return Ok((file, name)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Creates an empty file and moves it to `spot`, in the place of what is there.
    pub(crate) fn move_new_file(&self, spot: &Spot) -> io::Result<File> {
        let (file, name) = self.stage(&self.staging)?;
        let moved = renameat(&*self.staging, &name, &*spot.directory, &spot.name);
        moved.inspect_err(|_| remove_staged(&self.staging, &name))?;
        Ok(file)
    }

    /// Writes a record to `file`, which is empty, without syncing.
    pub(crate) fn fill(&self, mut file: &File, carried: &Attributes, contents: Contents<'_>) -> io::Result<()> {
        let Contents { cinfo, origin } = contents;
        let mut image = Vec::new();
        cinfo.encode(&mut image);
        file.write_all(&image)?;
        if self.keeps_xattrs {
            xattrs::describe(file, cinfo.geometry.file_size(), origin)?;
            carried.give_fitting_to(file)?;
        }
        Ok(())
    }
}

impl Draft {
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Puts it in the place of the record at `spot`.
    pub(crate) fn name(&self, spot: &Spot) -> io::Result<()> {
        match &self.staged {
            Some((directory, name)) => Ok(renameat(&**directory, name, &*spot.directory, &spot.name)?),
            None => Ok(()),
        }
    }

    /// Removes it, unless it has the name of the record.
    pub(crate) fn discard(&self) {
        if let Some((directory, name)) = &self.staged {
            remove_staged(directory, name);
        }
    }

    /// Whether it has the name of the record already.
    pub(crate) const fn is_named(&self) -> bool {
        self.staged.is_none()
    }

    pub(crate) fn is_linked(&self) -> io::Result<bool> {
        // An unlinked file keeps its contents and syncs well, but no later start would find it.
        Ok(self.file.metadata()?.nlink() > 0)
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }
}

/// Left-over files have no meaning, and are removed at the next start at the latest.
fn remove_staged(directory: &OwnedFd, name: &OsString) {
    let _ = unlinkat(directory, name, AtFlags::empty());
}
