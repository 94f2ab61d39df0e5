//! Whose word counts for servers of the web: the CAs of the operating system, or those of a file.

use super::{
    TlsError,
    credential::{chain_of, read},
};
use openssl::x509::store::{X509Store, X509StoreBuilder};
use std::path::{Path, PathBuf};

/// The CAs that certificates of the web's servers must lead to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum WebAnchors {
    /// Those that the operating system trusts.
    #[default]
    System,
    /// Those of a PEM file.
    File(PathBuf),
}

impl WebAnchors {
    /// The file whose change counts.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::System => None,
            Self::File(path) => Some(path),
        }
    }

    /// Where the CAs are, for messages.
    pub(super) fn place(&self) -> &Path {
        self.path().unwrap_or_else(|| Path::new("the operating system's list"))
    }

    /// The CAs of a file.
    pub(super) fn store(file: &Path) -> Result<X509Store, TlsError> {
        let authorities = chain_of(file, &read(file)?)?;
        if authorities.is_empty() {
            let reason = "holds no certificate in PEM form".to_owned();
            return Err(TlsError::File { path: file.to_owned(), reason });
        }
        let mut builder = X509StoreBuilder::new()?;
        for authority in authorities {
            builder.add_cert(authority)?;
        }
        Ok(builder.build())
    }
}
