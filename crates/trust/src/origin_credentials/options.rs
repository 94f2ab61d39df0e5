//! What is shown to which origins.

use forebay_auth::x509::TrustRules;
use std::path::PathBuf;

/// What is shown to origins.
#[derive(Clone, Debug)]
pub struct CredentialOptions {
    /// The first rule that matches a server's name counts; without one nothing is proven.
    pub rules: Vec<CredentialRule>,
    /// The name told to servers that ask for no proof.
    pub user: String,
    /// Directory of the certification authorities, by which servers are known.
    pub ca_dir: PathBuf,
    /// What chains of certificates must fulfil.
    pub trust: TrustRules,
    /// Whether clients' own credentials are kept for the questions whether origins would let them, also where no rule uses them.
    pub keeps_those_of_clients: bool,
}

impl Default for CredentialOptions {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            user: "forebay".to_owned(),
            ca_dir: PathBuf::from("/etc/grid-security/certificates"),
            trust: TrustRules::default(),
            keeps_those_of_clients: false,
        }
    }
}

/// What is shown to some origins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialRule {
    /// Names of the servers, in which `*` stands for any run of characters: redirectors, and the servers that they lead to.
    pub hosts: Vec<String>,
    pub proof: OriginProof,
    /// The user that we are by a shared secret, or by our word.
    pub user: String,
    /// Whether key exchanges in groups of 512 bits on are accepted, as XRootD 5 and dCache offer.
    pub allows_weak_groups: bool,
    /// Whether servers are accepted that do not sign the key exchange.
    pub allows_unsigned: bool,
    /// Whether tokens are sent in clear to servers on this machine.
    pub allows_plain_tokens: bool,
}

/// What proves who we are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OriginProof {
    Nothing,
    /// A proxy that others keep current: this file, or that of `X509_USER_PROXY`, or `/tmp/x509up_uUID`.
    Proxy(Option<PathBuf>),
    /// Proxies made from a host's or robot's certificate.
    Certificate {
        /// PEM file with the certificate, and those between it and its authority.
        certificate: PathBuf,
        /// PEM file with its key.
        key: PathBuf,
    },
    /// A token that others keep current: this file, or what the WLCG rules of discovery find.
    Token(Option<PathBuf>),
    Secret {
        keytab: PathBuf,
        /// Name of the key; the newest one, unless given.
        key: Option<String>,
    },
    /// What the client has that a request is for: its token, or the proxy that it has delegated.
    OfClient,
}

impl OriginProof {
    /// Whether a certificate may be shown, so that servers have to prove themselves by one, too.
    #[must_use]
    pub const fn may_be_certificate(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::Certificate { .. } | Self::OfClient)
    }
}
