//! The key that both sides of a handshake share.

use forebay_types::named_enum;
use openssl::error::ErrorStack;
use openssl::rand::rand_bytes;
use openssl::symm::{self, Cipher};
use std::fmt;
use zeroize::Zeroizing;

/// Longest text that is encrypted or decrypted, bytes: that of a message of a handshake, and some room.
pub const SEALED_LEN_MAX: usize = 128 << 10;

named_enum! {
    /// The ciphers that a key may be for, under their names on the wire; the one that all peers know first.
    pub enum SessionCipher {
        /// AES with a key of 16 bytes in CBC mode with PKCS#7 padding.
        Aes128Cbc = "aes-128-cbc",
        /// AES with a key of 32 bytes in CBC mode with PKCS#7 padding.
        Aes256Cbc = "aes-256-cbc",
    }
}

/// Length of the initialisation vector in bytes, of both ciphers.
pub(crate) const VECTOR_LEN: usize = 16;

impl SessionCipher {
    /// Length of the key in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Cbc => 16,
            Self::Aes256Cbc => 32,
        }
    }

    fn openssl(self) -> Cipher {
        match self {
            Self::Aes128Cbc => Cipher::aes_128_cbc(),
            Self::Aes256Cbc => Cipher::aes_256_cbc(),
        }
    }
}

/// Where the initialisation vector comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InitVector {
    /// Random for each text, and sent before it.
    Sent,
    /// It is all zeros, and is not sent: as peers before version 10400 want it.
    Zero,
}

/// A symmetric key agreed on in a handshake: it seals the rest of the handshake, and later signs requests.
///
/// Cleared from memory when it is dropped; not part of `Debug`.
#[derive(Clone)]
pub struct SessionKey {
    pub cipher: SessionCipher,
    /// Where initialisation vectors come from.
    pub init_vector: InitVector,
    key: Zeroizing<Vec<u8>>,
}

/// Why a key could not be made, or a text not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionKeyError {
    #[error("a shared secret of {secret_len} bytes is too short for a key of {key_len}")]
    SecretTooShort { secret_len: usize, key_len: usize },
    #[error("a text of {len} bytes is more than {SEALED_LEN_MAX}")]
    TooLong { len: usize },
    #[error("the text was not sealed with the key of this session")]
    NotOurs,
    #[error("the crypto library failed to seal")]
    Library(#[from] ErrorStack),
}

impl SessionKey {
    /// Takes the first bytes of `secret` as the key, as all peers do.
    ///
    /// # Errors
    /// When the secret is too short.
    pub fn new(cipher: SessionCipher, secret: &[u8], init_vector: InitVector) -> Result<Self, SessionKeyError> {
        let key_len = cipher.key_len();
        let error = SessionKeyError::SecretTooShort { secret_len: secret.len(), key_len };
        let key = secret.get(..key_len).ok_or(error)?;
        Ok(Self { cipher, key: Zeroizing::new(key.to_vec()), init_vector })
    }

    /// Encrypts `text`; with [`InitVector::Sent`] a random vector stands before the result.
    ///
    /// # Errors
    /// When the text is too long, or the crypto library fails.
    pub fn seal(&self, text: &[u8]) -> Result<Vec<u8>, SessionKeyError> {
        if text.len() > SEALED_LEN_MAX {
            return Err(SessionKeyError::TooLong { len: text.len() });
        }
        let mut vector = [0; VECTOR_LEN];
        if self.init_vector == InitVector::Sent {
            rand_bytes(&mut vector)?;
        }
        let sealed = symm::encrypt(self.cipher.openssl(), &self.key, Some(&vector), text)?;
        match self.init_vector {
            InitVector::Sent => Ok([vector.as_slice(), &sealed].concat()),
            InitVector::Zero => Ok(sealed),
        }
    }

    /// Decrypts what [`SessionKey::seal`] of the peer has made. CBC proves nothing about who made it.
    ///
    /// # Errors
    /// When the text is too long, or was not sealed with this key.
    pub fn open(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SessionKeyError> {
        if sealed.len() > SEALED_LEN_MAX {
            return Err(SessionKeyError::TooLong { len: sealed.len() });
        }
        let zeros = [0; VECTOR_LEN];
        let (vector, text) = match self.init_vector {
            InitVector::Sent => sealed.split_at_checked(VECTOR_LEN).ok_or(SessionKeyError::NotOurs)?,
            InitVector::Zero => (zeros.as_slice(), sealed),
        };
        let text = symm::decrypt(self.cipher.openssl(), &self.key, Some(vector), text);
        text.map(Zeroizing::new).map_err(|_| SessionKeyError::NotOurs)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SessionKey({}, {:?})", self.cipher.as_str(), self.init_vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cipher: SessionCipher, init_vector: InitVector) -> SessionKey {
        SessionKey::new(cipher, &[7; 64], init_vector).unwrap()
    }

    #[test]
    fn what_is_sealed_is_opened_with_the_same_key_only() {
        for cipher in [SessionCipher::Aes128Cbc, SessionCipher::Aes256Cbc] {
            for vector in [InitVector::Sent, InitVector::Zero] {
                let sealed = key(cipher, vector).seal(b"a digest of thirty-two bytes....").unwrap();
                assert_eq!(sealed.len(), if vector == InitVector::Sent { 64 } else { 48 });
                assert_eq!(key(cipher, vector).open(&sealed).unwrap().as_slice(), b"a digest of thirty-two bytes....");
                let other = SessionKey::new(cipher, &[8; 64], vector).unwrap();
                assert!(!other.open(&sealed).is_ok_and(|text| text.as_slice() == b"a digest of thirty-two bytes...."));
            }
        }
    }

    #[test]
    fn secrets_and_texts_of_a_wrong_length_are_refused() {
        let short = SessionKey::new(SessionCipher::Aes128Cbc, &[0; 15], InitVector::Sent);
        assert!(matches!(short, Err(SessionKeyError::SecretTooShort { secret_len: 15, key_len: 16 })));
        let key = key(SessionCipher::Aes128Cbc, InitVector::Sent);
        assert_eq!(format!("{key:?}"), "SessionKey(aes-128-cbc, Sent)");
        assert_ne!(key.seal(b"same").unwrap(), key.seal(b"same").unwrap(), "each text has another vector");
        assert!(matches!(key.open(&[0; 15]), Err(SessionKeyError::NotOurs)));
        assert!(matches!(key.open(&[0; 16]), Err(SessionKeyError::NotOurs)));
        assert!(matches!(key.open(&[0; 33]), Err(SessionKeyError::NotOurs)));
        assert!(matches!(key.seal(&vec![0; SEALED_LEN_MAX + 1]), Err(SessionKeyError::TooLong { .. })));
        assert!(matches!(key.open(&vec![0; SEALED_LEN_MAX + 1]), Err(SessionKeyError::TooLong { .. })));
    }
}
