//! Delegation: tokens and proxies of clients, used towards origins in their name.

use crate::{Gate, OriginCredentials};
use forebay_auth::{Credentials, Token, x509::Credential};
use std::sync::Arc;

impl Gate {
    /// Lets clients delegate the credentials that `origins` may use in their name.
    #[must_use]
    pub fn delegating_to(mut self, origins: Arc<OriginCredentials>) -> Self {
        self.origins = origins;
        self
    }

    /// Whether credentials of clients are used towards origins.
    #[must_use]
    pub fn uses_client_credentials(&self) -> bool {
        self.origins.use_those_of_clients()
    }

    /// Credentials for origins of a client with a token.
    #[must_use]
    pub fn credentials_of_bearer(&self, token: Token) -> Option<Arc<Credentials>> {
        self.origins.of_client(None, Some(token))
    }

    /// Credentials for origins of a client that delegated a proxy.
    pub(crate) fn credentials_of_delegate(&self, proxy: Option<Credential>) -> Option<Arc<Credentials>> {
        self.origins.of_client(Some(Arc::new(proxy?)), None)
    }
}
