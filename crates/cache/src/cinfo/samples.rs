//! Real and damaged records.

use super::*;
use forebay_types::{BlockIndex, BlockSize};
use proptest::prelude::*;

/// 700 000 bytes of which only the last 100 were read. Written by XCache 5.5.
const PARTIAL: &str = "
    04000000 0000010000000000 60ae0a0000000000 5de9016b00000000 0000000000000000
    0100000000000000 02000000 01000000 e24cc305
    0004
    5de9016b00000000 5de9016b00000000 01000000 00000000 00000000 00000000
    0000000000000000 6400000000000000 0000000000000000
    7511cfbd";

/// 300 000 bytes, read whole three times. Written by XCache 5.5.
const COMPLETE: &str = "
    04000000 0000010000000000 e093040000000000 5ee9016b00000000 0000000000000000
    0300000000000000 02000000 03000000 de5eff3b
    1f
    5ee9016b00000000 5fe9016b00000000 01000000 00000000 00000000 00000000
    e093020000000000 e093040000000000 0000000000000000
    60e9016b00000000 60e9016b00000000 01000000 00000000 00000000 00000000
    e093040000000000 0000000000000000 0000000000000000
    61e9016b00000000 61e9016b00000000 01000000 00000000 00000000 00000000
    e093040000000000 0000000000000000 0000000000000000
    7a3140fc";

/// An empty file. Written by XCache 6.1.
const EMPTY: &str = "
    04000000 0000010000000000 0000000000000000 e4ec016b00000000 0000000000000000
    0100000000000000 02000000 01000000 9d1285bc
    00
    e4ec016b00000000 e4ec016b00000000 01000000 00000000 00000000 00000000
    0000000000000000 0000000000000000 0000000000000000
    630221f5";

/// Version 3 up to its records: blocks 0, 2 and 4 of 5. Accepted by XCache 6.1.
const V3_HEAD: &str = "
    03000000 0000010000000000 e093040000000000 15
    f5a7e477cd3042b49a9085d62307cd28 00f1536500000000 0200000000000000";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encoded(cinfo: &Cinfo) -> Vec<u8> {
    let mut out = Vec::new();
    cinfo.encode(&mut out);
    out
}

#[test]
fn records_of_xcache_are_read_and_written_back_byte_for_byte() {
    for (sample, len) in [(PARTIAL, 118), (COMPLETE, 229), (EMPTY, 117)] {
        let bytes = unhex(sample);
        assert_eq!(bytes.len(), len);
        let cinfo = Cinfo::decode(&bytes).unwrap();
        assert_eq!(encoded(&cinfo), bytes);
    }
}

#[test]
fn a_partial_file_is_understood() {
    let cinfo = Cinfo::decode(&unhex(PARTIAL)).unwrap();
    assert_eq!((cinfo.geometry.block_size(), cinfo.geometry.file_size()), (65536, 700_000));
    assert_eq!((cinfo.created, cinfo.no_checksum_time, cinfo.access_count), (1_795_287_389, 0, 1));
    assert_eq!(cinfo.checksum, ChecksumState::Net);
    assert_eq!((cinfo.blocks.len(), cinfo.blocks.count()), (11, 1));
    assert!(cinfo.blocks.contains(BlockIndex(10)));
    assert!(!cinfo.is_complete());
    assert_eq!(cinfo.present_bytes(), 700_000 - 10 * 65536);
    assert_eq!(cinfo.expected_data_len(), 700_000);
    let access = Access { detached: Some(1_795_287_389), opens: 1, missed_bytes: 100, ..Access::begun(1_795_287_389) };
    assert_eq!(cinfo.accesses, [access]);
    assert_eq!(cinfo.last_access(), 1_795_287_389);
}

#[test]
fn a_complete_file_is_understood() {
    let cinfo = Cinfo::decode(&unhex(COMPLETE)).unwrap();
    assert!(cinfo.is_complete());
    assert_eq!(cinfo.present_bytes(), 300_000);
    assert_eq!(cinfo.accesses.iter().map(|access| access.hit_bytes).collect::<Vec<_>>(), [168_928, 300_000, 300_000]);
}

#[test]
fn an_empty_file_is_complete_without_its_bit() {
    let cinfo = Cinfo::decode(&unhex(EMPTY)).unwrap();
    assert_eq!((cinfo.blocks.len(), cinfo.blocks.count()), (1, 0));
    assert!(cinfo.is_complete());
    assert_eq!((cinfo.present_bytes(), cinfo.expected_data_len()), (0, 0));
}

