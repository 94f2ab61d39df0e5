//! Records as bytes.
//!
//! Version 1, behind each other: version (u8), flags (u8), volume (u16), number (u64), inode (u64), created (i64), file size,
//! block size and present bytes (u64 each), last use (i64), uses (u64), validated, pinned until and time of change at the
//! origin (i64 each, 0 without their flag); then, each with its flag, the texts endpoint, tag and owner (u16 length and
//! UTF-8); then the number of checksums (u8) and for each the texts algorithm and value; then the CRC32C of it all (u32).

use crate::{
    IndexError,
    bytes::{Reader, Writer},
    record::{DiskFacts, FileChecksum, Generation, OriginFacts, Record},
};
use forebay_cache::EntryId;

/// Version of the layout.
const VERSION: u8 = 1;

const HAS_ORIGIN: u8 = 1;
const HAS_TAG: u8 = 1 << 1;
const HAS_OWNER: u8 = 1 << 2;
const IS_VALIDATED: u8 = 1 << 3;
const IS_PINNED: u8 = 1 << 4;

impl Record {
    /// The record as bytes. It must be within its limits.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let tag = self.origin.as_ref().and_then(|origin| origin.tag.as_ref());
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
        to.u8(VERSION);
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
        to.i64(self.origin.as_ref().map_or(0, |origin| origin.mtime));
        if let Some(origin) = &self.origin {
            to.text(&origin.endpoint.to_string());
        }
        for text in [tag, self.owner.as_ref()].into_iter().flatten() {
            to.text(text);
        }
        to.u8(u8::try_from(self.checksums.len()).expect("a record has few checksums"));
        for sum in &self.checksums {
            to.text(&sum.algorithm);
            to.text(&sum.value);
        }
        to.seal()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut from = Reader::unseal(bytes, "a record")?;
        if from.u8()? != VERSION {
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
        let (validated, pinned_until, mtime) = (from.i64()?, from.i64()?, from.i64()?);
        let endpoint = if has(HAS_ORIGIN) { Some(from.text()?.parse().map_err(|_| from.damaged())?) } else { None };
        let tag = if has(HAS_TAG) { Some(from.text()?) } else { None };
        let owner = if has(HAS_OWNER) { Some(from.text()?) } else { None };
        let checksums = (0..from.u8()?)
            .map(|_| Ok(FileChecksum { algorithm: from.text()?, value: from.text()? }))
            .collect::<Result<_, IndexError>>()?;
        from.end()?;
        Ok(Self {
            id,
            disk,
            origin: endpoint.map(|endpoint| OriginFacts { endpoint, mtime, tag }),
            validated: has(IS_VALIDATED).then_some(validated),
            pinned_until: has(IS_PINNED).then_some(pinned_until),
            owner,
            checksums,
        })
    }
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
                endpoint: Endpoint::new("origin.example", 1094),
                mtime: 1_600_000_000,
                tag: Some("adler32:0a0b0c0d".to_owned()),
            }),
            validated: Some(1_700_000_050),
            pinned_until: Some(1_800_000_000),
            owner: Some("cms".to_owned()),
            checksums: vec![FileChecksum { algorithm: "adler32".to_owned(), value: "0a0b0c0d".to_owned() }],
        }
    }

    /// A record as version 1 wrote it. Never change it: indexes on disk look like this.
    const V1: &str = concat!(
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
        let mut bytes = from_hex(V1);
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(Record::decode(&bytes).unwrap(), full());
        assert_eq!(full().encode(), bytes);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = full().encode();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Record::decode(&flipped).is_err(), "bit {at}");
        }
        for len in 0..bytes.len() {
            assert!(Record::decode(&bytes[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn records_from_the_future_are_refused() {
        let mut bytes = full().encode();
        bytes.truncate(bytes.len() - 4);
        bytes[0] = 2;
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert!(matches!(Record::decode(&bytes), Err(IndexError::Damaged { what: "a record's version" })));
    }

    #[test]
    fn what_is_beyond_the_limits_is_left_out() {
        let mut record = full();
        record.owner = Some("o".repeat(TEXT_LEN_MAX));
        record.keep_within_limits();
        assert!(record.owner.is_some());
        record.owner = Some("o".repeat(TEXT_LEN_MAX + 1));
        record.origin.as_mut().unwrap().tag = Some("t".repeat(TEXT_LEN_MAX + 1));
        for n in 0..2 * CHECKSUMS_MAX {
            record.set_checksum(FileChecksum { algorithm: format!("a{n:02}"), value: "0".to_owned() });
        }
        record.keep_within_limits();
        assert_eq!(record.owner, None);
        assert_eq!(record.origin.as_ref().unwrap().tag, None);
        assert_eq!(record.checksums.len(), CHECKSUMS_MAX);
        assert_eq!(Record::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn one_checksum_of_each_algorithm_is_kept() {
        let mut record = full();
        record.set_checksum(FileChecksum { algorithm: "adler32".to_owned(), value: "1".to_owned() });
        assert_eq!(record.checksum("adler32"), Some("1"));
        assert_eq!(record.checksum("md5"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>) {
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
