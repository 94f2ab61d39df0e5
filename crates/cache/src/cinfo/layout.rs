//! Sizes and limits of the cinfo formats, and a reader of little-endian fields.

use super::CinfoError;
use crate::BLOCKS_MAX;

/// Most access records of a cinfo; XCache keeps 20 by default.
pub const ACCESSES_LEN_MAX: usize = 1 << 16;

/// Longest cinfo in bytes: the largest bit vector and the most records, with room for trailing bytes that readers ignore.
pub const CINFO_LEN_MAX: u64 = BLOCKS_MAX / 8 + ACCESSES_LEN_MAX as u64 * ACCESS_LEN as u64 + (64 << 10);

/// Bytes of an access record of versions 3 and 4.
pub(super) const ACCESS_LEN: usize = 56;

/// Bytes of an access record of version 2.
pub(super) const ACCESS_V2_LEN: usize = 40;

/// Bytes of version 4's fixed part that its first checksum covers: all of it but the version.
pub(super) const HEADER_LEN: usize = 48;

/// Bytes of the MD5 after the bit vector of versions 2 and 3.
pub(super) const MD5_LEN: usize = 16;

/// A format of the cinfo.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CinfoVersion {
    V2,
    V3,
    /// XCache 5.1 and later, and this cache.
    V4,
}

impl CinfoVersion {
    /// The version that `bytes` claim.
    ///
    /// # Errors
    /// When there is none, or another one.
    pub fn of(bytes: &[u8]) -> Result<Self, CinfoError> {
        Fields::new(bytes).version()
    }

    pub const fn number(self) -> i32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }
}

/// Takes fields off the front of a cinfo.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    section: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, section: "header" }
    }

    /// Names what is read from here on, for errors.
    pub(super) const fn section(&mut self, section: &'static str) {
        self.section = section;
    }

    /// The error that the current section's checksum is wrong.
    pub(super) const fn checksum_error(&self) -> CinfoError {
        CinfoError::Checksum { section: self.section }
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], CinfoError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CinfoError::Truncated { section: self.section })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CinfoError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CinfoError::Truncated { section: self.section })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn version(&mut self) -> Result<CinfoVersion, CinfoError> {
        match self.i32()? {
            2 => Ok(CinfoVersion::V2),
            3 => Ok(CinfoVersion::V3),
            4 => Ok(CinfoVersion::V4),
            other => Err(CinfoError::Version(other)),
        }
    }

    pub(super) fn i32(&mut self) -> Result<i32, CinfoError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, CinfoError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, CinfoError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, CinfoError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn size(&mut self) -> Result<u64, CinfoError> {
        u64::try_from(self.i64()?).map_err(|_| CinfoError::Negative)
    }
}
