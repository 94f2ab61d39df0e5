//! Facts about an encrypted connection.

use super::acceptor::HTTP2;
use super::session::TlsSession;
use super::verdict::Objection;
use super::{DistrustReason, TlsError, TrustAnchors};
use openssl::x509::X509;

/// Facts established by a handshake.
#[derive(Clone, Debug)]
pub struct TlsFacts {
    /// Version of the protocol, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// Whether both sides have agreed on HTTP/2.
    pub is_http2: bool,
    pub peer: PeerCertificate,
}

/// The verified identity of a peer.
#[derive(Clone, Debug)]
pub enum PeerCertificate {
    /// It sent no certificate.
    None,
    /// The owner of the first certificate; the others lead to a trusted CA. Proxies precede the certificate they were created
    /// from. The chain of a resumed session was verified when the session began: it may have expired since.
    Verified(Vec<X509>),
    /// Its certificate was rejected, for this reason.
    Refused(String),
    /// The session was resumed: its certificate was accepted earlier; the rest of its chain was forgotten.
    Resumed(Box<X509>),
}

impl TlsFacts {
    /// The facts of a connection after its handshake.
    pub(super) fn of(session: &TlsSession, trust: Option<&TrustAnchors>) -> Self {
        let ssl = session.ssl();
        let cipher = ssl.current_cipher().map_or("none", openssl::ssl::SslCipherRef::name);
        let (version, is_resumed) = (ssl.version_str(), ssl.session_reused());
        let is_http2 = ssl.selected_alpn_protocol() == Some(HTTP2);
        Self { version, cipher, is_resumed, is_http2, peer: PeerCertificate::of(session, trust) }
    }
}

impl PeerCertificate {
    fn of(session: &TlsSession, trust: Option<&TrustAnchors>) -> Self {
        let ssl = session.ssl();
        let (Some(leaf), Some(trust)) = (ssl.peer_certificate(), trust) else { return Self::None };
        if let Some(objection) = Objection::of(ssl) {
            return match objection.to_error(trust, "") {
                TlsError::Distrusted { subject, reason } => Self::Refused(format!("{subject}: {}", for_peer(&reason))),
                error => Self::Refused(error.to_string()),
            };
        }
        if ssl.session_reused() {
            // A ticket stores OpenSSL's verdict on the certificate, but not the objections found here.
            return match ssl.verify_result().as_raw() {
                0 => Self::Resumed(Box::new(leaf)),
                _ => Self::Refused(ssl.verify_result().error_string().to_owned()),
            };
        }
        let mut chain = vec![leaf];
        let sent = ssl.peer_cert_chain().into_iter().flatten().map(ToOwned::to_owned);
        // The chain of a server includes its certificate, that of a client does not.
        chain.extend(sent.filter(|certificate| chain.first() != Some(certificate)).collect::<Vec<_>>());
        Self::Verified(chain)
    }
}

/// The reason in the form sent to the peer: without names of local files.
fn for_peer(reason: &DistrustReason) -> String {
    match reason {
        DistrustReason::UnknownCa { .. } => "no trusted certification authority has issued it".to_owned(),
        DistrustReason::NoRevocationList { .. } => {
            "the server has no current revocation list of its authority".to_owned()
        }
        reason => reason.to_string(),
    }
}
