//! The bytes of a cinfo: version 4 is written, 2 to 4 are read. Lengths are compared with the bytes at hand before memory is reserved.

use super::{Access, ChecksumState, Cinfo, CinfoError};
use crate::{BLOCKS_MAX, BlockSet, Geometry};
use md5::{Digest, Md5};

/// Most access records of a cinfo; XCache keeps 20 by default, and 200 at most.
pub const ACCESSES_LEN_MAX: usize = 1 << 16;

/// Most access records that are kept of a cinfo that is read, the newest ones: merging costs the square of their number.
pub const ACCESSES_READ_MAX: usize = 1024;

/// Longest cinfo in bytes: the largest bit vector and the most records, with room for trailing bytes that readers ignore.
pub const CINFO_LEN_MAX: u64 = BLOCKS_MAX / 8 + ACCESSES_LEN_MAX as u64 * ACCESS_LEN as u64 + (64 << 10);

/// Bytes of an access record of versions 3 and 4.
const ACCESS_LEN: usize = 56;

/// Bytes of an access record of version 2.
const ACCESS_V2_LEN: usize = 40;

/// Bytes of version 4's fixed part that its first checksum covers: all of it but the version.
const HEADER_LEN: usize = 48;

/// Bytes of the MD5 after the bit vector of versions 2 and 3.
const MD5_LEN: usize = 16;

/// Records of versions 2 and 3 with times before this one (the end of 1970) are damaged: these versions have no checksum over their records.
const PLAUSIBLE_TIME_MIN: i64 = 365 * 86_400;

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

impl Cinfo {
    /// Reads a cinfo of version 2, 3 or 4. Bytes after the end of version 4 and bits after the last block are ignored,
    /// as are implausible access records of versions 2 and 3, and all but the newest [`ACCESSES_READ_MAX`] ones.
    ///
    /// # Errors
    /// When the bytes are truncated, a checksum does not match, the version is unknown, or a number exceeds its limit.
    pub fn decode(bytes: &[u8]) -> Result<Self, CinfoError> {
        let mut fields = Fields::new(bytes);
        match fields.version()? {
            CinfoVersion::V4 => decode_v4(fields),
            version @ (CinfoVersion::V2 | CinfoVersion::V3) => decode_old(version, fields),
        }
    }
}

fn decode_v4(mut fields: Fields<'_>) -> Result<Cinfo, CinfoError> {
    let header = fields.bytes(HEADER_LEN)?;
    if fields.u32()? != crc32c::crc32c(header) {
        return Err(fields.checksum_error());
    }
    let mut header = Fields::new(header);
    let block_size = header.size()?;
    let geometry = Geometry::new(block_size, header.size()?)?;
    let created = header.i64()?;
    let no_checksum_time = header.i64()?;
    let access_count = header.u64()?;
    let checksum = ChecksumState::from_status(header.u32()?);
    let stored = header.i32()?;
    let stored = usize::try_from(stored)
        .ok()
        .filter(|&count| count <= ACCESSES_LEN_MAX)
        .ok_or_else(|| CinfoError::AccessCount(stored.into()))?;

    fields.section("body");
    let vector = fields.bytes(vector_len(geometry))?;
    let records = fields.bytes(stored * ACCESS_LEN)?;
    if fields.u32()? != crc32c::crc32c_append(crc32c::crc32c(vector), records) {
        return Err(fields.checksum_error());
    }
    let accesses = records
        .chunks_exact(ACCESS_LEN)
        .skip(stored.saturating_sub(ACCESSES_READ_MAX))
        .map(|record| decode_access(CinfoVersion::V4, record))
        .collect::<Result<_, _>>()?;
    let blocks = decode_vector(geometry, vector);
    Ok(Cinfo { geometry, created, no_checksum_time, access_count, checksum, blocks, accesses })
}

fn decode_old(version: CinfoVersion, mut fields: Fields<'_>) -> Result<Cinfo, CinfoError> {
    let block_size = fields.size()?;
    let geometry = Geometry::new(block_size, fields.size()?)?;
    fields.section("bit vector");
    let vector = fields.bytes(vector_len(geometry))?;
    if fields.array::<MD5_LEN>()? != <[u8; MD5_LEN]>::from(Md5::digest(vector)) {
        return Err(fields.checksum_error());
    }
    fields.section("creation time");
    let created = fields.i64()?;
    let access_count = fields.u64().unwrap_or(0);
    let records = fields.rest();
    let accesses = decode_old_records(version, records)?;
    Ok(Cinfo {
        geometry,
        created,
        no_checksum_time: 0,
        access_count,
        checksum: ChecksumState::None,
        blocks: decode_vector(geometry, vector),
        accesses,
    })
}

/// The plausible ones of the whole records in `records`.
fn decode_old_records(version: CinfoVersion, records: &[u8]) -> Result<Vec<Access>, CinfoError> {
    let record_len = if version == CinfoVersion::V2 { ACCESS_V2_LEN } else { ACCESS_LEN };
    let stored = records.len() / record_len;
    if stored > ACCESSES_LEN_MAX {
        return Err(CinfoError::AccessCount(i64::try_from(stored).unwrap_or(i64::MAX)));
    }
    let decoded = records.chunks_exact(record_len).filter_map(|record| decode_access(version, record).ok());
    let mut accesses: Vec<Access> = decoded.filter(|access| access.opens > 0 && is_plausible(access)).collect();
    accesses.drain(..accesses.len().saturating_sub(ACCESSES_READ_MAX));
    Ok(accesses)
}

