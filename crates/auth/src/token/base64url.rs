//! Base64 for URLs, without padding (RFC 4648, section 5).

/// Decodes `text`; `None` when it is not of that form, or when bits are left over.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for &digit in group {
            bits = bits << 6 | u32::from(value_of(digit)?);
        }
        // Four digits make three bytes, three make two, two make one; a single digit makes none.
        let (whole, spare) = match group.len() {
            4 => (3, 0),
            3 => (2, 2),
            2 => (1, 4),
            _ => return None,
        };
        if bits & ((1 << spare) - 1) != 0 {
            return None;
        }
        let [_, decoded @ ..] = (bits >> spare << (8 * (3 - whole))).to_be_bytes();
        bytes.extend(decoded.into_iter().take(whole));
    }
    Some(bytes)
}

const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = decode(&text);
        }
    }
}
