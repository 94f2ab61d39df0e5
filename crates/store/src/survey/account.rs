//! The account of a survey, and the defects of entries that it counts.

use forebay_cache::{Cinfo, CinfoError, CinfoVersion};
use std::{collections::BTreeMap, fs::Metadata, os::unix::fs::MetadataExt};

/// Bytes of the unit in which stat counts the blocks of a file.
const STAT_BLOCK_LEN: u64 = 512;

/// Most examples that are kept of each defect.
pub const EXAMPLES_MAX: usize = 3;

/// Block sizes and owners that are counted separately; the rest is counted as one.
pub const KINDS_MAX: usize = 32;

/// The account of a survey.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    pub directories: u64,
    pub records: u64,
    pub good: u64,
    /// Good entries that hold all of their file.
    pub complete: u64,
    /// Good entries that links into spaces lead to.
    pub linked: u64,
    pub present_bytes: u64,
    /// Bytes that the data of good entries takes on disk.
    pub allocated_bytes: u64,
    /// Good entries by the version of their record.
    pub versions: BTreeMap<i32, u64>,
    /// Good entries by their block size in bytes; `None` for those beyond the first 32 sizes.
    pub block_sizes: BTreeMap<Option<u64>, u64>,
    /// Good entries by the owner of their data; `None` for those beyond the first 32 owners.
    pub owners: BTreeMap<Option<u32>, u64>,
    /// When a good entry was last changed, in seconds of the Unix epoch; 0 without entries.
    pub last_change: i64,
    /// Whether XCache has kept page checksums next to the files. No other program reads them.
    pub has_page_checksums: bool,
    pub defects: BTreeMap<Defect, Finding>,
}

/// How often a defect was found, and where.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Finding {
    pub count: u64,
    /// The first ones: paths below the root.
    pub examples: Vec<String>,
}

impl Account {
    pub(super) fn good(&mut self, cinfo: &Cinfo, version: CinfoVersion, data: &Metadata, is_linked: bool) {
        self.good += 1;
        self.complete += u64::from(cinfo.is_complete());
        self.linked += u64::from(is_linked);
        self.present_bytes = self.present_bytes.saturating_add(cinfo.present_bytes());
        self.allocated_bytes = self.allocated_bytes.saturating_add(data.blocks().saturating_mul(STAT_BLOCK_LEN));
        *self.versions.entry(version.number()).or_default() += 1;
        count(&mut self.block_sizes, cinfo.geometry.block_size());
        count(&mut self.owners, data.uid());
    }

    pub(super) fn note(&mut self, defect: Defect, path: String) {
        let finding = self.defects.entry(defect).or_default();
        finding.count += 1;
        if finding.examples.len() < EXAMPLES_MAX {
            finding.examples.push(path);
        }
    }
}

fn count<K: Ord + Copy>(counts: &mut BTreeMap<Option<K>, u64>, kind: K) {
    let is_room = counts.len() < KINDS_MAX || counts.contains_key(&Some(kind));
    *counts.entry(is_room.then_some(kind)).or_default() += 1;
}

/// Why a name in the tree is not a good entry.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Defect {
    CinfoTruncated,
    CinfoChecksum,
    CinfoVersion,
    CinfoNumbers,
    DataMissing,
    DataShort,
    CinfoMissing,
    DanglingLink,
    /// A link that leads elsewhere than into a space.
    ForeignLink,
    NotAFile,
    /// A name that no client can ask for.
    UnusableName,
    /// A file or directory that the user may not read and write.
    Forbidden,
    /// A file or directory that could not be read.
    Unreadable,
}

impl Defect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CinfoTruncated => "cinfo_truncated",
            Self::CinfoChecksum => "cinfo_checksum",
            Self::CinfoVersion => "cinfo_version",
            Self::CinfoNumbers => "cinfo_numbers",
            Self::DataMissing => "data_missing",
            Self::DataShort => "data_short",
            Self::CinfoMissing => "cinfo_missing",
            Self::DanglingLink => "dangling_link",
            Self::ForeignLink => "foreign_link",
            Self::NotAFile => "not_a_file",
            Self::UnusableName => "unusable_name",
            Self::Forbidden => "forbidden",
            Self::Unreadable => "unreadable",
        }
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Self::CinfoTruncated => "the record ends too early; the file is fetched again",
            Self::CinfoChecksum => "the record is damaged; the file is fetched again",
            Self::CinfoVersion => "the record has an unknown version; the file is fetched again",
            Self::CinfoNumbers => "the record has impossible numbers; the file is fetched again",
            Self::DataMissing => "a record without data; the file is fetched again",
            Self::DataShort => "data shorter than the record says; the file is fetched again",
            Self::CinfoMissing => "data without a record, which XCache never removes; it is replaced when asked for",
            Self::DanglingLink => "a link to nothing: is the disk of its space mounted?",
            Self::ForeignLink => "a link that leads elsewhere than into a space; what is there is read past the cache",
            Self::NotAFile => "neither file nor directory; it is left alone",
            Self::UnusableName => "a name that no client can ask for; it is left alone",
            Self::Forbidden => "the user may not read and write it; it is read past the cache",
            Self::Unreadable => "it cannot be read; does the disk fail?",
        }
    }
}

impl From<CinfoError> for Defect {
    fn from(error: CinfoError) -> Self {
        match error {
            CinfoError::Truncated { .. } => Self::CinfoTruncated,
            CinfoError::Version(_) => Self::CinfoVersion,
            CinfoError::Checksum { .. } => Self::CinfoChecksum,
            CinfoError::Negative | CinfoError::Geometry(_) | CinfoError::AccessCount(_) => Self::CinfoNumbers,
        }
    }
}
