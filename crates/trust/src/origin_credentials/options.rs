//! Options of the credentials for origins.

use forebay_auth::x509::TrustRules;
use std::path::PathBuf;

/// Credentials for origins.
#[derive(Clone, Debug)]
pub struct CredentialOptions {
    /// The first rule that matches a server's name counts; without a match no credential is used.
    pub rules: Vec<CredentialRule>,
    /// User name for servers without authentication.
    pub user: String,
    /// CA directory to verify servers with.
    pub ca_dir: PathBuf,
    /// Requirements on certificate chains.
    pub trust: TrustRules,
    /// Whether clients' credentials are kept to check their authorization at origins, even if no rule uses them.
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

/// The credential for some origins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialRule {
    /// Names of the servers, with `*` for any characters: redirectors, and the servers they redirect to.
    pub hosts: Vec<String>,
    pub proof: OriginProof,
    /// The user name with a shared secret or without proof.
    pub user: String,
    /// Whether key exchanges in 512-bit groups are accepted, as offered by XRootD 5 and dCache.
    pub allows_weak_groups: bool,
    /// Whether servers may omit the signature of the key exchange.
    pub allows_unsigned: bool,
    /// Whether tokens are sent unencrypted to servers on this machine.
    pub allows_plain_tokens: bool,
}

/// The proof of identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OriginProof {
    Nothing,
    /// An externally renewed proxy: this file, or that of `X509_USER_PROXY`, or `/tmp/x509up_uUID`.
    Proxy(Option<PathBuf>),
    /// Proxies created from a host or robot certificate.
    Certificate {
        /// PEM file with the certificate and its intermediate certificates.
        certificate: PathBuf,
        /// PEM file with its key.
        key: PathBuf,
    },
    /// An externally renewed token: this file, or the result of WLCG token discovery.
    Token(Option<PathBuf>),
    Secret {
        keytab: PathBuf,
        /// Name of the key; default: the newest one.
        key: Option<String>,
    },
    /// An access key for S3 servers.
    AccessKey {
        /// File in the format of `~/.aws/credentials`; default: the environment, or the file of the user.
        file: Option<PathBuf>,
        profile: Option<String>,
        region: Option<String>,
    },
    /// The token or delegated proxy of the client.
    OfClient,
}

impl OriginProof {
    /// Whether a certificate may be used, so that servers must authenticate by one, too.
    #[must_use]
    pub const fn may_be_certificate(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::Certificate { .. } | Self::OfClient)
    }
}
