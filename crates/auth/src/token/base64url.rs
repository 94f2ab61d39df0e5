//! Base64 for URLs, without padding (RFC 4648, section 5).

use openssl::base64::{decode_block, encode_block};

/// Decodes `text`; `None` when it is not of that form, or when bits are left over.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let padding = "=".repeat(text.len().next_multiple_of(4) - text.len());
    let bytes = decode_block(&(text.replace('-', "+").replace('_', "/") + &padding)).ok()?;
    // The library also takes padding, white space and the other alphabet.
    let same = encode_block(&bytes).trim_end_matches('=').replace('+', "-").replace('/', "_");
    (same == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_decode_to_their_bytes() {
        for (text, bytes) in [
            ("", b"".as_slice()),
            ("Zg", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg", b"foob"),
            ("-_-_", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(decode(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in ["Z", "Zg==", "Zm9vY", "Zh", "Zm9", "+/+/", "Zm 9", "Zm9v\n", "ü"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
