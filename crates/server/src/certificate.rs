//! Who clients are by the certificates of their TLS handshakes.

use crate::exchange::{Exchange, Role};
use forebay_auth::{SecurityProtocol, UnixTime, x509::Chain};
use forebay_net::PeerCertificate;
use forebay_trust::{ClientFacts, Proof, Refusal};
use std::sync::Arc;

/// What a certificate proves, or why it proves nothing.
pub(crate) type Certified = Box<Result<Proof, Refusal>>;

impl Exchange {
    /// Finds out who the client is by the certificate that it has just shown, where that counts. A login that is done stays as it is.
    pub(crate) async fn read_certificate(&mut self) {
        let (Role::New(_), true) = (&self.role, self.shared.front.gate.takes_certificates()) else { return };
        let refused = |reason: String| Refusal { protocol: SecurityProtocol::Tls, reason };
        let certified = match self.stream.tls().map(|facts| &facts.peer) {
            Some(PeerCertificate::Verified(chain)) => match Chain::from_x509(chain.clone()) {
                Ok(chain) => self.certify(chain).await,
                Err(error) => Some(Err(refused(error.to_string()))),
            },
            Some(PeerCertificate::Refused(reason)) => Some(Err(refused(reason.clone()))),
            // Of a resumed session the chain is not known any more.
            Some(PeerCertificate::None | PeerCertificate::Resumed(_)) | None => None,
        };
        if let Some(Err(refusal)) = &certified {
            tracing::debug!(peer = %self.peer, reason = refusal.reason, "the certificate of a client is not believed");
        }
        self.certified = certified.map(Box::new);
    }

    async fn certify(&self, chain: Chain) -> Option<Result<Proof, Refusal>> {
        let gate = Arc::clone(&self.shared.front.gate);
        let client = ClientFacts { address: self.peer, login: String::new(), is_tls: true };
        let now = UnixTime(forebay_net::clock::now_unix());
        let examined = tokio::task::spawn_blocking(move || gate.certified(&chain, &client, now)).await;
        examined.unwrap_or_else(|error| {
            tracing::error!(%error, "a fault of our own while a certificate was looked at");
            None
        })
    }
}
