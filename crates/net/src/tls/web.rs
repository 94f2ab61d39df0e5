//! Trust anchors for web servers: the CAs of the operating system, or of a file.

use super::{
    TlsError,
    credential::{chain_of, read},
};
use openssl::x509::store::{X509Store, X509StoreBuilder};
use std::path::{Path, PathBuf};

/// Trust anchors for web servers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum WebAnchors {
    /// The CAs of the operating system.
    #[default]
    System,
    /// The CAs of a PEM file.
    File(PathBuf),
}

impl WebAnchors {
    /// The file to check for changes.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::System => None,
            Self::File(path) => Some(path),
        }
    }

    /// Location of the CAs, for messages.
    pub(super) fn place(&self) -> &Path {
        self.path().unwrap_or_else(|| Path::new("the operating system's list"))
    }

    /// The CAs of a file.
    pub(super) fn store(file: &Path) -> Result<X509Store, TlsError> {
        let authorities = chain_of(file, &read(file)?)?;
        if authorities.is_empty() {
            let reason = "contains no PEM certificate".to_owned();
            return Err(TlsError::File { path: file.to_owned(), reason });
        }
        let mut builder = X509StoreBuilder::new()?;
        for authority in authorities {
            builder.add_cert(authority)?;
        }
        Ok(builder.build())
    }
}
