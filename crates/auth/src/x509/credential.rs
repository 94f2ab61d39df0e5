//! A chain and the private key of its leaf.

use crate::UnixTime;
use crate::x509::certificate::RSA_BITS_MAX;
use crate::x509::chain::{Chain, ChainError};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Private};
use std::fmt;

/// Longest PEM text of a private key, bytes; a chain may stand before it.
const KEY_LEN_MAX: usize = 128 << 10;

/// Why files were refused as a credential.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("no private key that can be read; a key with a pass phrase cannot be used")]
    Key(#[source] Option<ErrorStack>),
    #[error("a private key that is not RSA of at most {RSA_BITS_MAX} bits")]
    KeyKind,
    #[error("the private key is not that of the certificate of {subject}")]
    Mismatch { subject: String },
    #[error("the crypto library failed with a credential")]
    Library(#[from] ErrorStack),
}

/// A chain with the RSA key of its leaf: a host's or a robot's certificate, or a proxy. The key is never logged, and the crypto
/// library clears it from memory.
#[derive(Clone)]
pub struct Credential {
    chain: Chain,
    key: PKey<Private>,
}

impl Credential {
    /// Reads certificates and the key from PEM text; of a proxy's file, both are the same text.
    ///
    /// # Errors
    /// When one of them cannot be read, or they do not belong together.
    pub fn from_pem(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, CredentialError> {
        if key_pem.len() > KEY_LEN_MAX {
            return Err(CredentialError::Key(None));
        }
        let chain = Chain::from_pem(chain_pem)?;
        // Without a callback the library would ask at the terminal.
        let key = PKey::private_key_from_pem_callback(key_pem, |_| Err(ErrorStack::get()));
        Self::new(chain, key.map_err(|error| CredentialError::Key(Some(error)))?)
    }

    /// Takes a chain and the key of its leaf.
    ///
    /// # Errors
    /// When the key is of the wrong kind, or that of another certificate.
    pub fn new(chain: Chain, key: PKey<Private>) -> Result<Self, CredentialError> {
        if key.id() != Id::RSA || key.bits() > RSA_BITS_MAX {
            return Err(CredentialError::KeyKind);
        }
        if !chain.leaf().public_key()?.public_eq(&key) {
            return Err(CredentialError::Mismatch { subject: chain.leaf().subject().to_owned() });
        }
        Ok(Self { chain, key })
    }

    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The private key of the leaf.
    /// The length of its key; `None` if that is not one of RSA.
    pub fn rsa_bits(&self) -> Option<u32> {
        if self.key.id() == openssl::pkey::Id::RSA { Some(self.key.bits()) } else { None }
    }

    pub const fn key(&self) -> &PKey<Private> {
        &self.key
    }

    /// Its expiry.
    pub fn valid_until(&self) -> UnixTime {
        self.chain.valid_until()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credential({:?}, key not shown)", self.chain.leaf())
    }
}
