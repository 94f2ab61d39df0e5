//! Keys of token issuers, fetched from where the issuers say they are, and kept current.

mod client;
mod issuer;
mod kept;

pub use client::{FETCH_TIME_MAX, FetchError, FetchedKeys, IssuerClient, check_issuer_url};
pub(crate) use issuer::IssuerKeys;

use forebay_net::{ClientTlsFiles, TlsConnector, TlsError, TrustAnchors, WebAnchors};
use std::{path::PathBuf, time::Duration};

/// How long keys are believed beyond their time while their issuer is away, unless told otherwise.
const GRACE_DEFAULT: Duration = Duration::from_secs(24 * 3600);

/// Longest time that a login waits for a key that is missing, unless told otherwise: clients wait longer for an answer.
const LOGIN_WAIT_MAX_DEFAULT: Duration = Duration::from_secs(5);

/// An issuer whose keys are fetched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssuerDiscovery {
    /// Its name, which is where its documents are.
    pub url: String,
    /// Whose word counts for its certificate.
    pub authorities: IssuerAuthorities,
    /// Whether its documents may come without TLS from this machine.
    pub allows_plain_http: bool,
    /// How long its keys are believed beyond their time while it is away.
    pub grace: Duration,
    /// Longest time that a login waits for a key that is missing.
    pub login_wait_max: Duration,
}

impl IssuerDiscovery {
    /// The issuer named `url`, for whose certificate the operating system's authorities vouch.
    #[must_use]
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

/// Whose word counts for the certificate of an issuer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum IssuerAuthorities {
    /// Those whom the operating system trusts.
    #[default]
    System,
    /// Those in this PEM file or, when it is one, this directory of CAs and revocation lists under OpenSSL's hashed names.
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
