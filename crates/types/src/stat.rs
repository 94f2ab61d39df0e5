//! The stat of a file or directory.

use crate::Validator;
use std::{borrow::Cow, sync::Arc};

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    File,
    Directory,
    Other,
}

/// The answer to a stat request on a file or directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileStat {
    pub id: u64,
    pub kind: FileKind,
    pub size: u64,
    /// Time of the last change in seconds of the Unix epoch.
    pub mtime: i64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be executed or searched.
    pub executable: bool,
    /// Whether it must be staged before it can be read.
    pub offline: bool,
    pub cached: bool,
    /// The attributes that concern writers, if the server gave them.
    pub access: Option<Arc<Access>>,
    /// The parts by which reads distinguish the content of the file, empty if they are not known; `None` where the time of change is
    /// all of them, as on `root://`.
    pub validator: Option<Arc<Validator>>,
}

impl FileStat {
    /// The parts by which reads distinguish the content of the file. A time of 0 means that the server has none.
    pub fn validator(&self) -> Cow<'_, Validator> {
        match &self.validator {
            Some(validator) => Cow::Borrowed(validator),
            None if self.mtime == 0 => Cow::Owned(Validator::default()),
            None => Cow::Owned(Validator::of_mtime(self.mtime)),
        }
    }
}

/// The attributes of a file that concern writers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// Whether the server may write it.
    pub is_writable: bool,
    pub mode: u32,
    pub owner: String,
    pub group: String,
}

/// One name in a directory listing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirEntry {
    /// The name, without a slash.
    pub name: String,
    /// Its stat, when it was asked for and could be had.
    pub stat: Option<FileStat>,
    /// Its checksum as `(algorithm, hex value)`, when it was asked for and the origin gave one.
    pub checksum: Option<(String, String)>,
}
