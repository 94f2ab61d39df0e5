//! Who the owner of a chain of certificates is: shared by the logins that show one.

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
    /// Whether certificates of TLS handshakes name clients, here at all.
    #[must_use]
    pub fn takes_certificates(&self) -> bool {
        self.grid.is_some() && self.options.methods.contains(&SecurityProtocol::Tls)
    }

    /// Who a client is that has shown `chain` in a TLS handshake and proven there that the leaf is its own, or why it is nobody.
    /// `None` when such clients are known by other means. May compute for milliseconds: not on a thread that must not wait.
    pub fn certified(&self, chain: &Chain, client: &ClientFacts, now: UnixTime) -> Option<Result<Proof, Refusal>> {
        let permitted = self.permitted(client);
        let is_permitted = matches!(&permitted, Permitted::Only(these) if these.contains(&SecurityProtocol::Tls));
        let grid = self.grid.as_ref().filter(|_| is_permitted)?;
        let trusted = grid.authorities().anchors.verify(chain, &self.options.trust, now);
        let owner = trusted.map_err(|error| Refusal::new(SecurityProtocol::Tls, error));
        let owner = owner.and_then(|()| self.owner(grid, chain, SecurityProtocol::Tls, client, now));
        Some(owner)
    }

    /// The owner of a chain that is trusted, with the attributes of organizations that it carries.
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
                Some(refusal) => format!("no attribute of an organization is good: {refusal}"),
                None => "the proxy carries no attributes of an organization: make it with voms-proxy-init".to_owned(),
            };
            return Err(Refusal::new(protocol, reason));
        }
        let method = if protocol == SecurityProtocol::Tls { Method::Tls } else { Method::Gsi };
        let mut identity = chain.identity(method, &client.address.ip().to_string(), found.names);
        // Attributes end on their own; what rests on them must not outlive them.
        if let Some(end) = found.valid_until.filter(|_| !identity.attributes.is_empty()) {
            let end = end.plus(1);
            identity.expires_at = Some(identity.expires_at.map_or(end, |proxy_end| proxy_end.min(end)));
        }
        let unbelieved = found.refusals.iter().map(ToString::to_string).collect();
        Ok(Proof { unbelieved, ..Proof::of(identity) })
    }

    fn attributes(&self, grid: &GridFiles, chain: &Chain, now: UnixTime) -> Attributes {
        if self.options.voms == VomsUse::Ignore {
            return Attributes::default();
        }
        let (authorities, organizations) = (grid.authorities(), grid.organizations.get());
        let site = VomsSite {
            dir: &organizations.dir,
            trust: &authorities.anchors,
            rules: &self.options.trust,
            host: &self.host,
        };
        attributes(chain, site, now)
    }
}
