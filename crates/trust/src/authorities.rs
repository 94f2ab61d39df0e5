//! The certification authorities of a site: a directory in the usual layout of the grid.
//!
//! `HASH.N` and `*.pem` are certificates, `HASH.rN` revocation lists, `*.signing_policy` the names an authority may certify.

use crate::{
    files::{FileError, list, read},
    reloading_file::{LoadError, ReloadingFile},
};
use forebay_auth::x509::{RevocationList, SigningPolicy, TrustAnchors};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The content of a directory of authorities.
#[derive(Debug)]
pub struct Authorities {
    /// Trust anchors for the verification of chains.
    pub anchors: Arc<TrustAnchors>,
    /// Unusable files, with the reasons.
    pub faults: Vec<Fault>,
    /// Files that failed to be read for a reason that may pass without a change of the file.
    unread: usize,
}

/// An unusable file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    pub path: PathBuf,
    pub reason: String,
}

/// Type of a file in the directory, from its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Certificate,
    Crl,
    SigningPolicy,
    Other,
}

/// The last valid content of the files in a directory, and the logged faults.
#[derive(Debug, Default)]
struct LastGood {
    files: HashMap<PathBuf, Kept>,
    logged: HashSet<(PathBuf, String)>,
}

/// Valid content of a file, kept in use if the file is damaged later.
#[derive(Clone, Debug)]
enum Kept {
    /// The PEM text of one or more.
    Certificates(Arc<[u8]>),
    Crl(Arc<RevocationList>),
    SigningPolicy(SigningPolicy),
}

impl Authorities {
    /// Reads the directory at `path`. Unusable files are logged and ignored.
    ///
    /// # Errors
    /// If it cannot be listed, or contains no authority.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        LastGood::default().read(path)
    }

    /// Reads the directory at `path`, and reloads it when it changes, and while a file of it cannot be read. If a file becomes unusable,
    /// its last valid content stays in use.
    ///
    /// # Errors
    /// As for [`Authorities::read`].
    pub fn watch(path: &Path) -> Result<ReloadingFile<Self>, LoadError> {
        let directory = path.to_owned();
        let last_good = Mutex::new(LastGood::default());
        let load = move || last_good.lock().read(&directory);
        ReloadingFile::read_whole(vec![path.to_owned()], load, |authorities| authorities.unread)
    }
}

impl LastGood {
    /// Reads a directory, and remembers the valid content.
    fn read(&mut self, directory: &Path) -> Result<Authorities, LoadError> {
        let mut anchors = TrustAnchors::default();
        let mut files: Vec<_> = list(directory)?.into_iter().map(|path| (kind_of(&path), path)).collect();
        // Authorities first: revocation lists are verified with them.
        files.sort_by_key(|(kind, _)| *kind != Kind::Certificate);
        let (mut good, mut faults, mut unread) = (HashMap::new(), Vec::new(), 0);
        for (kind, path) in files {
            match add(&mut anchors, kind, &path) {
                Ok(kept) => good.extend(kept.map(|kept| (path, kept))),
                Err(error) => {
                    unread += usize::from(error.downcast_ref::<FileError>().is_some_and(FileError::is_transient));
                    let reason = error.to_string();
                    let kept = self.files.get(&path).cloned();
                    self.tell(&path, &reason, kept.is_some());
                    good.extend(kept.map(|kept| (path.clone(), kept.add_to(&mut anchors))));
                    faults.push(Fault { path, reason });
                }
            }
        }
        self.logged = faults.iter().map(|Fault { path, reason }| (path.clone(), reason.clone())).collect();
        if anchors.authorities().next().is_none() {
            let expected = "HASH.0, HASH.r0 and *.signing_policy are expected";
            let path = directory.display();
            return Err(format!("{path} contains no PEM certificate of an authority: {expected}").into());
        }
        self.files = good;
        Ok(Authorities { anchors: Arc::new(anchors), faults, unread })
    }

    /// Logs a fault once.
    fn tell(&self, path: &Path, reason: &str, is_kept: bool) {
        if self.logged.contains(&(path.to_owned(), reason.to_owned())) {
            return;
        }
        let file = path.display();
        if is_kept {
            tracing::error!(%file, reason, "a file of a certification authority has become unusable; its last valid content stays in use");
        } else {
            tracing::warn!(%file, reason, "unusable file of a certification authority");
        }
    }
}

impl Kept {
    fn add_to(self, anchors: &mut TrustAnchors) -> Self {
        match self.clone() {
            // They could be read before, so there is no error.
            Self::Certificates(pem) => drop(anchors.add_authorities(&pem)),
            Self::Crl(list) => anchors.crls.push(list),
            Self::SigningPolicy(policy) => anchors.policies.push(policy),
        }
        self
    }
}

