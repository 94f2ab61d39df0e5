//! Keys of token issuers, fetched from the issuers and kept current.

mod client;
mod issuer;
mod saved_keys;

pub use client::{FETCH_TIME_MAX, FetchError, FetchedKeys, IssuerClient, check_issuer_url};
pub(crate) use issuer::IssuerKeys;

use forebay_net::{ClientTlsFiles, TlsConnector, TlsError, TrustAnchors, WebAnchors};
use std::{path::PathBuf, time::Duration};

/// Default grace period of keys after their cache time while the issuer is unreachable.
const GRACE_DEFAULT: Duration = Duration::from_secs(24 * 3600);

/// Default limit of the time a login waits for a missing key: shorter than clients wait for an answer.
const LOGIN_WAIT_MAX_DEFAULT: Duration = Duration::from_secs(5);

/// An issuer with fetched keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerDiscovery {
    /// Its name, and the base of the addresses of its documents.
    pub url: String,
    /// CAs for its certificate.
    pub authorities: IssuerAuthorities,
    /// Whether documents may be fetched without TLS from this machine.
    pub allows_plain_http: bool,
    /// Grace period of its keys after their cache time while it is unreachable.
    pub grace: Duration,
    /// Longest time a login waits for a missing key.
    pub login_wait_max: Duration,
}

impl IssuerDiscovery {
    /// The issuer `url`, with the CAs of the operating system.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            authorities: IssuerAuthorities::System,
            allows_plain_http: false,
            grace: GRACE_DEFAULT,
            login_wait_max: LOGIN_WAIT_MAX_DEFAULT,
        }
    }
}

/// CAs for the certificate of an issuer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum IssuerAuthorities {
    /// The CAs of the operating system.
    #[default]
    System,
    /// The CAs in this PEM file, or in this directory of CAs and revocation lists under OpenSSL's hashed names.
    Path(PathBuf),
}

impl IssuerAuthorities {
    fn connector(&self) -> Result<TlsConnector, TlsError> {
        match self {
            Self::System => TlsConnector::for_web(WebAnchors::System),
            Self::Path(path) if path.is_dir() => {
                let trust = TrustAnchors { ca_dir: path.clone(), ..TrustAnchors::default() };
                TlsConnector::new(ClientTlsFiles { trust, credential: None })
            }
            Self::Path(path) => TlsConnector::for_web(WebAnchors::File(path.clone())),
        }
    }
}
