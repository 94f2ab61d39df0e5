//! A chain of certificates from a peer: proxies, the end entity, perhaps authorities, put in order.

use crate::x509::certificate::{Certificate, CertificateError, CertificateKind, ProxyPolicy};
use crate::x509::name;
use crate::{Fqan, Identity, Method, UnixTime};
use openssl::error::ErrorStack;
use openssl::x509::X509;

/// Longest PEM text of a chain, bytes.
pub const CHAIN_LEN_MAX: usize = 64 << 10;

/// Most certificates of a chain.
pub const CHAIN_CERTIFICATES_MAX: usize = 10;

/// Why certificates do not form a chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("a certificate chain of {len} bytes, more than {CHAIN_LEN_MAX}")]
    TooLong { len: usize },
    #[error("a chain of more than {CHAIN_CERTIFICATES_MAX} certificates")]
    TooMany,
    #[error("no certificate where a chain belongs")]
    Nothing,
    #[error("a certificate chain that the crypto library cannot read")]
    Library(#[from] ErrorStack),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the certificate of {subject} does not belong to the rest of the chain")]
    Apart { subject: String },
    #[error("the chain lacks the certificate of {missing}, whom its proxies stand for")]
    NoEndEntity { missing: String },
    #[error("the proxy {subject} was signed by {issuer}, which may sign only names with one CN added to its own")]
    ProxyName { subject: String, issuer: String },
    #[error("{subject} is a proxy of an old kind; make one after RFC 3820 (voms-proxy-init -rfc)")]
    OldProxy { subject: String },
    #[error("the proxy {subject} does not carry the rights of its owner; make one that inherits all")]
    ProxyRights { subject: String },
}

/// Certificates from the leaf up: proxies, then exactly one end entity, then authorities. Not verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chain {
    certificates: Vec<Certificate>,
    end_entity: usize,
}

impl Chain {
    /// Reads the certificates of PEM text, in whatever order they stand; private keys between them are passed over.
    ///
    /// # Errors
    /// When there are too many, they do not lead from one to the next, or proxies among them break the rules of RFC 3820.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ChainError> {
        if pem.len() > CHAIN_LEN_MAX {
            return Err(ChainError::TooLong { len: pem.len() });
        }
        let starts = pem.windows(PEM_START.len()).filter(|window| *window == PEM_START).count();
        if starts > CHAIN_CERTIFICATES_MAX {
            return Err(ChainError::TooMany);
        }
        Self::from_x509(X509::stack_from_pem(pem)?)
    }

    /// Takes certificates of the crypto library, in whatever order they stand.
    ///
    /// # Errors
    /// See [`Chain::from_pem`].
    pub fn from_x509(certificates: Vec<X509>) -> Result<Self, ChainError> {
        if certificates.len() > CHAIN_CERTIFICATES_MAX {
            return Err(ChainError::TooMany);
        }
        Self::from_certificates(certificates.into_iter().map(Certificate::from_x509).collect::<Result<_, _>>()?)
    }

    /// Takes certificates in whatever order they stand.
    ///
    /// # Errors
    /// See [`Chain::from_pem`].
    pub fn from_certificates(mut certificates: Vec<Certificate>) -> Result<Self, ChainError> {
        if certificates.len() > CHAIN_CERTIFICATES_MAX {
            return Err(ChainError::TooMany);
        }
        let mut unique: Vec<Certificate> = Vec::new();
        for certificate in certificates.drain(..) {
            if !unique.contains(&certificate) {
                unique.push(certificate);
            }
        }
        let certificates = in_order(unique)?;
        let end_entity = certificates.iter().take_while(|certificate| certificate.is_proxy()).count();
        check_proxies(certificates.get(..=end_entity).unwrap_or(&certificates))?;
        let mut signers = certificates.iter().skip(end_entity + 1);
        if let Some(other) = signers.find(|signer| signer.kind != CertificateKind::Authority) {
            return Err(ChainError::Apart { subject: other.subject().to_owned() });
        }
        let is_end_entity = |certificate: &Certificate| certificate.kind == CertificateKind::EndEntity;
        match (certificates.get(end_entity), certificates.get(end_entity.wrapping_sub(1))) {
            (Some(certificate), _) if is_end_entity(certificate) => Ok(Self { certificates, end_entity }),
            (_, Some(proxy)) => Err(ChainError::NoEndEntity { missing: proxy.issuer.clone() }),
            (Some(other), None) => Err(ChainError::NoEndEntity { missing: other.subject().to_owned() }),
            (None, None) => Err(ChainError::Nothing),
        }
    }

    /// The certificate that the peer's key belongs to: the last proxy, or the end entity itself.
    pub fn leaf(&self) -> &Certificate {
        self.certificates.first().expect("a chain has an end entity")
    }

    /// The person, robot or host that the chain stands for.
    pub fn end_entity(&self) -> &Certificate {
        self.certificates.get(self.end_entity).expect("a chain has an end entity")
    }

    /// The proxies, the last one first.
    pub fn proxies(&self) -> &[Certificate] {
        self.certificates.get(..self.end_entity).unwrap_or_default()
    }

    /// The authorities that the peer sent along.
    pub fn authorities(&self) -> &[Certificate] {
        self.certificates.get(self.end_entity + 1..).unwrap_or_default()
    }

    /// All certificates from the leaf up.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// The identity of the chain, authenticated by `method`: the end entity, not the proxy.
    pub fn identity(&self, method: Method, host: &str, attributes: Vec<Fqan>) -> Identity {
        Identity {
            subject: Some(self.subject().to_owned()),
            issuer: Some(self.end_entity().issuer.clone()),
            attributes,
            expires_at: Some(self.valid_until().plus(1)),
            ..Identity::of(method, host)
        }
    }

    /// The distinguished name of the end entity in slash form.
    pub fn subject(&self) -> &str {
        self.end_entity().subject()
    }

    /// Whether one of the proxies is limited; then all below it are.
    pub fn is_limited(&self) -> bool {
        self.proxies().iter().any(|proxy| proxy.kind == CertificateKind::Proxy(ProxyPolicy::Limited))
    }

    /// The last second in which all of the peer's own certificates are valid.
    pub fn valid_until(&self) -> UnixTime {
        let own = self.certificates.iter().take(self.end_entity + 1);
        own.map(Certificate::valid_until).min().unwrap_or_else(|| self.leaf().valid_until())
    }

    /// The proxies and the end entity as PEM text, the leaf first, as sent to a peer.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn to_pem(&self) -> Result<Vec<u8>, ErrorStack> {
        let mut pem = Vec::new();
        for certificate in self.certificates.iter().take(self.end_entity + 1) {
            pem.extend(certificate.x509.to_pem()?);
        }
        Ok(pem)
    }
}

