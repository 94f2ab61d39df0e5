//! Trusted authorities, and the verification of chains.

use crate::UnixTime;
use crate::x509::certificate::{Certificate, CertificateError};
use crate::x509::chain::{CHAIN_CERTIFICATES_MAX, Chain};
use crate::x509::crl::{CrlError, RevocationList};
use crate::x509::signing_policy::{SigningPolicy, SigningPolicyError};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::Id;
use openssl::stack::Stack;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::{X509VerifyFlags, X509VerifyParam};
use openssl::x509::{X509, X509StoreContext, X509VerifyResult};
use std::{collections::HashMap, sync::Arc};

/// Most certificates between a chain and the authority at its end.
const DEPTH_MAX: i32 = 20;

/// How far the clock of an authority that makes revocation lists may be ahead of ours, seconds.
const CRL_SKEW_S: i64 = 300;

/// Shortest keys, bits: of RSA, and of an elliptic curve.
const RSA_BITS_MIN: u32 = 1024;
const CURVE_BITS_MIN: u32 = 224;

// The library's numbers (`X509_V_ERR_*`), which its Rust binding does not name.
const UNABLE_TO_GET_ISSUER: i32 = 2;
const UNABLE_TO_DECRYPT_SIGNATURE: i32 = 4;
const SIGNATURE_FAILURE: i32 = 7;
const NOT_YET_VALID: i32 = 9;
const EXPIRED: i32 = 10;
const SELF_SIGNED: i32 = 18;
const SELF_SIGNED_IN_CHAIN: i32 = 19;
const UNABLE_TO_GET_ISSUER_LOCALLY: i32 = 20;
const UNABLE_TO_VERIFY_LEAF: i32 = 21;
const PATH_LENGTH_EXCEEDED: i32 = 25;
const NO_CERTIFICATE_SIGNING: i32 = 32;
const INVALID_NON_CA: i32 = 37;
const PROXY_PATH_LENGTH_EXCEEDED: i32 = 38;
const NO_DIGITAL_SIGNATURE: i32 = 39;
const INVALID_CA: i32 = 79;

/// The use of a file that accompanies an authority.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// It is not looked at.
    Ignore,
    /// It is used if present; an authority without one, or with an old one, is trusted.
    IfPresent,
    /// An authority without a current one signs nothing.
    Require,
}

/// Requirements for a chain, besides leading to an authority.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TrustRules {
    /// Use of revocation lists.
    pub crls: Use,
    /// Use of signing policies.
    pub signing_policies: Use,
    /// Whether proxies that may not start jobs are good enough. For reading data they are.
    pub allow_limited: bool,
}

impl Default for TrustRules {
    fn default() -> Self {
        Self { crls: Use::IfPresent, signing_policies: Use::IfPresent, allow_limited: true }
    }
}

