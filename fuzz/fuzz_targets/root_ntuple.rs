//! The envelopes of an `RNTuple`: lengths of header and footer, both, and page lists.

#![no_main]

mod root_file;

use libfuzzer_sys::fuzz_target;

/// Bytes of an anchor without its checksum.
const ANCHOR_LEN: usize = 70;

fuzz_target!(|input: &[u8]| {
    let Some((lens, envelopes)) = input.split_first_chunk::<4>() else { return };
    let [header_len, footer_len] =
        [[lens[0], lens[1]], [lens[2], lens[3]]].map(|len| u64::from(u16::from_le_bytes(len)));
    let header = root_file::behind(ANCHOR_LEN) as u64;
    let mut anchor = vec![0x40, 0, 0, 66, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0];
    for value in [header, header_len, header_len, header + header_len, footer_len, footer_len, 0] {
        anchor.extend(value.to_be_bytes());
    }
    assert_eq!(anchor.len(), ANCHOR_LEN);
    root_file::parse(&root_file::around("ROOT::RNTuple", &anchor, envelopes));
});
