//! The record of an entry, and its form as bytes.
//!
//! Version 1, in this order: version (u8), flags (u8), volume (u16), number (u64), inode (u64), created (i64), file size,
//! block size and present bytes (u64 each), last use (i64), uses (u64), validated, pinned until and time of change at the
//! origin (i64 each, 0 without their flag); then, each with its flag, the texts server, tag and owner (u16 length and
//! UTF-8); then the number of checksums (u8) and for each the texts algorithm and value; then the CRC32C of it all (u32).
//! The tag is the origin's checksum, as `ALGORITHM:VALUE`.
//!
//! Version 2 has a [`Validator`] in its text form in place of the tag, and 0 as the time of change. It is written only for
//! validators that version 1 cannot hold (without a time of change, or with an entity tag), so that the previous release
//! still reads the index of a cache of `root://` origins.

use crate::{
    IndexError,
    bytes::{Reader, Writer},
};
use forebay_cache::EntryId;
use forebay_types::{Checksum, OriginId, Validator};

/// Longest text in a record, in bytes. A longer one is left out: no origin has such names.
pub const TEXT_LEN_MAX: usize = 1024;

/// Most checksums of one file; further ones are left out.
pub(crate) const CHECKSUMS_MAX: usize = 16;

/// The record of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    pub id: EntryId,
    pub disk: DiskFacts,
    /// The file at its origin, if it was ever seen there.
    pub origin: Option<OriginFacts>,
    /// When the copy was last found to be the origin's file, in seconds of the Unix epoch.
    pub validated: Option<i64>,
    /// Until when it must not be purged, in seconds of the Unix epoch.
    pub pinned_until: Option<i64>,
    pub owner: Option<String>,
    /// Checksums of the whole file, one of an algorithm, in the order of the algorithms' names.
    pub checksums: Vec<Checksum>,
}

/// Which files on disk are meant: an entry that is made again under the same key has another generation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Generation {
    /// Number of the data file in its file system.
    pub inode: u64,
    /// When the cinfo was created, in seconds of the Unix epoch.
    pub created: i64,
}

/// An entry as it is on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskFacts {
    pub volume: u16,
    pub generation: Generation,
    pub file_size: u64,
    /// Size of its blocks in bytes.
    pub block_size: u64,
    pub present_bytes: u64,
    /// When it was last used, in seconds of the Unix epoch.
    pub last_use: i64,
    pub uses: u64,
}

/// A file at its origin. Its size is that of the entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginFacts {
    pub origin: OriginId,
    pub validator: Validator,
}

impl DiskFacts {
    pub const fn is_complete(&self) -> bool {
        self.present_bytes >= self.file_size
    }
}

impl Record {
    /// The record of an entry of which nothing is known but what is on disk.
    pub const fn new(id: EntryId, disk: DiskFacts) -> Self {
        Self { id, disk, origin: None, validated: None, pinned_until: None, owner: None, checksums: Vec::new() }
    }

    /// The file's checksum by `algorithm` in hexadecimal digits.
    pub fn checksum(&self, algorithm: &str) -> Option<&str> {
        self.checksums.iter().find(|sum| sum.algorithm == algorithm).map(|sum| sum.value.as_str())
    }

    /// Notes a checksum in place of the one by the same algorithm.
    pub(crate) fn set_checksum(&mut self, checksum: Checksum) {
        self.checksums.retain(|known| known.algorithm != checksum.algorithm);
        self.checksums.push(checksum);
        self.checksums.sort();
    }

    /// Leaves out what is beyond the limits of a record on disk.
    pub(crate) fn keep_within_limits(&mut self) {
        let fits = |text: &String| text.len() <= TEXT_LEN_MAX;
        self.origin = self.origin.take().filter(|origin| fits(&origin.origin.to_string()));
        self.owner = self.owner.take().filter(fits);
        self.checksums.retain(|sum| fits(&sum.algorithm) && fits(&sum.value));
        self.checksums.truncate(CHECKSUMS_MAX);
    }
}

/// Version of the layout that has a time of change and a checksum.
const V1: u8 = 1;

/// Version of the layout that has a validator.
const V2: u8 = 2;

const HAS_ORIGIN: u8 = 1;
const HAS_TAG: u8 = 1 << 1;
const HAS_OWNER: u8 = 1 << 2;
const IS_VALIDATED: u8 = 1 << 3;
const IS_PINNED: u8 = 1 << 4;

