//! The attributes of a file that its answers show.

use crate::open_files::File;
use forebay_http_proto::{Fields, etag_of, http_date};
use forebay_types::{ByteRange, FileStat};

/// The attributes of a file that its answers need.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) size: u64,
    /// Time of its change at its origin, if that has one.
    pub(crate) mtime: Option<i64>,
    pub(crate) etag: Option<String>,
}

/// The field `Cache-Status` of this server, for each share of the bytes that may be on disk.
#[derive(Debug)]
pub(crate) struct CacheStatus {
    all: Fields,
    some: Fields,
    none: Fields,
}

/// The type of all files.
pub(crate) const CONTENT_TYPE: &str = "application/octet-stream";

impl Facts {
    pub(crate) fn of(stat: &FileStat) -> Self {
        let validator = stat.validator();
        Self { size: stat.size, mtime: validator.mtime(), etag: etag_of(stat.size, &validator) }
    }

    /// The fields that describe a file, and the type of the answer.
    pub(crate) fn fields(&self, content_type: &str) -> Fields {
        let mut fields = Fields::default().with("Content-Type", content_type);
        if let Some(etag) = &self.etag {
            fields.add("ETag", etag);
        }
        if let Some(mtime) = self.mtime {
            fields.add("Last-Modified", http_date(mtime));
        }
        // Origins must not have scripts run in the name of this server.
        fields.with("Accept-Ranges", "bytes").with("X-Content-Type-Options", "nosniff")
    }
}

impl CacheStatus {
    pub(crate) fn new(host_name: &str) -> Self {
        let of = |parameters| Fields::default().with("Cache-Status", format_args!("\"{host_name}\"; {parameters}"));
        Self { all: of("hit"), some: of("fwd=partial; stored"), none: of("fwd=uri-miss; stored") }
    }

    /// The field for the bytes of `ranges` that are on disk when the answer begins.
    pub(crate) fn of(&self, file: &File, ranges: &[ByteRange]) -> &Fields {
        let here = ranges.iter().filter(|range| file.handle.has(**range)).count();
        match here {
            here if here == ranges.len() => &self.all,
            0 => &self.none,
            _ => &self.some,
        }
    }
}
