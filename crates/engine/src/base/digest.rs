//! Checksums of whole files.

use md5::{Digest as _, Md5};
use std::fmt;

/// A checksum of whole files that can be computed here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ChecksumAlgorithm {
    /// Adler-32, what most sites use.
    Adler32,
    Crc32c,
    /// MD5, which costs several times as much as the others.
    Md5,
}

/// A text that names no [`ChecksumAlgorithm`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}` is not a checksum that can be computed: write adler32, crc32c or md5", text.escape_debug())]
pub struct ChecksumAlgorithmError {
    text: String,
}

impl ChecksumAlgorithm {
    pub const ALL: [Self; 3] = [Self::Adler32, Self::Crc32c, Self::Md5];

    /// The name used in requests and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
        }
    }

    /// The algorithm of that name, in whatever case.
    ///
    /// # Errors
    /// When it is none that can be computed.
    pub fn parse(text: &str) -> Result<Self, ChecksumAlgorithmError> {
        let named = |algorithm: &Self| algorithm.as_str().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| ChecksumAlgorithmError { text: text.to_owned() })
    }
}

impl fmt::Display for ChecksumAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(crate) enum Digest {
    Adler32(simd_adler32::Adler32),
    Crc32c(u32),
    Md5(Md5),
}

impl Digest {
    pub(crate) fn new(algorithm: ChecksumAlgorithm) -> Self {
        match algorithm {
            ChecksumAlgorithm::Adler32 => Self::Adler32(simd_adler32::Adler32::new()),
            ChecksumAlgorithm::Crc32c => Self::Crc32c(0),
            ChecksumAlgorithm::Md5 => Self::Md5(Md5::new()),
        }
    }

    pub(crate) const fn algorithm(&self) -> ChecksumAlgorithm {
        match self {
            Self::Adler32(_) => ChecksumAlgorithm::Adler32,
            Self::Crc32c(_) => ChecksumAlgorithm::Crc32c,
            Self::Md5(_) => ChecksumAlgorithm::Md5,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler32(sum) => sum.write(bytes),
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Self::Md5(sum) => sum.update(bytes),
        }
    }

    /// The value in lower-case hexadecimal digits.
    pub(crate) fn value(&self) -> String {
        match self {
            Self::Adler32(sum) => format!("{:08x}", sum.finish()),
            Self::Crc32c(sum) => format!("{sum:08x}"),
            // Cloned: a value can be read while the digest continues.
            Self::Md5(sum) => sum.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_their_check_values() {
        for (name, value) in
            [("adler32", "091e01de"), ("CRC32C", "e3069283"), ("md5", "25f9e794323b453885f5181f1b624d0b")]
        {
            let mut digest = Digest::new(ChecksumAlgorithm::parse(name).unwrap());
            digest.update(b"1234");
            digest.update(b"56789");
            assert_eq!(digest.value(), value);
            assert!(digest.algorithm().as_str().eq_ignore_ascii_case(name));
        }
        assert!(ChecksumAlgorithm::parse("sha1").unwrap_err().to_string().contains("adler32, crc32c or md5"));
    }
}
