//! Checksums of whole files.

use std::fmt;

/// A checksum of a whole file.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Checksum {
    /// Lower-case name of the algorithm, such as `adler32`.
    pub algorithm: String,
    /// In lower-case hexadecimal digits.
    pub value: String,
}

impl Checksum {
    pub fn new(algorithm: impl Into<String>, value: impl Into<String>) -> Self {
        Self { algorithm: algorithm.into(), value: value.into() }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.value)
    }
}
