//! A message of the GSI handshake: reading never panics, and what is read is written to a message that reads the same.

#![no_main]

use forebay_auth::gsi::{Buffer, write_buffer};
use libfuzzer_sys::fuzz_target;

/// The bucket that holds a message of its own.
const MAIN: u32 = 3001;

fuzz_target!(|input: &[u8]| {
    check(input);
    if let Ok(message) = Buffer::parse(input)
        && let Some(main) = message.get(MAIN)
    {
        check(main);
    }
});

fn check(bytes: &[u8]) {
    let Ok(message) = Buffer::parse(bytes) else { return };
    let written = write_buffer(message.step, &message.buckets);
    assert!(written.len() <= bytes.len() + size_of::<u32>());
    assert_eq!(Buffer::parse(&written), Ok(message));
}
