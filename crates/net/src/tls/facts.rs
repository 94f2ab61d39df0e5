//! What is known of an encrypted connection.

use super::session::TlsSession;
use super::verdict::Objection;
use super::{DistrustReason, TlsError, TrustAnchors};
use openssl::x509::X509;

/// What a handshake has brought out.
#[derive(Clone, Debug)]
pub struct TlsFacts {
    /// Version of the protocol, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// Whether keys of an earlier session were used again.
    pub is_resumed: bool,
    /// Who the peer has proven to be.
    pub peer: PeerCertificate,
}

/// Who a peer has proven to be.
#[derive(Clone, Debug)]
pub enum PeerCertificate {
    /// Nobody: it gave no certificate.
    None,
    /// The owner of the first certificate, which the others lead to a trusted CA. Proxies come before the certificate they
    /// were made from.
    Verified(Vec<X509>),
    /// Nobody: its certificate is refused, for this reason.
    Refused(String),
    /// The session was resumed: its certificate was accepted earlier, and the rest of its chain is not known any more.
    Resumed(Box<X509>),
}

impl TlsFacts {
    /// What is known of a connection whose handshake is done.
    pub(super) fn of(session: &TlsSession, trust: Option<&TrustAnchors>) -> Self {
        let ssl = session.ssl();
        let cipher = ssl.current_cipher().map_or("none", openssl::ssl::SslCipherRef::name);
        let (version, is_resumed) = (ssl.version_str(), ssl.session_reused());
        Self { version, cipher, is_resumed, peer: PeerCertificate::of(session, trust) }
    }
}

impl PeerCertificate {
    fn of(session: &TlsSession, trust: Option<&TrustAnchors>) -> Self {
        let ssl = session.ssl();
        let (Some(leaf), Some(trust)) = (ssl.peer_certificate(), trust) else { return Self::None };
        if let Some(objection) = Objection::of(ssl) {
            return match objection.to_error(trust, "") {
                TlsError::Distrusted { subject, reason } => Self::Refused(format!("{subject}: {}", told(&reason))),
                error => Self::Refused(error.to_string()),
            };
        }
        if ssl.session_reused() {
            // A ticket keeps OpenSSL's verdict on the certificate, but not our objections to it.
            return match ssl.verify_result().as_raw() {
                0 => Self::Resumed(Box::new(leaf)),
                _ => Self::Refused(ssl.verify_result().error_string().to_owned()),
            };
        }
        let mut chain = vec![leaf];
        let sent = ssl.peer_cert_chain().into_iter().flatten().map(ToOwned::to_owned);
        // A server's chain begins with its certificate, a client's behind it.
        chain.extend(sent.filter(|certificate| chain.first() != Some(certificate)).collect::<Vec<_>>());
        Self::Verified(chain)
    }
}

/// The reason as the peer may know it: without names of our files.
fn told(reason: &DistrustReason) -> String {
    match reason {
        DistrustReason::UnknownCa { .. } => "no certification authority that is trusted here has issued it".to_owned(),
        DistrustReason::NoRevocationList { .. } => "its authority has no current revocation list here".to_owned(),
        reason => reason.to_string(),
    }
}
