//! Why a handshake failed.

use crate::SessionKeyError;
use crate::gsi::buffer::BufferError;
use crate::gsi::exchange::ExchangeError;
use crate::x509::{ChainError, HostError, TrustError};
use forebay_types::Side;
use openssl::error::ErrorStack;

/// Why a handshake failed. The text is for the log, and good enough for the peer: it holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum GsiError {
    /// A message cannot be read.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// A message is not the one whose turn it is.
    #[error("step {found} of GSI where {expected} is next")]
    Step {
        /// The step whose turn it is; 0 when the handshake is over.
        expected: u32,
        /// The step that came.
        found: u32,
    },
    /// A message lacks something, or has it in a form that is not understood.
    #[error("a GSI message without {0}, or with one that cannot be read")]
    Missing(&'static str),
    /// The server's list of protocols does not say what is needed.
    #[error("the server offers gsi with {0:?}, which is not understood")]
    Offer(String),
    /// The peer speaks a version that is too old.
    #[error("version {version} of GSI, which is older than what is accepted")]
    Version {
        /// The version.
        version: u32,
    },
    /// A key value that was used before: of a recorded login, perhaps.
    #[error("the client's key value was used before")]
    Repeated,
    /// What the client has sealed is not readable.
    #[error("the client's sealed message cannot be read")]
    Sealed,
    /// None of the peer's ciphers is one of ours.
    #[error("no cipher in common: {0:?}, ours are aes-128-cbc and aes-256-cbc")]
    Cipher(String),
    /// The exchange of keys failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The peer has not signed the tag that we sent: it has not the key of its certificate.
    #[error("the peer did not prove that it has the key of its certificate")]
    Tag,
    /// The key that the exchange was signed with is not that of the certificate.
    #[error("the exchange of keys was not signed with the key of the certificate")]
    OtherKey,
    /// The exchange of keys carries no good signature.
    #[error("the exchange of keys is not signed, or with another key")]
    Signature,
    /// The peer's key is no RSA key of a usual length.
    #[error("the peer's key is not RSA of 1024 to 8192 bits, which GSI needs")]
    KeyKind,
    /// The peer's certificates are no chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The peer's certificates are not trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The server shows a proxy instead of its certificate.
    #[error("the server shows a proxy instead of its own certificate: {subject}")]
    ServerProxy {
        /// Whose proxy it is.
        subject: String,
    },
    /// The server's certificate is that of another host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A message cannot be decrypted, or ours not be encrypted.
    #[error(transparent)]
    SessionKey(#[from] SessionKeyError),
    /// The handshake takes longer than five minutes.
    #[error("the handshake took longer than {} s", crate::gsi::HANDSHAKE_S_MAX)]
    TooSlow,
    /// The server ended the handshake before both sides had proved themselves.
    #[error("the server ended the handshake early")]
    Early,
    /// The crypto library failed.
    #[error("the crypto library failed in the handshake")]
    Library(#[from] ErrorStack),
}

impl GsiError {
    /// Whose side it is on, where `peer` is the side of the peer.
    #[must_use]
    pub const fn side(&self, peer: Side) -> Side {
        match self {
            Self::Library(_)
            | Self::Exchange(ExchangeError::Library(_))
            | Self::Trust(TrustError::Library(_))
            | Self::SessionKey(SessionKeyError::Library(_) | SessionKeyError::SecretTooShort { .. }) => Side::Internal,
            Self::Buffer(_)
            | Self::Step { .. }
            | Self::Missing(_)
            | Self::Offer(_)
            | Self::Version { .. }
            | Self::Cipher(_)
            | Self::Exchange(_)
            | Self::Tag
            | Self::OtherKey
            | Self::Signature
            | Self::KeyKind
            | Self::Chain(_)
            | Self::Trust(_)
            | Self::ServerProxy { .. }
            | Self::Host(_)
            | Self::SessionKey(_)
            | Self::TooSlow
            | Self::Repeated
            | Self::Sealed
            | Self::Early => peer,
        }
    }

    /// Whether the same handshake may succeed a moment later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::TooSlow | Self::Library(_))
    }
}
