//! How clients are asked who they are, and what they may do.

use crate::issuer_keys::IssuerDiscovery;
use forebay_auth::{Bindings, Grants, Issuers, SecurityProtocol, SigningLevel, x509::TrustRules};
use std::{path::PathBuf, time::Duration};

/// Who clients are, and what they may do.
#[derive(Clone, Debug)]
pub struct SecurityOptions {
    /// What clients may prove themselves with, the preferred one first; empty when nobody is asked.
    pub methods: Vec<SecurityProtocol>,
    /// Which of them some clients may use; the first that matches counts.
    pub bindings: Bindings,
    /// What is done with attributes of virtual organizations.
    pub voms: VomsUse,
    /// Which servers may sign attributes.
    pub voms_dir: PathBuf,
    /// What chains of certificates must fulfil.
    pub trust: TrustRules,
    pub keytab: Option<PathBuf>,
    /// Whether clients on this machine may send tokens in clear.
    pub takes_plain_tokens_on_loopback: bool,
    /// How often files are looked at for changes.
    pub refresh_interval: Duration,
    /// Whether clients of GSI versions before 10400 are accepted.
    pub allows_unsigned_gsi: bool,
    /// How much clients that share a key with the server have to sign on connections in clear.
    pub signing: SigningLevel,
    /// Whether clients of GSI are asked for a proxy in their name, to be shown to origins.
    pub takes_delegations: bool,
    /// Whose tokens are accepted.
    pub issuers: Issuers,
    /// Issuers whose keys are in files: URL and JSON Web Key Set.
    pub key_files: Vec<(String, PathBuf)>,
    /// Issuers whose keys are fetched.
    pub discoveries: Vec<IssuerDiscovery>,
    /// Directory in which fetched keys outlive a restart; `None` when they do not.
    pub keys_dir: Option<PathBuf>,
    /// Who may do what; `None` when everybody may do everything.
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

/// What is done with attributes of virtual organizations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VomsUse {
    /// They are not looked at.
    Ignore,
    /// Good ones are taken; a client without is known by its certificate alone.
    Extract,
    /// A client without a good one is refused.
    Require,
}
