//! Bytes written as hex, and frames taken apart.

use forebay_proto::{RESPONSE_HEADER_LEN, ResponseHeader};

/// The bytes that hex digits stand for; blanks are left out.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The response frames that `bytes` consist of, each with its whole body.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(ResponseHeader, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let header = ResponseHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        let end = RESPONSE_HEADER_LEN + header.body_len as usize;
        frames.push((header, bytes[RESPONSE_HEADER_LEN..end].to_vec()));
        bytes = &bytes[end..];
    }
    frames
}

/// The only response frame in `bytes`.
pub(crate) fn frame(bytes: &[u8]) -> (ResponseHeader, Vec<u8>) {
    let mut frames = frames(bytes);
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}
