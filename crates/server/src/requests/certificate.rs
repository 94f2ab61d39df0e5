//! Identities of clients by the certificates of their TLS handshakes.

use crate::requests::context::{ConnectionContext, Role};
use forebay_auth::{SecurityProtocol, UnixTime, x509::Chain};
use forebay_net::PeerCertificate;
use forebay_trust::{ClientFacts, Proof, Refusal};
use std::sync::Arc;

impl ConnectionContext {
    /// Checks the certificate that the client has just shown, if certificates count. An earlier login stays as it is.
    pub(crate) async fn read_certificate(&mut self) {
        let (Role::New(_), true) = (&self.role, self.state.front.gate.takes_certificates()) else { return };
        let refused = |reason: String| Refusal { protocol: SecurityProtocol::Tls, reason };
        let certified = match self.stream.tls().map(|facts| &facts.peer) {
            Some(PeerCertificate::Verified(chain)) => match Chain::from_x509(chain.clone()) {
                Ok(chain) => self.certify(chain).await,
                Err(error) => Some(Err(refused(error.to_string()))),
            },
            Some(PeerCertificate::Refused(reason)) => Some(Err(refused(reason.clone()))),
            // A resumed session has no chain.
            Some(PeerCertificate::None | PeerCertificate::Resumed(_)) | None => None,
        };
        if let Some(Err(refusal)) = &certified {
            tracing::debug!(peer = %self.peer, reason = refusal.reason, "the certificate of a client is not accepted");
        }
        self.certified = certified.map(Box::new);
    }

    async fn certify(&self, chain: Chain) -> Option<Result<Proof, Refusal>> {
        let gate = Arc::clone(&self.state.front.gate);
        let client = ClientFacts { address: self.peer, login: String::new(), is_tls: true };
        let now = UnixTime(forebay_net::clock::now_unix());
        // Checking a chain takes milliseconds of computation.
        let examined = tokio::task::spawn_blocking(move || gate.certified(&chain, &client, now)).await;
        examined.unwrap_or_else(|error| {
            tracing::error!(%error, "an internal error ended the check of a certificate");
            None
        })
    }
}
