//! The compressed chunks of a record: the first three bytes are the stated length.

#![no_main]

use forebay_structure::inflate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((len, stored)) = input.split_at_checked(3) else { return };
    let len = u64::from(len[0]) | u64::from(len[1]) << 8 | u64::from(len[2]) << 16;
    if let Ok(inflated) = inflate(stored, len) {
        assert_eq!(inflated.len() as u64, len);
    }
});
