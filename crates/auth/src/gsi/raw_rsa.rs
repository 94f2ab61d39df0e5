//! The signatures of GSI: RSA with padding of PKCS #1 type 1 over the bytes themselves, without a digest.
//!
//! Long texts are signed in pieces. Such a signature over bytes that a peer chooses could be one over a digest of something
//! else; what is signed for a peer is therefore kept shorter than any digest with its name in front.

use crate::gsi::error::GsiError;
use crate::x509::{Certificate, RSA_BITS_MAX};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKeyRef, Private, Public};
use openssl::rsa::{Padding, Rsa, RsaRef};

/// Longest signed text that is recovered, bytes.
const RECOVERED_LEN_MAX: usize = 16 << 10;

/// Shortest RSA key of a peer, bits.
const RSA_BITS_MIN: u32 = 1024;

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
    Ok(key.rsa()?)
}

fn block_len(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(recover(&public(&key), &signature.repeat(129)), None);
        signature[5] ^= 1;
        assert_eq!(recover(&public(&key), &signature), None);
    }
}
