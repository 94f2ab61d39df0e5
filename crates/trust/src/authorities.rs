//! The certification authorities of a site: a directory in the layout of the grid.
//!
//! `HASH.N` and `*.pem` are certificates, `HASH.rN` revocation lists, `*.signing_policy` whom an authority may certify.

use crate::{
    files::{list, read},
    watched::{LoadError, Watched},
};
use forebay_auth::x509::TrustAnchors;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is in a directory of authorities.
#[derive(Debug)]
pub struct Authorities {
    /// What chains are verified with.
    pub anchors: Arc<TrustAnchors>,
    /// Files that could not be used, and why. They count for nothing.
    pub faults: Vec<Fault>,
}

/// A file that could not be used.
#[derive(Debug)]
pub struct Fault {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What a file in the directory is, by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Certificate,
    Crl,
    SigningPolicy,
    Other,
}

/// Why a directory of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} holds no certificate of an authority: it should hold HASH.0, HASH.r0 and *.signing_policy", path.display())]
struct Empty {
    path: PathBuf,
}

impl Authorities {
    /// Reads the directory at `path`. A file that cannot be used is told in the log and left out.
    ///
    /// # Errors
    /// When it cannot be listed, or holds no authority.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let mut anchors = TrustAnchors::new();
        let faults: Vec<_> = list(path)?.into_iter().filter_map(|file| add(&mut anchors, file)).collect();
        for Fault { path, reason } in &faults {
            tracing::warn!(file = %path.display(), reason, "a file of a certification authority cannot be used");
        }
        if anchors.authorities().next().is_none() {
            return Err(Empty { path: path.to_owned() }.into());
        }
        Ok(Self { anchors: Arc::new(anchors), faults })
    }

    /// Reads the directory at `path` and again when it changes.
    ///
    /// # Errors
    /// As for [`Authorities::read`].
    pub fn watch(path: &Path) -> Result<Watched<Self>, LoadError> {
        let directory = path.to_owned();
        Watched::read(vec![path.to_owned()], move |_| Self::read(&directory))
    }
}

/// Adds what is in the file at `path`, if it is of a kind that counts; what is wrong with it otherwise.
fn add(anchors: &mut TrustAnchors, path: PathBuf) -> Option<Fault> {
    let kind = kind_of(&path);
    if kind == Kind::Other {
        return None;
    }
    let used = read(&path).map_err(|error| error.to_string()).and_then(|bytes| match kind {
        Kind::Certificate => anchors.add_authorities(&bytes).map(drop).map_err(|error| error.to_string()),
        Kind::Crl => anchors.add_crl(&bytes).map_err(|error| error.to_string()),
        Kind::SigningPolicy => anchors.add_signing_policy(&bytes).map_err(|error| error.to_string()),
        Kind::Other => Ok(()),
    });
    used.err().map(|reason| Fault { path, reason })
}

fn kind_of(path: &Path) -> Kind {
    let Some(extension) = path.extension().and_then(|extension| extension.to_str()) else { return Kind::Other };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match extension {
        "pem" => Kind::Certificate,
        "signing_policy" => Kind::SigningPolicy,
        _ if is_number(extension) => Kind::Certificate,
        _ if extension.strip_prefix('r').is_some_and(is_number) => Kind::Crl,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_tell_what_files_are() {
        for (name, kind) in [
            ("5168735f.0", Kind::Certificate),
            ("5168735f.12", Kind::Certificate),
            ("CERN-Root-2.pem", Kind::Certificate),
            ("5168735f.r0", Kind::Crl),
            ("5168735f.signing_policy", Kind::SigningPolicy),
            ("5168735f.namespaces", Kind::Other),
            ("CERN-Root-2.info", Kind::Other),
            ("5168735f.r", Kind::Other),
            ("policy-igtf-mics", Kind::Other),
        ] {
            assert_eq!(kind_of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn a_directory_without_an_authority_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("aaaaaaaa.0"), "no certificate").unwrap();
        let error = Authorities::read(directory.path()).unwrap_err();
        assert!(error.to_string().contains("holds no certificate of an authority"), "{error}");
        assert!(Authorities::read(Path::new("/no/such/directory")).is_err());
    }
}