impl Record {
    /// The record as bytes. It must be within its limits.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (version, mtime, tag) = match self.origin.as_ref().map(|origin| &origin.validator) {
            None => (V1, 0, None),
            Some(validator) => match validator.mtime() {
                Some(mtime) if validator.etag().is_none() => (V1, mtime, validator.checksum().map(to_tag)),
                _ => (V2, 0, Some(validator.to_string())),
            },
        };
        let mut flags = 0;
        for (is_set, flag) in [
            (self.origin.is_some(), HAS_ORIGIN),
            (tag.is_some(), HAS_TAG),
            (self.owner.is_some(), HAS_OWNER),
            (self.validated.is_some(), IS_VALIDATED),
            (self.pinned_until.is_some(), IS_PINNED),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let mut to = Writer::default();
        to.u8(version);
        to.u8(flags);
        to.u16(self.disk.volume);
        to.u64(self.id.0);
        to.u64(self.disk.generation.inode);
        to.i64(self.disk.generation.created);
        to.u64(self.disk.file_size);
        to.u64(self.disk.block_size);
        to.u64(self.disk.present_bytes);
        to.i64(self.disk.last_use);
        to.u64(self.disk.uses);
        to.i64(self.validated.unwrap_or(0));
        to.i64(self.pinned_until.unwrap_or(0));
        to.i64(mtime);
        if let Some(origin) = &self.origin {
            to.text(&origin.origin.to_string());
        }
        for text in [tag.as_ref(), self.owner.as_ref()].into_iter().flatten() {
            to.text(text);
        }
        to.u8(u8::try_from(self.checksums.len()).expect("a record has few checksums"));
        for sum in &self.checksums {
            to.text(&sum.algorithm);
            to.text(&sum.value);
        }
        to.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut from = Reader::unseal(bytes, "a record")?;
        let version = from.u8()?;
        if version != V1 && version != V2 {
            return Err(IndexError::Damaged { what: "a record's version" });
        }
        let flags = from.u8()?;
        let has = |flag: u8| flags & flag != 0;
        let volume = from.u16()?;
        let id = EntryId(from.u64()?);
        let generation = Generation { inode: from.u64()?, created: from.i64()? };
        let disk = DiskFacts {
            volume,
            generation,
            file_size: from.u64()?,
            block_size: from.u64()?,
            present_bytes: from.u64()?,
            last_use: from.i64()?,
            uses: from.u64()?,
        };
        let validated = from.i64()?;
        let pinned_until = from.i64()?;
        let mtime = from.i64()?;
        let server = if has(HAS_ORIGIN) { Some(from.text()?.parse().map_err(|_| from.damaged())?) } else { None };
        let tag = if has(HAS_TAG) { Some(from.text()?) } else { None };
        let owner = if has(HAS_OWNER) { Some(from.text()?) } else { None };
        let checksums = (0..from.u8()?)
            .map(|_| Ok(Checksum { algorithm: from.text()?, value: from.text()? }))
            .collect::<Result<_, IndexError>>()?;
        let validator = if version == V1 {
            // A tag that is not a checksum was never written.
            let checksum = tag.as_deref().and_then(|tag| tag.split_once(':'));
            Validator::of_mtime(mtime).with_checksum(checksum.map(|(algorithm, value)| Checksum::new(algorithm, value)))
        } else {
            tag.unwrap_or_default().parse().map_err(|_| from.damaged())?
        };
        from.end()?;
        Ok(Self {
            id,
            disk,
            origin: server.map(|origin| OriginFacts { origin, validator }),
            validated: has(IS_VALIDATED).then_some(validated),
            pinned_until: has(IS_PINNED).then_some(pinned_until),
            owner,
            checksums,
        })
    }
}

