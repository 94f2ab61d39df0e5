//! Trust anchors: the CA directory of the grid, and its revocation lists; for web servers the CAs of the operating system, or of a file.

use super::{
    TlsError,
    credential::{chain_of, read},
    error::reason_of,
};
use forebay_types::named_enum;
use openssl::{
    ssl::SslFiletype,
    x509::{
        X509VerifyResult,
        store::{X509Lookup, X509Store, X509StoreBuilder},
        verify::X509VerifyFlags,
    },
};
use std::path::{Path, PathBuf};

/// The trusted CAs, and the policy for their revocation lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrustAnchors {
    /// Directory of CA certificates (`HASH.0`) and revocation lists (`HASH.r0`) under OpenSSL's hashed names, as IGTF
    /// distributes them. `*.signing_policy` files beside them are not read: every CA may issue any name.
    pub ca_dir: PathBuf,
    /// Policy for revocation lists.
    pub crl: CrlPolicy,
}

named_enum! {
    /// Policy for revocation lists, the mildest first.
    #[derive(Default)]
    pub enum CrlPolicy {
        Ignore = "ignore",
        /// A revoked certificate is rejected; missing and outdated lists are ignored.
        #[default]
        Try = "try",
        /// A revoked certificate is rejected, and each CA must have a current list.
        Require = "require",
    }
}

impl CrlPolicy {
    /// Whether a certificate is accepted despite OpenSSL's verdict on its revocation list.
    pub(super) fn overlooks(self, found: X509VerifyResult) -> bool {
        self == Self::Try && (is_missing_list(found) || is_outdated_list(found))
    }
}

/// Whether no revocation list was found.
pub(super) fn is_missing_list(found: X509VerifyResult) -> bool {
    found.as_raw() == X509_V_ERR_UNABLE_TO_GET_CRL
}

/// Whether the revocation list found is not current.
pub(super) fn is_outdated_list(found: X509VerifyResult) -> bool {
    matches!(found.as_raw(), X509_V_ERR_CRL_HAS_EXPIRED | X509_V_ERR_CRL_NOT_YET_VALID)
}

// Numbers of x509_vfy.h, the same in every version of OpenSSL.
const X509_V_ERR_UNABLE_TO_GET_CRL: i32 = 3;
const X509_V_ERR_CRL_NOT_YET_VALID: i32 = 11;
const X509_V_ERR_CRL_HAS_EXPIRED: i32 = 12;

impl TrustAnchors {
    /// The usual CA directory of the grid.
    pub const DIR_DEFAULT: &'static str = "/etc/grid-security/certificates";

    /// A store that loads CAs and revocation lists from the directory on demand, and caches them.
    pub(super) fn store(&self) -> Result<X509Store, TlsError> {
        let unusable = |reason: String| TlsError::file(&self.ca_dir, reason);
        std::fs::read_dir(&self.ca_dir).map_err(|error| unusable(format!("is not a CA directory: {error}")))?;
        let name =
            self.ca_dir.to_str().ok_or_else(|| unusable("is not a CA directory: its name is not UTF-8".to_owned()))?;
        let mut builder = X509StoreBuilder::new()?;
        let lookup = builder.add_lookup(X509Lookup::hash_dir())?;
        lookup.add_dir(name, SslFiletype::PEM).map_err(|errors| unusable(reason_of(&errors)))?;
        let mut flags = X509VerifyFlags::ALLOW_PROXY_CERTS;
        if self.crl != CrlPolicy::Ignore {
            // Without the second flag only the issuer of the leaf is checked, which for proxies is not a CA.
            flags |= X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL;
        }
        builder.set_flags(flags)?;
        Ok(builder.build())
    }

    pub(super) fn path(&self) -> &Path {
        &self.ca_dir
    }
}

impl Default for TrustAnchors {
    fn default() -> Self {
        Self { ca_dir: PathBuf::from(Self::DIR_DEFAULT), crl: CrlPolicy::default() }
    }
}

/// Trust anchors for web servers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum WebAnchors {
    /// The CAs of the operating system.
    #[default]
    System,
    /// The CAs of a PEM file.
    File(PathBuf),
}

/// Lists of CAs of Red Hat and its relatives, of Debian, of Alpine, and of SUSE.
const SYSTEM_LISTS: [&str; 4] = [
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

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

    /// The list of the system's CAs, if OpenSSL is part of this program and no variable names a list: such a build does not know the
    /// directories of the system.
    pub(super) fn list_for_bundled_openssl() -> Option<&'static Path> {
        let is_named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some());
        if !cfg!(feature = "bundled-openssl") || is_named {
            return None;
        }
        SYSTEM_LISTS.iter().map(Path::new).find(|list| list.is_file())
    }

    /// The CAs of a file.
    pub(super) fn store(file: &Path) -> Result<X509Store, TlsError> {
        let authorities = chain_of(file, &read(file)?)?;
        if authorities.is_empty() {
            return Err(TlsError::file(file, "contains no PEM certificate"));
        }
        let mut builder = X509StoreBuilder::new()?;
        for authority in authorities {
            builder.add_cert(authority)?;
        }
        Ok(builder.build())
    }
}
