//! What the user of a single command has.

use super::sources::{read_token, token_is_there, users_proxy};
use crate::{authorities::Authorities, files::read_secret, watched::LoadError};
use forebay_auth::{
    CredentialSource, CredentialUse, Credentials,
    gsi::GsiClientSettings,
    x509::{Credential, TrustRules},
};
use forebay_types::Endpoint;
use std::{path::Path, sync::Arc};

/// What the user of a single command has, where grid tools look for it: a proxy, a token, or a name only. Shown to every server.
#[derive(Debug)]
pub struct UserCredentials(Arc<Credentials>);

impl UserCredentials {
    /// Looks for what there is; servers are known by the authorities in `ca_dir`. Blocks on the disk.
    ///
    /// # Errors
    /// When a proxy or token is there and cannot be used.
    pub fn find(user: &str, ca_dir: &Path, allows_weak_groups: bool) -> Result<Self, LoadError> {
        let mut credentials = Credentials::of_nobody(user);
        let proxy = users_proxy();
        if proxy.exists() && ca_dir.is_dir() {
            let pem = read_secret(&proxy, false)?;
            let credential = Credential::from_pem(&pem, &pem);
            let credential = Arc::new(credential.map_err(|error| format!("{}: {error}", proxy.display()))?);
            let anchors = Authorities::read(ca_dir)?.anchors;
            let settings = GsiClientSettings::new(credential, anchors, TrustRules::default());
            credentials = credentials.with_certificate(Arc::new(settings.allow_weak_groups(allows_weak_groups)))?;
        }
        if token_is_there() {
            credentials = credentials.with_token(read_token(None)?);
        }
        Ok(Self(Arc::new(credentials)))
    }
}

impl CredentialSource for UserCredentials {
    fn towards(&self, _server: &Endpoint) -> CredentialUse {
        CredentialUse::Own(Arc::clone(&self.0))
    }
}
