//! A cinfo file: decoding never panics, and what is decoded survives a round trip.
//!
//! The first byte chooses whether the checksums of version 4 are set right, so that damage behind them is reached.

#![no_main]

use forebay_cache::Cinfo;
use forebay_proto::page::crc32c;
use libfuzzer_sys::fuzz_target;

/// Bytes of the version, and of the fixed part behind it that the first checksum covers.
const VERSION_LEN: usize = 4;
const HEADER_LEN: usize = 48;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if choice & 1 == 1 {
        set_checksums(&mut bytes);
    }
    let Ok(cinfo) = Cinfo::decode(&bytes) else { return };
    let mut encoded = Vec::new();
    cinfo.encode(&mut encoded);
    assert_eq!(Cinfo::decode(&encoded), Ok(cinfo));
});

/// Sets the checksum of the fixed part, and of the body as if it reached to the end.
fn set_checksums(bytes: &mut [u8]) {
    let Some((_, behind_version)) = bytes.split_at_mut_checked(VERSION_LEN) else { return };
    let Some((header, behind_header)) = behind_version.split_at_mut_checked(HEADER_LEN) else { return };
    let Some((checksum, behind)) = behind_header.split_first_chunk_mut() else { return };
    *checksum = crc32c(header).to_le_bytes();
    let Some((body, checksum)) = behind.split_last_chunk_mut() else { return };
    *checksum = crc32c(body).to_le_bytes();
}
