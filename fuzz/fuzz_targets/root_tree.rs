//! The inflated record of a `TTree`, in a file that has nothing else.

#![no_main]

mod root_file;

use libfuzzer_sys::fuzz_target;

/// Room for baskets behind the record: those of the seed are here.
const DATA: [u8; 32768] = [0; 32768];

fuzz_target!(|input: &[u8]| {
    root_file::parse(&root_file::around("TTree", input, &DATA));
});
