//! The stat of a file or directory.

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    File,
    Directory,
    Other,
}

/// The answer to a stat request on a file or directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