/// Why a chain is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("the certificate of {subject} expired at {} UTC", .at.utc())]
    Expired { subject: String, at: UnixTime },
    #[error("the certificate of {subject} is valid from {} UTC on only; are the clocks right?", .from.utc())]
    NotYetValid { subject: String, from: UnixTime },
    #[error("no trusted certification authority is called {issuer}; is its certificate installed?")]
    UnknownAuthority { issuer: String },
    #[error(
        "the proxy {subject} names another key as its signer's than the certificate above it has, as those of xrdgsiproxy 5 do; \
         make one with voms-proxy-init -rfc"
    )]
    ProxyLink { subject: String },
    #[error("the certificate of {subject} was not signed by {issuer}, as it says")]
    Signature { subject: String, issuer: String },
    #[error("the proxy {subject} stands deeper than the proxies above it allow")]
    TooDeep { subject: String },
    #[error("{subject} signed a certificate, and is no certification authority that may")]
    NoAuthority { subject: String },
    #[error("the key usage of the certificate of {subject} does not allow signatures")]
    KeyUsage { subject: String },
    #[error("the certificate of {subject} has {reason}, which is too weak")]
    Weak { subject: String, reason: &'static str },
    #[error("the proxy of {subject} is limited, and limited proxies are not accepted here")]
    Limited { subject: String },
    #[error("the certificate of {subject} was revoked by {issuer}")]
    Revoked { subject: String, issuer: String },
    #[error("there is no revocation list of {issuer}, which is required; is fetch-crl running?")]
    NoCrl { issuer: String },
    #[error("the revocation list of {issuer} ended at {} UTC; is fetch-crl running?", .at.utc())]
    CrlExpired { issuer: String, at: UnixTime },
    #[error("the signing policy of {issuer} does not let it sign for {subject}")]
    SigningPolicy { issuer: String, subject: String },
    #[error("there is no signing policy for {issuer}, which is required")]
    NoSigningPolicy { issuer: String },
    #[error("the chain of {subject} has several certificates of one name")]
    AnotherPath { subject: String },
    #[error("the certificate of {subject} is refused: {reason}")]
    Other { subject: String, reason: &'static str },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the crypto library failed to verify a chain")]
    Library(#[from] ErrorStack),
}

/// The certification authorities that are trusted, with their revocation lists and signing policies.
#[derive(Debug, Default)]
pub struct TrustAnchors {
    /// By the hash of the subject.
    authorities: HashMap<u32, Vec<Certificate>>,
    /// Lists that [`TrustAnchors::add_crl`] accepted.
    pub crls: Vec<Arc<RevocationList>>,
    pub policies: Vec<SigningPolicy>,
}

impl TrustAnchors {
    /// Trusts the authorities of PEM text, and returns how many they are.
    ///
    /// # Errors
    /// When one of them cannot be read; then none is added.
    pub fn add_authorities(&mut self, pem: &[u8]) -> Result<usize, CertificateError> {
        let certificates = X509::stack_from_pem(pem)?;
        let certificates = certificates.into_iter().map(Certificate::from_x509).collect::<Result<Vec<_>, _>>()?;
        let count = certificates.len();
        for certificate in certificates {
            let known = self.authorities.entry(certificate.x509.subject_name_hash()).or_default();
            if !known.contains(&certificate) {
                known.push(certificate);
            }
        }
        Ok(count)
    }

    /// Adds a revocation list, PEM or DER. Add the authorities first.
    ///
    /// # Errors
    /// When it cannot be used: also when it bears the name of an authority that has not signed it.
    pub fn add_crl(&mut self, bytes: &[u8]) -> Result<Arc<RevocationList>, CrlError> {
        let crl = RevocationList::parse(bytes)?;
        let of_name: Vec<_> = self.authorities().filter(|authority| crl.names(authority)).collect();
        if !of_name.is_empty() && !of_name.iter().any(|authority| crl.is_of(authority)) {
            return Err(CrlError::Signature);
        }
        let list = Arc::new(crl);
        self.crls.push(Arc::clone(&list));
        Ok(list)
    }

    /// Adds the signing policy of one or several authorities.
    ///
    /// # Errors
    /// When it is not understood.
    pub fn add_signing_policy(&mut self, bytes: &[u8]) -> Result<SigningPolicy, SigningPolicyError> {
        let policy = SigningPolicy::parse(bytes)?;
        self.policies.push(policy.clone());
        Ok(policy)
    }

    /// The authorities, in no order.
    pub fn authorities(&self) -> impl Iterator<Item = &Certificate> {
        self.authorities.values().flatten()
    }

    /// Whether the chain leads to a trusted authority by the rules, at the time `now`.
    ///
    /// Costs one check of a signature for each certificate, and one more for each revocation list that is used: 0.1 ms or so.
    ///
    /// # Errors
    /// Why it is not trusted.
    pub fn verify(&self, chain: &Chain, rules: &TrustRules, now: UnixTime) -> Result<(), TrustError> {
        if chain.is_limited() && !rules.allow_limited {
            return Err(TrustError::Limited { subject: chain.subject().to_owned() });
        }
        if !chain.leaf().may_sign() {
            return Err(TrustError::KeyUsage { subject: chain.leaf().subject().to_owned() });
        }
        let path = self.path(chain, now)?;
        let own_len = chain.proxies().len() + 1;
        if path.get(..own_len) != chain.certificates().get(..own_len) {
            return Err(TrustError::AnotherPath { subject: chain.subject().to_owned() });
        }
        check_strength(&path)?;
        let from_end_entity = path.get(chain.proxies().len()..).unwrap_or_default();
        for pair in from_end_entity.windows(2) {
            let [certificate, authority] = pair else { continue };
            self.check_signing_policy(certificate, authority, rules.signing_policies)?;
            self.check_revocation(certificate, authority, rules.crls, now)?;
        }
        Ok(())
    }

    /// The way from the chain's leaf to a trusted authority, with all signatures, names and times verified.
    fn path(&self, chain: &Chain, now: UnixTime) -> Result<Vec<Certificate>, TrustError> {
        let store = self.store(chain, now)?;
        let mut between = Stack::new()?;
        for certificate in chain.certificates().iter().skip(1) {
            between.push(certificate.x509.clone())?;
        }
        let mut context = X509StoreContext::new()?;
        let outcome = context.init(&store, &chain.leaf().x509, &between, |context| {
            if context.verify_cert()? {
                let path = context.chain().map(|path| path.iter().map(ToOwned::to_owned).collect::<Vec<_>>());
                return Ok(Ok(path.unwrap_or_default()));
            }
            Ok(Err((context.error(), context.current_cert().map(ToOwned::to_owned))))
        })?;
        match outcome {
            Ok(path) => Ok(path.into_iter().map(Certificate::from_x509).collect::<Result<_, _>>()?),
            Err((result, certificate)) => {
                let certificate = certificate.map(Certificate::from_x509).transpose()?;
                Err(error_of(result, certificate.as_ref().unwrap_or_else(|| chain.leaf())))
            }
        }
    }

    /// A store of the authorities that may be on the way up from the chain, and of no others: that is quick to make.
    fn store(&self, chain: &Chain, now: UnixTime) -> Result<X509Store, ErrorStack> {
        let mut param = X509VerifyParam::new()?;
        param.set_flags(X509VerifyFlags::ALLOW_PROXY_CERTS)?;
        param.set_time(now.0);
        param.set_depth(DEPTH_MAX);
        let mut store = X509StoreBuilder::new()?;
        store.set_param(&param)?;
        let own = chain.certificates().iter().skip(chain.proxies().len());
        let mut names: Vec<_> = own.map(|certificate| (certificate.x509.issuer_name_hash(), 0_usize)).collect();
        let mut seen = Vec::new();
        while let Some((hash, depth)) = names.pop() {
            if seen.contains(&hash) || depth > CHAIN_CERTIFICATES_MAX {
                continue;
            }
            seen.push(hash);
            for authority in self.authorities.get(&hash).into_iter().flatten() {
                names.push((authority.x509.issuer_name_hash(), depth + 1));
                store.add_cert(authority.x509.clone())?;
            }
        }
        Ok(store.build())
    }

    fn check_signing_policy(
        &self,
        certificate: &Certificate,
        authority: &Certificate,
        policy_use: Use,
    ) -> Result<(), TrustError> {
        if policy_use == Use::Ignore {
            return Ok(());
        }
        let (issuer, subject) = (authority.subject(), certificate.subject());
        let mut verdicts = self.policies.iter().filter_map(|policy| policy.allows(issuer, subject)).peekable();
        if verdicts.peek().is_none() {
            return match policy_use {
                Use::Require => Err(TrustError::NoSigningPolicy { issuer: issuer.to_owned() }),
                Use::Ignore | Use::IfPresent => Ok(()),
            };
        }
        if verdicts.any(|is_allowed| is_allowed) {
            Ok(())
        } else {
            Err(TrustError::SigningPolicy { issuer: issuer.to_owned(), subject: subject.to_owned() })
        }
    }

    fn check_revocation(
        &self,
        certificate: &Certificate,
        authority: &Certificate,
        crl_use: Use,
        now: UnixTime,
    ) -> Result<(), TrustError> {
        if crl_use == Use::Ignore {
            return Ok(());
        }
        let issuer = || authority.subject().to_owned();
        let crls: Vec<_> = self.crls.iter().filter(|crl| crl.is_of(authority)).collect();
        if crls.iter().any(|crl| crl.revokes(certificate)) {
            return Err(TrustError::Revoked { subject: certificate.subject().to_owned(), issuer: issuer() });
        }
        if crl_use == Use::IfPresent {
            return Ok(());
        }
        let begun = crls.iter().filter(|crl| crl.made_at <= now.plus(CRL_SKEW_S));
        match begun.map(|crl| crl.next_at.unwrap_or(UnixTime(i64::MAX))).max() {
            None => Err(TrustError::NoCrl { issuer: issuer() }),
            Some(at) if at < now => Err(TrustError::CrlExpired { issuer: issuer(), at }),
            Some(_) => Ok(()),
        }
    }
}

/// Checks the strength of keys and signatures from a leaf to a trusted authority, whose own signature does not matter.
///
/// Proxies may be signed with SHA-1, as those of `xrdgsiproxy` 5.5.3 and of delegation by XRootD 5.5.3 are: they live for hours, and
/// only the owner of the certificate above could make two of one signature. Everything else needs SHA-2.
fn check_strength(path: &[Certificate]) -> Result<(), TrustError> {
    for (at, certificate) in path.iter().enumerate() {
        let weak = |reason| Err(TrustError::Weak { subject: certificate.subject().to_owned(), reason });
        let key = certificate.public_key()?;
        let bits_min = if matches!(key.id(), Id::RSA | Id::RSA_PSS) { RSA_BITS_MIN } else { CURVE_BITS_MIN };
        if key.bits() < bits_min {
            return weak("a short key");
        }
        let is_anchor = at + 1 == path.len();
        let algorithm = certificate.x509.signature_algorithm().object().nid();
        match algorithm.signature_algorithms().map(|parts| parts.digest) {
            Some(Nid::MD2 | Nid::MD4 | Nid::MD5 | Nid::MDC2) if !is_anchor => return weak("a signature with MD5"),
            Some(Nid::SHA1) if !is_anchor && !certificate.is_proxy() => return weak("a signature with SHA-1"),
            _ => {}
        }
    }
    Ok(())
}

/// The error for what was found at `certificate`.
fn error_of(result: X509VerifyResult, certificate: &Certificate) -> TrustError {
    let (subject, issuer) = (certificate.subject().to_owned(), certificate.issuer.clone());
    match result.as_raw() {
        EXPIRED => TrustError::Expired { subject, at: certificate.valid_until() },
        NOT_YET_VALID => TrustError::NotYetValid { subject, from: certificate.valid_from },
        UNABLE_TO_GET_ISSUER | UNABLE_TO_GET_ISSUER_LOCALLY | UNABLE_TO_VERIFY_LEAF if certificate.is_proxy() => {
            TrustError::ProxyLink { subject }
        }
        UNABLE_TO_GET_ISSUER
        | UNABLE_TO_GET_ISSUER_LOCALLY
        | UNABLE_TO_VERIFY_LEAF
        | SELF_SIGNED
        | SELF_SIGNED_IN_CHAIN => TrustError::UnknownAuthority { issuer },
        SIGNATURE_FAILURE | UNABLE_TO_DECRYPT_SIGNATURE => TrustError::Signature { subject, issuer },
        PROXY_PATH_LENGTH_EXCEEDED => TrustError::TooDeep { subject },
        INVALID_CA | INVALID_NON_CA | NO_CERTIFICATE_SIGNING | PATH_LENGTH_EXCEEDED => {
            TrustError::NoAuthority { subject }
        }
        NO_DIGITAL_SIGNATURE => TrustError::KeyUsage { subject },
        _ => TrustError::Other { subject, reason: result.error_string() },
    }
}