fn to_tag(checksum: &Checksum) -> String {
    format!("{}:{}", checksum.algorithm, checksum.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CHECKSUMS_MAX, TEXT_LEN_MAX};
    use forebay_types::Endpoint;
    use proptest::prelude::*;

    fn full() -> Record {
        Record {
            id: EntryId(7),
            disk: DiskFacts {
                volume: 3,
                generation: Generation { inode: 0x0102_0304_0506_0708, created: 1_700_000_000 },
                file_size: 123_456_789,
                block_size: 65_536,
                present_bytes: 131_072,
                last_use: 1_700_000_100,
                uses: 42,
            },
            origin: Some(OriginFacts {
                origin: Endpoint::new("origin.example", 1094).into(),
                validator: Validator::of_mtime(1_600_000_000).with_checksum(Some(Checksum::new("adler32", "0a0b0c0d"))),
            }),
            validated: Some(1_700_000_050),
            pinned_until: Some(1_800_000_000),
            owner: Some("cms".to_owned()),
            checksums: vec![Checksum::new("adler32", "0a0b0c0d")],
        }
    }

    /// A record as version 1 wrote it. Never change it: indexes on disk look like this.
    const WRITTEN_BY_V1: &str = concat!(
        "011f0300070000000000000008070605040302010",
        "0f1536500000000",
        "15cd5b0700000000000001000000000000000200000000",
        "0064f15365000000002a00000000000000",
        "32f153650000000000d2496b0000000000105e5f00000000",
        "13006f726967696e2e6578616d706c653a31303934",
        "100061646c657233323a3061306230633064",
        "0300636d73",
        "01",
        "070061646c6572333208003061306230633064",
    );

    fn from_hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn version_1_is_read_and_written_as_it_always_was() {
        let mut bytes = from_hex(WRITTEN_BY_V1);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(Record::decode(&bytes).unwrap(), full());
        assert_eq!(full().encode(), bytes);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for bytes in [full().encode(), with_validator("etag:\"a\"").encode()] {
            for at in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[at / 8] ^= 1 << (at % 8);
                assert!(Record::decode(&flipped).is_err(), "bit {at}");
            }
            for len in 0..bytes.len() {
                assert!(Record::decode(&bytes[..len]).is_err(), "cut to {len}");
            }
        }
    }

    fn with_validator(text: &str) -> Record {
        let mut record = full();
        record.origin.as_mut().unwrap().validator = text.parse().unwrap();
        record
    }

    #[test]
    fn validators_are_kept_in_the_oldest_version_that_can_hold_them() {
        for (text, version) in [
            ("mtime:5", 1),
            ("mtime:-5 checksum:md5:aa", 1),
            ("", 2),
            ("mtime:5 etag:\"a\"", 2),
            ("etag:W/\"a\"", 2),
            ("checksum:md5:aa", 2),
            ("mtime:5 etag:\"a\" checksum:md5:aa", 2),
        ] {
            let bytes = with_validator(text).encode();
            assert_eq!(bytes[0], version, "{text}");
            assert_eq!(Record::decode(&bytes).unwrap(), with_validator(text));
        }
    }

    /// The validator of a record as version 2 wrote it, between server and owner. Never change it.
    #[test]
    fn version_2_holds_the_text_of_a_validator() {
        let bytes = with_validator("etag:\"a\" checksum:md5:aa").encode();
        let head = WRITTEN_BY_V1.find("13006f726967").unwrap() / 2;
        let before = &from_hex(WRITTEN_BY_V1)[2..head - 8];
        let after = &bytes[2..head - 8];
        assert_eq!((bytes[0], bytes[1], after), (2, 0x1f, before));
        assert_eq!(bytes[head - 8..head], [0; 8]);
        let text = b"\x18\0etag:\"a\" checksum:md5:aa\x03\0cms";
        assert_eq!(&bytes[head + 21..head + 21 + text.len()], text);
    }

    #[test]
    fn records_from_the_future_are_refused() {
        let mut bytes = full().encode();
        bytes.truncate(bytes.len() - 4);
        bytes[0] = 3;
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert!(matches!(Record::decode(&bytes), Err(IndexError::Damaged { what: "a record's version" })));
    }

    #[test]
    fn texts_beyond_the_limits_are_left_out() {
        let mut record = full();
        record.owner = Some("o".repeat(TEXT_LEN_MAX));
        record.keep_within_limits();
        assert!(record.owner.is_some());
        record.owner = Some("o".repeat(TEXT_LEN_MAX + 1));
        for n in 0..2 * CHECKSUMS_MAX {
            record.set_checksum(Checksum::new(format!("a{n:02}"), "0"));
        }
        record.keep_within_limits();
        assert_eq!(record.owner, None);
        assert_eq!(record.checksums.len(), CHECKSUMS_MAX);
        assert_eq!(Record::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn one_checksum_of_each_algorithm_is_kept() {
        let mut record = full();
        record.set_checksum(Checksum::new("adler32", "1"));
        assert_eq!(record.checksum("adler32"), Some("1"));
        assert_eq!(record.checksum("md5"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>) {
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(Record::decode(&record.encode()).unwrap(), record);
            }
        }
    }
}
