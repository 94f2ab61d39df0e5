//! The signatures of GSI: RSA with padding of PKCS #1 type 1 over the bytes themselves, without a digest.
//!
//! Long texts are signed in pieces. Such a signature over bytes that a peer chooses could be one over a digest of something
//! else; what is signed for a peer is therefore kept shorter than any digest with its name in front.

use crate::gsi::error::GsiError;
use crate::x509::{Certificate, RSA_BITS_MAX};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKeyRef, Private, Public};
use openssl::rsa::{Padding, Rsa, RsaRef};

/// Longest signed text that is recovered, bytes: the values of a group of 8192 bits take 3.5 KiB.
const RECOVERED_LEN_MAX: usize = 4 << 10;

/// Shortest RSA key of a peer, bits.
const RSA_BITS_MIN: u32 = 1024;

/// Longest public exponent of a peer's key, bits. Authorities certify 65537 and less; one as long as the modulus makes a
/// recovery a thousand times as expensive, for a peer that has proved nothing yet.
const RSA_EXPONENT_BITS_MAX: i32 = 64;

/// Bytes of a block that the padding takes.
const PADDING_LEN: usize = 11;

/// Signs a text, block after block.
pub(crate) fn sign(key: &RsaRef<Private>, text: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let block_len = block_len(key.size());
    let mut signature = Vec::new();
    for piece in text.chunks(block_len.saturating_sub(PADDING_LEN).max(1)) {
        let mut block = vec![0; block_len];
        key.private_encrypt(piece, &mut block, Padding::PKCS1)?;
        signature.append(&mut block);
    }
    Ok(signature)
}

/// The text that was signed; `None` when the key's owner has signed nothing like it.
pub(crate) fn recover(key: &RsaRef<Public>, signature: &[u8]) -> Option<Vec<u8>> {
    let block_len = block_len(key.size());
    if signature.is_empty() || signature.len() > RECOVERED_LEN_MAX || !signature.len().is_multiple_of(block_len) {
        return None;
    }
    let mut text = Vec::new();
    for block in signature.chunks(block_len) {
        let mut piece = vec![0; block_len];
        let len = key.public_decrypt(block, &mut piece, Padding::PKCS1).ok()?;
        text.extend_from_slice(piece.get(..len)?);
    }
    Some(text)
}

/// The RSA key of a certificate.
pub(crate) fn rsa_of(certificate: &Certificate) -> Result<Rsa<Public>, GsiError> {
    let key = certificate.public_key()?;
    usual_rsa(&key)
}

/// The RSA key, if it is one of a length that is worked with.
pub(crate) fn usual_rsa(key: &PKeyRef<Public>) -> Result<Rsa<Public>, GsiError> {
    if key.id() != Id::RSA || !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&key.bits()) {
        return Err(GsiError::KeyKind);
    }
    let key = key.rsa()?;
    if key.e().num_bits() > RSA_EXPONENT_BITS_MAX {
        return Err(GsiError::KeyKind);
    }
    Ok(key)
}

fn block_len(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::{bn::BigNum, pkey::PKey};

    fn public(key: &Rsa<Private>) -> Rsa<Public> {
        Rsa::from_public_components(key.n().to_owned().unwrap(), key.e().to_owned().unwrap()).unwrap()
    }

    #[test]
    fn texts_of_any_length_are_recovered_from_good_signatures_only() {
        let key = Rsa::generate(1024).unwrap();
        for len in [1, 8, 117, 118, 1000] {
            let text = vec![7; len];
            let signature = sign(&key, &text).unwrap();
            assert_eq!(signature.len(), len.div_ceil(117) * 128);
            assert_eq!(recover(&public(&key), &signature), Some(text));
        }
        // Other signatures are not taken.
        let mut signature = sign(&key, b"text").unwrap();
        assert_eq!(recover(&public(&Rsa::generate(1024).unwrap()), &signature), None);
        assert_eq!(recover(&public(&key), &signature[1..]), None);
        assert_eq!(recover(&public(&key), b""), None);
        assert_eq!(recover(&public(&key), &signature.repeat(33)), None);
        signature[5] ^= 1;
        assert_eq!(recover(&public(&key), &signature), None);
    }

    #[test]
    fn keys_with_long_exponents_are_refused() {
        let key = Rsa::generate(1024).unwrap();
        let with = |exponent: BigNum| {
            let key = Rsa::from_public_components(key.n().to_owned().unwrap(), exponent).unwrap();
            usual_rsa(&PKey::from_rsa(key).unwrap()).map(drop)
        };
        assert!(with(BigNum::from_u32(65537).unwrap()).is_ok());
        let mut long = key.n().to_owned().unwrap();
        long.sub_word(2).unwrap();
        assert!(matches!(with(long), Err(GsiError::KeyKind)));
    }
}
