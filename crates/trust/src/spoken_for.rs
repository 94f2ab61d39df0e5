//! What clients hand to us so that we speak for them at origins: tokens, and proxies that they delegate.

use crate::{Gate, OriginCredentials};
use forebay_auth::{Credentials, Token, x509::Credential};
use std::sync::Arc;

impl Gate {
    /// The same gate, where clients hand over what `origins` are to be shown in their name.
    #[must_use]
    pub fn speaking_at(mut self, origins: Arc<OriginCredentials>) -> Self {
        self.origins = origins;
        self
    }

    /// Whether what clients have to show is of use towards origins.
    #[must_use]
    pub fn speaks_for_clients(&self) -> bool {
        self.origins.use_those_of_clients()
    }

    /// What origins are shown for a client that has brought a token.
    #[must_use]
    pub fn credentials_of_bearer(&self, token: Token) -> Option<Arc<Credentials>> {
        self.origins.of_client(None, Some(token))
    }

    /// What origins are shown for a client that has delegated a proxy.
    pub(crate) fn credentials_of_delegate(&self, proxy: Option<Credential>) -> Option<Arc<Credentials>> {
        self.origins.of_client(Some(Arc::new(proxy?)), None)
    }
}
