//! Defects of entries.

use forebay_cache::CinfoError;

/// Why a name in the tree is not a good entry.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Defect {
    CinfoTruncated,
    CinfoChecksum,
    CinfoVersion,
    CinfoNumbers,
    /// A record without data.
    DataMissing,
    DataShort,
    /// Data without a record.
    CinfoMissing,
    DanglingLink,
    /// A link that leads elsewhere than into a space.
    ForeignLink,
    /// Neither a file nor a directory nor a link.
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

    /// The defect, and its consequence.
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
