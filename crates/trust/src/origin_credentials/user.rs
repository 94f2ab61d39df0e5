//! The credentials of the user of a single command.

use super::sources::{access_key_is_there, read_access_key, read_token, token_is_there, users_proxy};
use crate::{authorities::Authorities, files::read_secret, reloading_file::LoadError};
use forebay_auth::{
    CredentialSource, CredentialUse, Credentials,
    gsi::GsiClientSettings,
    x509::{Credential, TrustRules},
};
use forebay_types::OriginId;
use std::{path::Path, sync::Arc};

/// The credentials of the user of a single command: a proxy or token in the usual places of grid tools, or a name only. Used
/// for every server.
#[derive(Debug)]
pub struct UserCredentials(Arc<Credentials>);

impl UserCredentials {
    /// Finds the credentials; servers are verified with the CAs in `ca_dir`. Blocks on the disk.
    ///
    /// # Errors
    /// If a proxy or token exists but cannot be used.
    pub fn find(user: &str, ca_dir: &Path, allows_weak_groups: bool) -> Result<Self, LoadError> {
        let mut credentials = Credentials::anonymous(user);
        let proxy = users_proxy();
        if proxy.exists() && ca_dir.is_dir() {
            let pem = read_secret(&proxy, false)?;
            let credential = Credential::from_pem(&pem, &pem);
            let credential = Arc::new(credential.map_err(|error| format!("{}: {error}", proxy.display()))?);
            let anchors = Authorities::read(ca_dir)?.anchors;
            let settings = GsiClientSettings::new(credential, anchors, TrustRules::default());
            let settings = GsiClientSettings { allow_weak_groups: allows_weak_groups, ..settings };
            credentials = credentials.with_certificate(Arc::new(settings))?;
        }
        if token_is_there() {
            credentials = credentials.with_token(read_token(None)?);
        }
        Ok(Self(Arc::new(credentials)))
    }

    /// Finds the access key for S3 servers, in the places where clients of S3 have it. Blocks on the disk.
    ///
    /// # Errors
    /// If a file of access keys exists but cannot be used.
    pub fn find_access_key(user: &str) -> Result<Self, LoadError> {
        let credentials = Credentials::anonymous(user);
        let is_there = access_key_is_there();
        Ok(Self(Arc::new(if is_there {
            credentials.with_access_key(read_access_key(None, None, None)?)
        } else {
            credentials
        })))
    }
}

impl CredentialSource for UserCredentials {
    fn towards(&self, _server: &OriginId) -> CredentialUse {
        CredentialUse::Own(Arc::clone(&self.0))
    }
}
