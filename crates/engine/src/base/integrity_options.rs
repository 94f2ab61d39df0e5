//! How the contents of the disk are checked.

use crate::base::digest::ChecksumAlgorithm;
use std::{fmt, time::Duration};

/// How the contents of the disk are checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IntegrityOptions {
    /// When blocks found on disk are compared with their checksums.
    pub check: CheckPolicy,
    /// Bytes in a second that a scrub reads.
    pub scrub_rate: u64,
    /// Time from the end of a scrub to the begin of the next; `None`: only on request.
    pub scrub_interval: Option<Duration>,
    /// Checksums of whole files that are made when a file is complete; the first one answers requests that name none in
    /// particular.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Bytes in a second that are read for these.
    pub checksum_rate: u64,
    /// Whether they are compared with those of the origin.
    pub compare: bool,
}

impl Default for IntegrityOptions {
    fn default() -> Self {
        Self {
            check: CheckPolicy::FirstRead,
            scrub_rate: 20 << 20,
            scrub_interval: Some(Duration::from_secs(30 * 86_400)),
            checksums: vec![ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Crc32c],
            checksum_rate: 200 << 20,
            compare: true,
        }
    }
}

/// When blocks found on disk are compared with their checksums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CheckPolicy {
    /// Before their first use after a start.
    #[default]
    FirstRead,
    /// Never: what is on disk is taken as it is.
    Never,
}

impl CheckPolicy {
    /// The name used in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstRead => "first-read",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for CheckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
