//! Why a handshake failed.

use crate::SessionKeyError;
use crate::gsi::buffer::BufferError;
use crate::gsi::exchange::ExchangeError;
use crate::x509::{ChainError, HostError, TrustError};
use openssl::error::ErrorStack;

/// Why a handshake failed. The text is for the log, and good enough for the peer: it holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum GsiError {
    #[error(transparent)]
    Buffer(#[from] BufferError),
    #[error("step {found} of GSI where {expected} is next")]
    Step { expected: u32, found: u32 },
    #[error("a GSI message without {0}, or with one that cannot be read")]
    Missing(&'static str),
    #[error("the server offers gsi with {0:?}, which is not understood")]
    Offer(String),
    #[error("version {version} of GSI, which is older than what is accepted")]
    Version { version: u32 },
    #[error("the client's key value was used before")]
    Repeated,
    #[error("the client's sealed message cannot be read")]
    Sealed,
    #[error("no cipher in common: {0:?}, ours are aes-128-cbc and aes-256-cbc")]
    Cipher(String),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("the peer did not prove that it has the key of its certificate")]
    Tag,
    #[error("the exchange of keys was not signed with the key of the certificate")]
    OtherKey,
    #[error("the exchange of keys is not signed, or with another key")]
    Signature,
    #[error("the peer's key is not RSA of 1024 to 8192 bits, which GSI needs")]
    KeyKind,
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("the server sent a proxy instead of its own certificate: {subject}")]
    ServerProxy { subject: String },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    SessionKey(#[from] SessionKeyError),
    #[error("the handshake took longer than {} s", crate::gsi::HANDSHAKE_S_MAX)]
    TooSlow,
    #[error("the server ended the handshake early")]
    Early,
    #[error("the crypto library failed in the handshake")]
    Library(#[from] ErrorStack),
}