/// Adds the content of the file at `path`, if it is of a known type; returns the fault otherwise.
fn add(anchors: &mut TrustAnchors, kind: Kind, path: &Path) -> Result<Option<Kept>, LoadError> {
    Ok(match kind {
        Kind::Certificate => {
            let pem = read(path)?;
            anchors.add_authorities(&pem)?;
            Some(Kept::Certificates(pem.into()))
        }
        Kind::Crl => Some(Kept::Crl(anchors.add_crl(&read(path)?)?)),
        Kind::SigningPolicy => Some(Kept::SigningPolicy(anchors.add_signing_policy(&read(path)?)?)),
        Kind::Other => None,
    })
}

fn kind_of(path: &Path) -> Kind {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
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
    use forebay_auth::{
        UnixTime,
        x509::{Chain, TrustRules, Use},
    };
    use std::fs;

    #[test]
    fn names_determine_file_types() {
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

    /// An authority with a revocation list, a person that it knows, and a list that a stranger has made in its name; valid for a
    /// hundred years.
    const CA: &str = include_str!("../tests/fixtures/authority.pem");
    const PERSON: &str = include_str!("../tests/fixtures/person.pem");
    const CRL: &str = include_str!("../tests/fixtures/list.pem");
    const FORGED_CRL: &str = include_str!("../tests/fixtures/forged-list.pem");
    const POLICY: &str = "access_id_CA X509 '/DC=org/DC=grid/CN=CA'\npos_rights globus CA:sign\n\
                          cond_subjects globus '\"/DC=org/DC=grid/*\"'\n";
    const NOW: UnixTime = UnixTime(1_800_000_000);

    /// Whether the authority has a list, and a policy: it is good for a person where they are required.
    fn in_use(watched: &ReloadingFile<Authorities>) -> (bool, bool) {
        let person = Chain::from_pem(PERSON.as_bytes()).unwrap();
        let is_good = |crls, signing_policies| {
            let rules = TrustRules { crls, signing_policies, allow_limited: true };
            watched.get().anchors.verify(&person, &rules, NOW).is_ok()
        };
        assert!(is_good(Use::Ignore, Use::Ignore));
        (is_good(Use::Require, Use::Ignore), is_good(Use::Ignore, Use::Require))
    }

    #[test]
    fn valid_content_stays_in_use_when_its_file_is_damaged_and_is_removed_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let (authority, crl, policy) = (file("aaaaaaaa.0"), file("aaaaaaaa.r0"), file("aaaaaaaa.signing_policy"));
        fs::write(&authority, CA).unwrap();
        fs::write(&crl, "no list").unwrap();
        let watched = Authorities::watch(directory.path()).unwrap();
        assert_eq!(in_use(&watched), (false, false), "a damaged list is none at first");
        fs::write(&crl, CRL).unwrap();
        fs::write(&policy, POLICY).unwrap();
        assert!(watched.refresh_and_log());
        assert_eq!((in_use(&watched), watched.get().faults.len()), ((true, true), 0));
        let changed = CRL.replacen("l+nk8", "m+nk8", 1);
        assert_ne!(changed, CRL);
        for (list, text) in [("cut off", "nothing"), (changed.as_str(), "access_id_CA"), ("", "pos_rights")] {
            fs::write(&crl, list).unwrap();
            fs::write(&policy, text).unwrap();
            assert!(watched.refresh_and_log());
            assert_eq!((in_use(&watched), watched.get().faults.len()), ((true, true), 2), "{list}");
        }
        fs::remove_file(&crl).unwrap();
        fs::remove_file(&policy).unwrap();
        assert!(watched.refresh_and_log());
        assert_eq!((in_use(&watched), watched.get().faults.len()), ((false, false), 0));
        fs::write(&crl, "damaged").unwrap();
        assert!(watched.refresh_and_log());
        assert_eq!(in_use(&watched), (false, false), "what was removed does not come back");
    }

    #[test]
    fn a_certificate_stays_in_use_when_its_file_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let authority = directory.path().join("aaaaaaaa.0");
        fs::write(&authority, CA).unwrap();
        let watched = Authorities::watch(directory.path()).unwrap();
        fs::write(&authority, "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n").unwrap();
        assert!(watched.refresh_and_log());
        assert_eq!((in_use(&watched), watched.get().faults.len()), ((false, false), 1));
        fs::remove_file(&authority).unwrap();
        assert!(!watched.refresh_and_log(), "a directory without an authority is unusable");
        fs::write(&authority, CA).unwrap();
        assert!(watched.refresh_and_log());
        assert_eq!(watched.get().faults.len(), 0);
    }

    #[test]
    fn directories_without_an_authority_and_lists_of_strangers_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("aaaaaaaa.0"), "no certificate").unwrap();
        let error = Authorities::read(directory.path()).unwrap_err();
        assert!(error.to_string().contains("contains no PEM certificate of an authority"), "{error}");
        assert!(Authorities::read(Path::new("/no/such/directory")).is_err());
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("aaaaaaaa.0"), CA).unwrap();
        fs::write(directory.path().join("aaaaaaaa.r0"), FORGED_CRL).unwrap();
        let authorities = Authorities::read(directory.path()).unwrap();
        assert!(authorities.faults.first().unwrap().reason.contains("has not signed"), "{:?}", authorities.faults);
    }
}