#[test]
fn version_3_is_read_without_its_implausible_records() {
    let record = |attached: i64, detached: i64, opens: i32| {
        let mut cinfo = Cinfo::new(Geometry::new(4096, 0).unwrap(), 0, ChecksumState::None);
        cinfo.accesses = vec![Access { attached, detached: Some(detached), opens, hit_bytes: 7, ..Access::default() }];
        encoded(&cinfo)[57..113].to_vec()
    };
    let mut bytes = unhex(V3_HEAD);
    for (attached, detached, opens) in [
        (1_700_000_000, 1_700_000_100, 2),
        (1_700_000_000, 1_700_000_100, 0),
        (1000, 1_700_000_100, 1),
        (1_700_000_000, 1_699_999_999, 1),
        (1_700_000_000, 5, 1),
        (1_700_000_200, 0, 1),
    ] {
        bytes.extend(record(attached, detached, opens));
    }
    bytes.extend([1, 2, 3]);
    assert_eq!(CinfoVersion::of(&bytes), Ok(CinfoVersion::V3));
    let cinfo = Cinfo::decode(&bytes).unwrap();
    assert_eq!((cinfo.created, cinfo.access_count, cinfo.blocks.count()), (1_700_000_000, 2, 3));
    assert_eq!((cinfo.checksum, cinfo.expected_data_len()), (ChecksumState::None, 300_000));
    assert_eq!(cinfo.accesses.len(), 2);
    assert_eq!((cinfo.accesses[0].opens, cinfo.accesses[0].hit_bytes), (2, 7));
    assert_eq!(cinfo.accesses[1].detached, None);

    let without_count = &unhex(V3_HEAD)[..53 - 8];
    assert_eq!(Cinfo::decode(without_count).unwrap().access_count, 0);
    let wrong_md5: Vec<u8> = bytes.iter().enumerate().map(|(at, byte)| if at == 20 { 0x14 } else { *byte }).collect();
    assert_eq!(Cinfo::decode(&wrong_md5), Err(CinfoError::Checksum { section: "bit vector" }));
}

#[test]
fn of_many_access_records_the_newest_are_read() {
    for count in [ACCESSES_READ_MAX, ACCESSES_READ_MAX + 1, 3 * ACCESSES_READ_MAX] {
        let mut cinfo = Cinfo::new(Geometry::new(4096, 0).unwrap(), 0, ChecksumState::None);
        cinfo.access_count = 100_000;
        let access = |attached| Access { detached: Some(attached + 1), opens: 1, ..Access::begun(attached) };
        cinfo.accesses = (1_700_000_000..).take(count).map(access).collect();
        let bytes = encoded(&cinfo);
        let newest = &cinfo.accesses[count - ACCESSES_READ_MAX..];
        let read = Cinfo::decode(&bytes).unwrap();
        assert_eq!((read.accesses.as_slice(), read.access_count), (newest, 100_000));
        let old = [&unhex(V3_HEAD)[..], &bytes[57..57 + count * 56]].concat();
        assert_eq!(Cinfo::decode(&old).unwrap().accesses, newest);
    }
}

#[test]
fn version_2_records_have_one_open() {
    let mut bytes = unhex(V3_HEAD);
    bytes[0] = 2;
    for field in [1_700_000_000_u64, 1_700_000_050, 1, 2, 3, 1_700_000_060, 0, 4, 5, 6] {
        bytes.extend(field.to_le_bytes());
    }
    let first = Access {
        detached: Some(1_700_000_050),
        opens: 1,
        duration_seconds: 50,
        hit_bytes: 1,
        missed_bytes: 2,
        bypassed_bytes: 3,
        ..Access::begun(1_700_000_000)
    };
    let second = Access { opens: 1, hit_bytes: 4, missed_bytes: 5, bypassed_bytes: 6, ..Access::begun(1_700_000_060) };
    assert_eq!(Cinfo::decode(&bytes).unwrap().accesses, [first, second]);
}

#[test]
fn versions_from_the_past_and_the_future_are_refused() {
    for version in [i32::MIN, -1, 0, 1, 5, 6, i32::MAX] {
        let mut bytes = unhex(PARTIAL);
        bytes[..4].copy_from_slice(&version.to_le_bytes());
        assert_eq!(Cinfo::decode(&bytes), Err(CinfoError::Version(version)));
    }
}

#[test]
fn trailing_bytes_and_bits_after_the_last_block_are_ignored() {
    let bytes = unhex(COMPLETE);
    let trailing = [bytes.as_slice(), &[0xff; 100]].concat();
    let mut bits = bytes.clone();
    bits[56] = 0xff;
    let body_end = bits.len() - 4;
    let crc = crc32c::crc32c(&bits[56..body_end]);
    bits[body_end..].copy_from_slice(&crc.to_le_bytes());
    for changed in [trailing, bits] {
        assert_eq!(Cinfo::decode(&changed), Cinfo::decode(&bytes));
    }
}

/// A version-4 header with a good checksum and nothing after it.
fn header_only(block_size: i64, file_size: i64, stored: i32) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(block_size.to_le_bytes());
    header.extend(file_size.to_le_bytes());
    header.extend([0; 28]);
    header.extend(stored.to_le_bytes());
    [&4_i32.to_le_bytes(), header.as_slice(), &crc32c::crc32c(&header).to_le_bytes()].concat()
}

