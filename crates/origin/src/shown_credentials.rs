//! Which credentials a server of an origin is shown.

use crate::DelegatedCredentials;
use forebay_auth::{CredentialSource, CredentialUse, Credentials};
use forebay_types::OriginId;
use std::{fmt, sync::Arc};

/// Selects the credentials for servers of origins; the same for every protocol.
pub struct ShownCredentials {
    source: Arc<dyn CredentialSource>,
    /// For a client without credentials.
    without_delegation: Arc<Credentials>,
    /// For servers that redirects lead to and the first server's credential is not for.
    without_proof: Arc<Credentials>,
}

impl ShownCredentials {
    /// The credentials of `source`, with `username` where none prove anything.
    #[must_use]
    pub fn new(source: Arc<dyn CredentialSource>, username: &str) -> Self {
        let without_delegation = Arc::new(Credentials::of_client());
        Self { source, without_delegation, without_proof: Arc::new(Credentials::anonymous(username)) }
    }

    /// A user name alone, for all servers.
    #[must_use]
    pub fn anonymous(username: &str) -> Self {
        Self::new(Arc::new(Anonymous(Arc::new(Credentials::anonymous(username)))), username)
    }

    /// The credentials that `server` is shown for a request under `delegation`.
    ///
    /// Any server may redirect to any other: those that are not among the servers `home` of the origin get a credential, ours or the
    /// client's, only if it is configured for them as for one of those.
    #[must_use]
    pub fn towards(&self, server: &OriginId, delegation: &DelegatedCredentials, home: &[OriginId]) -> Arc<Credentials> {
        let of_client = || delegation.credentials().unwrap_or_else(|| Arc::clone(&self.without_delegation));
        let used = self.source.towards(server);
        let is_home = home.contains(server);
        let is_shared = || home.iter().any(|server| is_same(&self.source.towards(server), &used));
        match used {
            CredentialUse::OfClient if is_home || is_shared() => of_client(),
            CredentialUse::OfClient => Arc::clone(&self.without_delegation),
            CredentialUse::Own(own) if own.prove_something() && !is_home && !is_shared() => {
                Arc::clone(if delegation.is_insisting() { &self.without_delegation } else { &self.without_proof })
            }
            CredentialUse::Own(own) if !delegation.is_insisting() => own,
            CredentialUse::Own(own) if is_home || own.prove_something() => of_client(),
            CredentialUse::Own(_) => Arc::clone(&self.without_delegation),
        }
    }

    /// Whether `server` is shown the credentials of clients.
    #[must_use]
    pub fn are_of_clients(&self, server: &OriginId) -> bool {
        matches!(self.source.towards(server), CredentialUse::OfClient)
    }
}

impl fmt::Debug for ShownCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownCredentials").finish_non_exhaustive()
    }
}

/// Whether both are one credential.
fn is_same(one: &CredentialUse, other: &CredentialUse) -> bool {
    match (one, other) {
        (CredentialUse::OfClient, CredentialUse::OfClient) => true,
        (CredentialUse::Own(one), CredentialUse::Own(other)) => one.name() == other.name(),
        _ => false,
    }
}

/// The same credentials for all servers: a user name, which proves nothing.
#[derive(Debug)]
struct Anonymous(Arc<Credentials>);

impl CredentialSource for Anonymous {
    fn towards(&self, _server: &OriginId) -> CredentialUse {
        CredentialUse::Own(Arc::clone(&self.0))
    }
}