fn is_plausible(access: &Access) -> bool {
    let earliest_end = access.attached.max(PLAUSIBLE_TIME_MIN);
    access.attached >= PLAUSIBLE_TIME_MIN && access.detached.is_none_or(|detached| detached >= earliest_end)
}

/// Bytes of a bit vector. Exact: a geometry has at most 2^31-1 blocks.
fn vector_len(geometry: Geometry) -> usize {
    usize::try_from(geometry.block_count().div_ceil(8)).expect("a geometry has at most 2^31-1 blocks")
}

fn decode_vector(geometry: Geometry, vector: &[u8]) -> BlockSet {
    let words = vector.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    BlockSet::from_words(geometry.block_count(), words)
}

fn decode_access(version: CinfoVersion, record: &[u8]) -> Result<Access, CinfoError> {
    let mut fields = Fields::new(record);
    fields.section("access records");
    let attached = fields.i64()?;
    let detached = Some(fields.i64()?).filter(|&time| time != 0);
    let (opens, duration_seconds, merged) = if version == CinfoVersion::V2 {
        let duration = detached.map_or(0, |detached| detached.saturating_sub(attached));
        (1, i32::try_from(duration).unwrap_or(i32::MAX), 0)
    } else {
        let counts = (fields.i32()?, fields.i32()?, fields.i32()?);
        let _reserved = fields.i32()?;
        counts
    };
    let (hit_bytes, missed_bytes, bypassed_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
    Ok(Access { attached, detached, opens, duration_seconds, merged, hit_bytes, missed_bytes, bypassed_bytes })
}

impl Cinfo {
    /// Appends the version-4 image of this record to `out`. Of more than [`ACCESSES_LEN_MAX`] access records the
    /// oldest are left out.
    ///
    /// # Panics
    /// When [`Self::blocks`] is not a set for this geometry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(&self.blocks, out);
    }

    /// As [`Self::encode`], with `blocks` in the place of its own.
    ///
    /// # Panics
    /// When `blocks` is not a set for this geometry.
    pub fn encode_with(&self, blocks: &BlockSet, out: &mut Vec<u8>) {
        assert_eq!(blocks.len(), self.geometry.block_count(), "the set of blocks must fit the geometry");
        let vector_len = usize::try_from(blocks.len().div_ceil(8)).expect("at most 2^31-1 blocks");
        let surplus = self.accesses.len().saturating_sub(ACCESSES_LEN_MAX);
        let accesses = self.accesses.get(surplus..).unwrap_or_default();
        out.reserve(60 + vector_len + accesses.len() * ACCESS_LEN);

        out.extend_from_slice(&CinfoVersion::V4.number().to_le_bytes());
        checked(out, |out| {
            out.extend_from_slice(&self.geometry.block_size().to_le_bytes());
            out.extend_from_slice(&self.geometry.file_size().to_le_bytes());
            out.extend_from_slice(&self.created.to_le_bytes());
            out.extend_from_slice(&self.no_checksum_time.to_le_bytes());
            out.extend_from_slice(&self.access_count.to_le_bytes());
            out.extend_from_slice(&self.checksum.to_status().to_le_bytes());
            let stored = u32::try_from(accesses.len()).expect("at most ACCESSES_LEN_MAX");
            out.extend_from_slice(&stored.to_le_bytes());
        });
        checked(out, |out| {
            let vector_start = out.len();
            for word in blocks.words() {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.truncate(vector_start + vector_len);
            for access in accesses {
                encode_access(access, out);
            }
        });
    }
}

/// Appends what `section` appends, and the CRC32C of it.
fn checked(out: &mut Vec<u8>, section: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    section(out);
    let crc = crc32c::crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
}

fn encode_access(access: &Access, out: &mut Vec<u8>) {
    out.extend_from_slice(&access.attached.to_le_bytes());
    out.extend_from_slice(&access.detached.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&access.opens.to_le_bytes());
    out.extend_from_slice(&access.duration_seconds.to_le_bytes());
    out.extend_from_slice(&access.merged.to_le_bytes());
    out.extend_from_slice(&0_i32.to_le_bytes());
    out.extend_from_slice(&access.hit_bytes.to_le_bytes());
    out.extend_from_slice(&access.missed_bytes.to_le_bytes());
    out.extend_from_slice(&access.bypassed_bytes.to_le_bytes());
}

/// Takes fields off the front of a cinfo.
struct Fields<'a> {
    rest: &'a [u8],
    section: &'static str,
}

impl<'a> Fields<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, section: "header" }
    }

    /// Names what is read from here on, for errors.
    const fn section(&mut self, section: &'static str) {
        self.section = section;
    }

    /// The error that the current section's checksum is wrong.
    const fn checksum_error(&self) -> CinfoError {
        CinfoError::Checksum { section: self.section }
    }

    const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], CinfoError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CinfoError::Truncated { section: self.section })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CinfoError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CinfoError::Truncated { section: self.section })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn version(&mut self) -> Result<CinfoVersion, CinfoError> {
        match self.i32()? {
            2 => Ok(CinfoVersion::V2),
            3 => Ok(CinfoVersion::V3),
            4 => Ok(CinfoVersion::V4),
            other => Err(CinfoError::Version(other)),
        }
    }

    fn i32(&mut self) -> Result<i32, CinfoError> {
        self.array().map(i32::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, CinfoError> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, CinfoError> {
        self.array().map(i64::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, CinfoError> {
        self.array().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Result<u64, CinfoError> {
        u64::try_from(self.i64()?).map_err(|_| CinfoError::Negative)
    }
}
