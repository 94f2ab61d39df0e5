//! Where records go.

use crate::search::SearchOptions;
use forebay_records::Server;
use std::{path::PathBuf, time::Duration};

/// The outputs of a server. Without any, there are no records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordOptions {
    /// The server's name at its site: a part of each record.
    pub server: Server,
    pub files: Option<FileOptions>,
    pub search: Option<SearchOptions>,
}

/// How many files of records are kept, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileOptions {
    pub directory: PathBuf,
    /// Size in bytes at which a new file is begun.
    pub file_bytes: u64,
    /// Age at which a new file is begun.
    pub file_age: Duration,
    /// Bytes of all files, above which the oldest ones are removed.
    pub total_bytes: u64,
    /// Time after the last write to a file at which it is removed; `None` keeps files of any age.
    pub age_max: Option<Duration>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            file_bytes: 64 << 20,
            file_age: Duration::from_secs(86_400),
            total_bytes: 4 << 30,
            age_max: None,
        }
    }
}

impl RecordOptions {
    /// Whether there is an output.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        self.files.is_some() || self.search.is_some()
    }
}