const PEM_START: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Puts certificates in order from the leaf up, following issuers; authorities that are not linked come last.
fn in_order(mut rest: Vec<Certificate>) -> Result<Vec<Certificate>, ChainError> {
    let has_child = |certificate: &Certificate| {
        let is_child = |other: &Certificate| {
            other != certificate && name::is_same(other.issuer_name(), certificate.subject_name())
        };
        rest.iter().any(is_child)
    };
    let is_leaf = |certificate: &Certificate| certificate.kind != CertificateKind::Authority && !has_child(certificate);
    let mut next = rest.iter().position(is_leaf);
    let mut ordered: Vec<Certificate> = Vec::new();
    while let Some(at) = next {
        let certificate = rest.remove(at);
        next = rest.iter().position(|other| name::is_same(other.subject_name(), certificate.issuer_name()));
        ordered.push(certificate);
    }
    if let Some(apart) = rest.iter().find(|certificate| certificate.kind != CertificateKind::Authority) {
        return Err(ChainError::Apart { subject: apart.subject().to_owned() });
    }
    ordered.append(&mut rest);
    Ok(ordered)
}

/// Checks proxies and, after them, the certificate that signed the first one.
fn check_proxies(certificates: &[Certificate]) -> Result<(), ChainError> {
    for proxy in certificates {
        let subject = || proxy.subject().to_owned();
        match proxy.kind {
            CertificateKind::Authority | CertificateKind::EndEntity => continue,
            CertificateKind::LegacyProxy | CertificateKind::DraftProxy => {
                return Err(ChainError::OldProxy { subject: subject() });
            }
            CertificateKind::Proxy(ProxyPolicy::Independent | ProxyPolicy::Unknown) => {
                return Err(ChainError::ProxyRights { subject: subject() });
            }
            CertificateKind::Proxy(ProxyPolicy::InheritAll | ProxyPolicy::Limited) => {}
        }
        if !name::is_one_common_name_below(proxy.subject_name(), proxy.issuer_name())? {
            return Err(ChainError::ProxyName { subject: subject(), issuer: proxy.issuer.clone() });
        }
    }
    Ok(())
}
