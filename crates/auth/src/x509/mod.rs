//! Certificates of the grid: chains with RFC 3820 proxies, whom they lead to, and making proxies of one's own.

mod certificate;
mod chain;
mod credential;
mod crl;
mod host;
pub(crate) mod name;
mod proxy;
mod signing_policy;
mod trust;

pub use certificate::{CERTIFICATE_LEN_MAX, Certificate, CertificateError, CertificateKind, ProxyPolicy, RSA_BITS_MAX};
pub use chain::{CHAIN_CERTIFICATES_MAX, CHAIN_LEN_MAX, Chain, ChainError};
pub use credential::{Credential, CredentialError};
pub use crl::{CRL_LEN_MAX, CrlError, RevocationList};
pub use host::{HostError, check_host};
pub use name::{NAME_LEN_MAX, NameError, is_same, slash_form};
pub use proxy::{PROXY_BITS, ProxyError, ProxyRequest, make_proxy, sign_request};
pub use signing_policy::{SIGNING_POLICY_LEN_MAX, SIGNING_POLICY_PATTERNS_MAX, SigningPolicy, SigningPolicyError};
pub use trust::{TrustAnchors, TrustError, TrustRules, Use};
