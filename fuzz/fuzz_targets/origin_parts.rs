//! An answer with several ranges, cut at random: the parser never panics, and its result does not depend on the cuts.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// The parsers alone: their crate would bring its connections and TLS along.
#[path = "../../crates/origin-http/src/answer"]
mod answer {
    pub(crate) mod content_range;
    pub(crate) mod multipart;
}

const FILE_SIZE: u64 = 1 << 40;

/// Each byte of the parts with its offset, until the body ends or is found malformed.
fn read(body: &[u8], cut_len: usize) -> Vec<(u64, u8)> {
    let Some(mut parts) = answer::multipart::Parts::of("multipart/byteranges; boundary=B", FILE_SIZE) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for piece in body.chunks(cut_len) {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match parts.next(&mut piece) {
                Ok(Some((offset, bytes))) => found.extend((offset..).zip(bytes)),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut_len, body) = input;
    let whole = read(body, body.len().max(1));
    assert!(whole.len() <= body.len());
    assert!(whole.iter().all(|(offset, _)| *offset < FILE_SIZE));
    assert_eq!(read(body, usize::from(cut_len).max(1)), whole);
});
