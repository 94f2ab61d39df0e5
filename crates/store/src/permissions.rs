//! Permissions of a store's files for other users than the server's.

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid, chmodat, chownat, fchmod, fchown, mkdirat, openat, unlinkat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
};

/// Opens a plain file, not what a link points to, and does not wait on a FIFO.
pub(crate) const FILE_FLAGS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// The mode of new files and directories of entries, whatever the umask of the process. Existing ones stay as they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permissions {
    pub file_mode: u32,
    pub directory_mode: u32,
    /// The group that they belong to; `None` for that of the process, or of the directory above where that says so.
    pub group: Option<u32>,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { file_mode: 0o600, directory_mode: 0o700, group: None }
    }
}

/// Creates files and directories with their permissions, by no more calls than these need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    file_mode: Mode,
    directory_mode: Mode,
    group: Option<Gid>,
    /// The bits that the process's umask clears, if they are known.
    umask: Mode,
}

impl Creation {
    /// With these permissions. Reads the process's umask, which must stay as it is.
    pub(crate) fn with(permissions: Permissions) -> Self {
        Self {
            file_mode: Mode::from_raw_mode(permissions.file_mode),
            directory_mode: Mode::from_raw_mode(permissions.directory_mode),
            group: permissions.group.map(Gid::from_raw),
            umask: own_umask(),
        }
    }

    /// Creates the file `name`, which must not exist, for reading and writing.
    pub(crate) fn file(&self, directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | FILE_FLAGS;
        let file = openat(directory, name, flags, self.file_mode)?;
        self.settle(&file, self.file_mode).inspect_err(|_| {
            // A file with wrong permissions must not stay.
            let _ = unlinkat(directory, name, AtFlags::empty());
        })?;
        Ok(File::from(file))
    }

    pub(crate) fn directory(&self, parent: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        match mkdirat(parent, name, self.directory_mode) {
            Ok(()) => {}
            // It may be one that the site has made, with permissions of its own.
            Err(Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        if let Some(group) = self.group {
            chownat(parent, name, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // Only if the umask took a bit: a call per file is noticeable when many small files are created.
        if self.needs_chmod(self.directory_mode) {
            chmodat(parent, name, self.directory_mode, AtFlags::empty())
        } else {
            Ok(())
        }
    }

    /// Gives a directory that was just created its permissions.
    pub(crate) fn settle_directory(&self, directory: &OwnedFd) -> rustix::io::Result<()> {
        if let Some(group) = self.group {
            fchown(directory, None, Some(group))?;
        }
        fchmod(directory, self.directory_mode)
    }

    fn settle(&self, file: impl AsFd, mode: Mode) -> rustix::io::Result<()> {
        if let Some(group) = self.group {
            fchown(&file, None, Some(group))?;
        }
        if self.needs_chmod(mode) { fchmod(&file, mode) } else { Ok(()) }
    }

    const fn needs_chmod(&self, mode: Mode) -> bool {
        self.umask.intersects(mode)
    }
}

/// Owner, group and mode of a file, kept by the one that replaces it: its owner may be another program's user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ownership {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Ownership {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() & 0o777 }
    }

    /// Gives them to `file`, which this process has created.
    pub(crate) fn give_to(self, file: &File) -> io::Result<()> {
        let own = Self::of(&file.metadata()?);
        if own.mode != self.mode {
            fchmod(file, Mode::from_raw_mode(self.mode))?;
        }
        let (owner, group) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        // Only root may give a file away, others at most to a group of theirs. The file is written anyway.
        if (own.uid, own.gid) != (self.uid, self.gid) && fchown(file, Some(owner), Some(group)).is_err() {
            let _ = fchown(file, None, Some(group));
        }
        Ok(())
    }
}

/// The umask of this process; if the system does not report it, one that may clear any bit.
fn own_umask() -> Mode {
    // `umask(2)` cannot read without setting, which would race with other threads.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let bits = umask.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    bits.map_or_else(Mode::all, Mode::from_raw_mode)
}
