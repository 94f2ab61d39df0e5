//! Reading a cinfo. Lengths are compared with the bytes at hand before memory is reserved.

use super::{
    Access, ChecksumState, Cinfo, CinfoError,
    layout::{ACCESS_LEN, ACCESS_V2_LEN, ACCESSES_LEN_MAX, CinfoVersion, Fields, HEADER_LEN, MD5_LEN},
};
use crate::{BlockSet, Geometry};
use md5::{Digest, Md5};

/// Records of versions 2 and 3 with times before this one (the end of 1970) are damaged: these versions have no checksum over their records.
const PLAUSIBLE_TIME_MIN: i64 = 365 * 86_400;

impl Cinfo {
    /// Reads a cinfo of version 2, 3 or 4. Bytes after the end of version 4 and bits after the last block are ignored,
    /// as are implausible access records of versions 2 and 3.
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
    let accesses = records.chunks_exact(ACCESS_LEN).map(decode_access).collect::<Result<_, _>>()?;
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
    let accesses: Vec<Access> = if version == CinfoVersion::V3 {
        decode_old_records(records, ACCESS_LEN, |record| decode_access(record).ok().filter(|access| access.opens > 0))?
    } else {
        decode_old_records(records, ACCESS_V2_LEN, |record| decode_access_v2(record).ok())?
    };
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
fn decode_old_records(
    records: &[u8],
    record_len: usize,
    decode: impl Fn(&[u8]) -> Option<Access>,
) -> Result<Vec<Access>, CinfoError> {
    let stored = records.len() / record_len;
    if stored > ACCESSES_LEN_MAX {
        return Err(CinfoError::AccessCount(i64::try_from(stored).unwrap_or(i64::MAX)));
    }
    Ok(records.chunks_exact(record_len).filter_map(decode).filter(is_plausible).collect())
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

fn decode_access(record: &[u8]) -> Result<Access, CinfoError> {
    let mut fields = Fields::new(record);
    fields.section("access records");
    let attached = fields.i64()?;
    let detached = Some(fields.i64()?).filter(|&time| time != 0);
    let opens = fields.i32()?;
    let duration_seconds = fields.i32()?;
    let merged = fields.i32()?;
    let _reserved = fields.i32()?;
    Ok(Access {
        attached,
        detached,
        opens,
        duration_seconds,
        merged,
        hit_bytes: fields.u64()?,
        missed_bytes: fields.u64()?,
        bypassed_bytes: fields.u64()?,
    })
}

fn decode_access_v2(record: &[u8]) -> Result<Access, CinfoError> {
    let mut fields = Fields::new(record);
    fields.section("access records");
    let attached = fields.i64()?;
    let detached = Some(fields.i64()?).filter(|&time| time != 0);
    let duration = detached.map_or(0, |detached| detached.saturating_sub(attached));
    Ok(Access {
        attached,
        detached,
        opens: 1,
        duration_seconds: i32::try_from(duration).unwrap_or(i32::MAX),
        merged: 0,
        hit_bytes: fields.u64()?,
        missed_bytes: fields.u64()?,
        bypassed_bytes: fields.u64()?,
    })
}
