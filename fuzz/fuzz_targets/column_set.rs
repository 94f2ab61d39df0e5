//! A stored set of columns: it is read as it was written, or not at all.

#![no_main]

use forebay_structure::{ColumnSet, Observed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The checksum would keep all inputs but the seeds from the fields behind it.
    let sealed = [input, &crc32c::crc32c(input).to_le_bytes()].concat();
    for bytes in [input, &sealed] {
        if let Some(mut set) = ColumnSet::decode(bytes) {
            assert_eq!(set.encode(), bytes);
            set.note(&Observed { columns: input.iter().map(|byte| (u64::from(*byte), 1000)).collect() });
            assert_eq!(ColumnSet::decode(&set.encode()), Some(set));
        }
    }
});
