//! How messages are sealed: Blowfish in 64-bit CFB mode from a vector of zeros, over the text and its CRC-32.

use blowfish::Blowfish;
use cfb_mode::cipher::KeyIvInit;
use cfb_mode::{Decryptor, Encryptor};
use zeroize::Zeroizing;

/// Shortest and longest keys in bytes.
pub(super) const KEY_LEN_MIN: usize = 4;
pub(super) const KEY_LEN_MAX: usize = 56;

/// Bytes that sealing adds.
pub(super) const OVERHEAD: usize = 4;

const VECTOR: [u8; 8] = [0; 8];

/// Seals `text`; `None` when the key has no possible length.
pub(super) fn seal(key: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = [text, &crc32(text).to_be_bytes()].concat();
    Encryptor::<Blowfish>::new_from_slices(key, &VECTOR).ok()?.encrypt(&mut sealed);
    Some(sealed)
}

/// The text that was sealed with the same key; `None` when it was not.
pub(super) fn open(key: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut text = Zeroizing::new(sealed.to_vec());
    Decryptor::<Blowfish>::new_from_slices(key, &VECTOR).ok()?.decrypt(&mut text);
    let (body, sum) = text.split_last_chunk::<OVERHEAD>()?;
    let is_intact = crc32(body) == u32::from_be_bytes(*sum);
    let len = body.len();
    is_intact.then(|| {
        text.truncate(len);
        text
    })
}

/// CRC-32 as in ISO 3309, bit by bit: messages are short and rare.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for &byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard_and_sealed_texts_open_with_the_same_key_only() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        for len in [KEY_LEN_MIN, 16, 32, KEY_LEN_MAX] {
            let sealed = seal(&vec![7; len], b"thirteen byte").unwrap();
            assert_eq!(sealed.len(), 13 + OVERHEAD);
            assert_eq!(open(&vec![7; len], &sealed).unwrap().as_slice(), b"thirteen byte");
            assert_eq!(open(&vec![8; len], &sealed), None);
        }
        assert_eq!(seal(&[7; KEY_LEN_MIN - 1], b""), None);
        assert_eq!(seal(&[7; KEY_LEN_MAX + 1], b""), None);
        assert_eq!(open(&[7; 16], &[0; 3]), None);
        let sealed = seal(&[7; 16], b"who I am").unwrap();
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(open(&[7; 16], &changed), None, "byte {place}");
        }
    }
}
