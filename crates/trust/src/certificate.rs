//! The owner of a certificate chain, for all logins with certificates.

use crate::{
    attempt::{ClientFacts, Proof, Refusal},
    gate::{Gate, GridFiles},
    options::VomsUse,
};
use forebay_auth::{
    Method, Permitted, SecurityProtocol, UnixTime,
    voms::{Attributes, VomsSite, attributes},
    x509::Chain,
};

impl Gate {
    /// Whether certificates of TLS handshakes identify clients on this server.
    pub fn takes_certificates(&self) -> bool {
        self.grid.is_some() && self.options.methods.contains(&SecurityProtocol::Tls)
    }

    /// The identity of a client that presented `chain` in a TLS handshake and proved possession of its key, or why the chain is
    /// refused. `None` if this server does not identify clients by TLS. May compute for milliseconds: do not call it on a thread
    /// that must not block.
    pub fn certified(&self, chain: &Chain, client: &ClientFacts, now: UnixTime) -> Option<Result<Proof, Refusal>> {
        let permitted = self.permitted(client);
        let is_permitted = matches!(&permitted, Permitted::Only(these) if these.contains(&SecurityProtocol::Tls));
        let grid = self.grid.as_ref().filter(|_| is_permitted)?;
        let trusted = grid.authorities.get().anchors.verify(chain, &self.options.trust, now);
        let owner = trusted.map_err(|error| Refusal::new(SecurityProtocol::Tls, error));
        let owner = owner.and_then(|()| self.owner(grid, chain, SecurityProtocol::Tls, client, now));
        Some(owner)
    }

    /// The owner of a trusted chain, with its attributes of organizations.
    pub(crate) fn owner(
        &self,
        grid: &GridFiles,
        chain: &Chain,
        protocol: SecurityProtocol,
        client: &ClientFacts,
        now: UnixTime,
    ) -> Result<Proof, Refusal> {
        let found = self.attributes(grid, chain, now);
        if self.options.voms == VomsUse::Require && found.names.is_empty() {
            let reason = match found.refusals.first() {
                Some(refusal) => format!("no valid attribute of an organization: {refusal}"),
                None => "the proxy has no attributes of an organization: create it with voms-proxy-init".to_owned(),
            };
            return Err(Refusal::new(protocol, reason));
        }
        let method = if protocol == SecurityProtocol::Tls { Method::Tls } else { Method::Gsi };
        let attributes_end = found.expires_at();
        let mut identity = chain.identity(method, &client.address.ip().to_string(), found.names);
        // Attributes may expire before the certificate; the identity must not outlive them.
        if let Some(end) = attributes_end {
            identity.expires_at = Some(identity.expires_at.map_or(end, |proxy_end| proxy_end.min(end)));
        }
        let rejected_attributes = found.refusals.iter().map(ToString::to_string).collect();
        Ok(Proof { rejected_attributes, ..Proof::of(identity) })
    }

    fn attributes(&self, grid: &GridFiles, chain: &Chain, now: UnixTime) -> Attributes {
        if self.options.voms == VomsUse::Ignore {
            return Attributes::default();
        }
        let (authorities, organizations) = (grid.authorities.get(), grid.organizations.get());
        let site = VomsSite {
            dir: &organizations.dir,
            trust: &authorities.anchors,
            rules: &self.options.trust,
            host: &self.host,
        };
        attributes(chain, site, now)
    }
}
