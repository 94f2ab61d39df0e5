//! Options of authentication and authorization.

use crate::issuer_keys::IssuerDiscovery;
use forebay_auth::{Bindings, Grants, Issuers, SecurityProtocol, SigningLevel, x509::TrustRules};
use std::{path::PathBuf, time::Duration};

/// Options of authentication and authorization.
#[derive(Clone, Debug)]
pub struct SecurityOptions {
    /// Authentication methods, the preferred one first; empty without authentication.
    pub methods: Vec<SecurityProtocol>,
    /// Restrictions of the methods for some clients; the first match counts.
    pub bindings: Bindings,
    /// Use of attributes of virtual organizations.
    pub voms: VomsUse,
    /// Directory of the servers that may sign attributes.
    pub voms_dir: PathBuf,
    /// Requirements on certificate chains.
    pub trust: TrustRules,
    pub keytab: Option<PathBuf>,
    /// File of the access keys of clients of S3.
    pub access_keys: Option<PathBuf>,
    /// Whether clients on this machine may send tokens unencrypted.
    pub takes_plain_tokens_on_loopback: bool,
    /// Interval in which files are checked for changes.
    pub refresh_interval: Duration,
    /// Whether clients of GSI versions before 10400 are accepted.
    pub allows_unsigned_gsi: bool,
    /// Signing level required of clients with a session key on unencrypted connections.
    pub signing: SigningLevel,
    /// Whether GSI clients are asked to delegate a proxy for origins.
    pub takes_delegations: bool,
    /// Accepted token issuers.
    pub issuers: Issuers,
    /// Issuers with keys in files: URL and JSON Web Key Set.
    pub key_files: Vec<(String, PathBuf)>,
    /// Issuers with fetched keys.
    pub discoveries: Vec<IssuerDiscovery>,
    /// Directory that keeps fetched keys across restarts, if any.
    pub keys_dir: Option<PathBuf>,
    /// The authorization rules; `None`: everything is allowed.
    pub grants: Option<Grants>,
}

impl Default for SecurityOptions {
    fn default() -> Self {
        Self {
            methods: Vec::new(),
            bindings: Bindings::default(),
            voms: VomsUse::Extract,
            voms_dir: PathBuf::from("/etc/grid-security/vomsdir"),
            trust: TrustRules::default(),
            keytab: None,
            access_keys: None,
            takes_plain_tokens_on_loopback: false,
            refresh_interval: Duration::from_secs(60),
            allows_unsigned_gsi: false,
            signing: SigningLevel::None,
            takes_delegations: false,
            issuers: Issuers::default(),
            key_files: Vec::new(),
            discoveries: Vec::new(),
            keys_dir: None,
            grants: None,
        }
    }
}

/// Use of attributes of virtual organizations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VomsUse {
    /// They are ignored.
    Ignore,
    /// Valid ones are used; a client without them is identified by its certificate alone.
    Extract,
    /// A client without a valid one is refused.
    Require,
}