#[test]
fn sizes_are_checked_before_memory_is_reserved() {
    assert_eq!(Cinfo::decode(&header_only(-1, 1, 0)), Err(CinfoError::Negative));
    assert_eq!(Cinfo::decode(&header_only(4096, -1, 0)), Err(CinfoError::Negative));
    assert!(matches!(Cinfo::decode(&header_only(0, 1, 0)), Err(CinfoError::Geometry(_))));
    assert!(matches!(Cinfo::decode(&header_only(1, i64::MAX, 0)), Err(CinfoError::Geometry(_))));
    assert_eq!(Cinfo::decode(&header_only(4096, 1, -1)), Err(CinfoError::AccessCount(-1)));
    let most = i32::try_from(ACCESSES_LEN_MAX).unwrap();
    assert_eq!(Cinfo::decode(&header_only(4096, 1, most + 1)), Err(CinfoError::AccessCount(i64::from(most) + 1)));
    let truncated = Err(CinfoError::Truncated { section: "body" });
    assert_eq!(Cinfo::decode(&header_only(4096, 1, most)), truncated);
    assert_eq!(Cinfo::decode(&header_only(1, i64::from(i32::MAX), 0)), truncated);
}

#[test]
fn opening_again_and_again_keeps_the_last_twenty_records() {
    let mut cinfo = Cinfo::new(Geometry::of_new_file(BlockSize::DEFAULT, 1).unwrap(), 1000, ChecksumState::None);
    for n in 0..100 {
        cinfo.begin_access(1000 + n * 60);
    }
    assert_eq!((cinfo.accesses.len(), cinfo.access_count), (ACCESSES_KEPT, 100));
    assert_eq!(cinfo.accesses[19], Access::begun(1000 + 99 * 60));
    assert_eq!(cinfo.accesses.iter().map(|access| access.merged + 1).sum::<i32>(), 100);
}

#[test]
fn fills_drop_the_claims_that_no_longer_hold() {
    for (before, verified, after, no_checksum_time) in [
        (ChecksumState::Both, true, ChecksumState::Net, 0),
        (ChecksumState::Net, true, ChecksumState::Net, 0),
        (ChecksumState::Cache, true, ChecksumState::None, 0),
        (ChecksumState::Both, false, ChecksumState::None, 50),
        (ChecksumState::None, false, ChecksumState::None, 50),
    ] {
        let mut cinfo = Cinfo::new(Geometry::new(4096, 1).unwrap(), 1, before);
        cinfo.note_fill(verified, 50);
        cinfo.note_fill(verified, 60);
        assert_eq!((cinfo.checksum, cinfo.no_checksum_time), (after, no_checksum_time), "{before:?} {verified}");
    }
}

prop_compose! {
    fn accesses()(times in any::<(i64, i64)>(), counts in any::<(i32, i32, i32)>(), bytes in any::<[u64; 3]>()) -> Access {
        Access {
            attached: times.0,
            detached: Some(times.1).filter(|&time| time != 0),
            opens: counts.0,
            duration_seconds: counts.1,
            merged: counts.2,
            hit_bytes: bytes[0],
            missed_bytes: bytes[1],
            bypassed_bytes: bytes[2],
        }
    }
}

prop_compose! {
    fn cinfos()(
        block_size in 1_u64..100_000,
        file_size in 0_u64..10_000_000,
        times in any::<(i64, i64)>(),
        access_count: u64,
        status in 0_u32..4,
        words in prop::collection::vec(any::<u64>(), 0..100),
        accesses in prop::collection::vec(accesses(), 0..25),
    ) -> Cinfo {
        // At most some 10 000 blocks.
        let block_size = block_size.max(file_size / 10_000);
        let geometry = Geometry::new(block_size, file_size).unwrap();
        Cinfo {
            geometry,
            created: times.0,
            no_checksum_time: times.1,
            access_count,
            checksum: ChecksumState::from_status(status),
            blocks: BlockSet::from_words(geometry.block_count(), words.into_iter()),
            accesses,
        }
    }
}

proptest! {
    #[test]
    fn records_are_read_as_written(cinfo in cinfos()) {
        let bytes = encoded(&cinfo);
        let vector_len = usize::try_from(cinfo.blocks.len().div_ceil(8)).unwrap();
        prop_assert_eq!(bytes.len(), 60 + vector_len + 56 * cinfo.accesses.len());
        prop_assert_eq!(&Cinfo::decode(&bytes), &Ok(cinfo));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(version in 0_u8..6, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Cinfo::decode(&bytes);
        let mut bytes = bytes;
        bytes.splice(0..0, [version, 0, 0, 0]);
        let _ = Cinfo::decode(&bytes);
    }

    #[test]
    fn old_versions_are_read_without_a_panic(at in 0_usize..53, value: u8, tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = unhex(V3_HEAD);
        bytes.extend(tail);
        bytes[at] = value;
        let _ = Cinfo::decode(&bytes);
        bytes[0] = 2;
        let _ = Cinfo::decode(&bytes);
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_an_error() {
    for sample in [PARTIAL, COMPLETE, EMPTY] {
        let bytes = unhex(sample);
        for len in 0..bytes.len() {
            assert!(matches!(Cinfo::decode(&bytes[..len]), Err(CinfoError::Truncated { .. })), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Cinfo::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
