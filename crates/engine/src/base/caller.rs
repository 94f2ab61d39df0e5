//! The client that a request is made for.

use forebay_auth::{Credentials, Identity};
use forebay_origin::DelegatedCredentials;
use forebay_telemetry::Client;
use std::sync::Arc;

/// The client that a request is made for: its identity, its names in rules and logs, and its credentials towards origins.
#[derive(Clone, Debug)]
pub struct Caller {
    pub identity: Identity,
    pub client: Client,
    pub delegation: Delegation,
}

/// In whose name origins are asked.
#[derive(Clone, Debug, Default)]
pub enum Delegation {
    /// In the server's own name. Its requests need no authorization by an origin.
    #[default]
    Operator,
    /// In the name of a client, with the credentials that it has delegated, if any.
    Client(Option<Arc<Credentials>>),
}

impl Caller {
    /// A request of the server itself, under the name that the access log shows.
    pub fn operator(user: &str) -> Arc<Self> {
        // The server acts on its own machine.
        let client = Client { user: user.to_owned(), host: "localhost".to_owned(), ..Client::default() };
        Arc::new(Self { identity: Identity::anonymous(&client.host), client, delegation: Delegation::Operator })
    }
}

impl Delegation {
    /// The credentials that origins are shown, in a cell of their own: a file's renewed credentials must not become those of
    /// another file.
    pub(crate) fn credentials(&self) -> DelegatedCredentials {
        DelegatedCredentials::of(match self {
            Self::Client(credentials) => credentials.clone(),
            Self::Operator => None,
        })
    }
}
