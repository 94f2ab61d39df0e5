//! A whole ROOT file: header, directories and keys first.

#![no_main]

mod root_file;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    root_file::parse(input);
});
