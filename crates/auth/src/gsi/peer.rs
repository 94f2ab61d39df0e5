//! The peer whose handshake is done.

use crate::gsi::error::GsiError;
use crate::x509::{Certificate, Chain, Credential, RSA_BITS_MAX};
use crate::{Fqan, Identity, Method, SessionKey};
use openssl::pkey::{Id, Public};
use openssl::rsa::Rsa;

/// Shortest RSA key of a peer, bits.
const RSA_BITS_MIN: u32 = 1024;

/// A client that has proved who it is.
#[derive(Debug)]
pub struct GsiPeer {
    pub chain: Chain,
    /// The key that both sides share, for signed requests.
    pub session_key: SessionKey,
    /// A proxy of the client with a key of ours, or why it gave none; `None` if it was not asked for one.
    pub delegated: Option<Result<Credential, String>>,
}

impl GsiPeer {
    /// The identity of the client: the end entity, not the proxy.
    #[must_use]
    pub fn identity(&self, host: &str, attributes: Vec<Fqan>) -> Identity {
        self.chain.identity(Method::Gsi, host, attributes)
    }
}

/// The RSA key of a certificate.
pub(crate) fn rsa_of(certificate: &Certificate) -> Result<Rsa<Public>, GsiError> {
    let key = certificate.public_key()?;
    usual_rsa(&key)
}

/// The RSA key, if it is one of a length that is worked with.
pub(crate) fn usual_rsa(key: &openssl::pkey::PKeyRef<Public>) -> Result<Rsa<Public>, GsiError> {
    if key.id() != Id::RSA || !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&key.bits()) {
        return Err(GsiError::KeyKind);
    }
    Ok(key.rsa()?)
}
