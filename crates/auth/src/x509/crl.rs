//! Revocation lists of authorities.

use crate::UnixTime;
use crate::der::{self, DerError, tag};
use crate::x509::certificate::{Certificate, CertificateError, read_extensions};
use crate::x509::name;
use openssl::error::ErrorStack;
use openssl::x509::{CrlStatus, X509Crl, X509KeyUsage};
use std::fmt;

/// Longest list that is read, bytes: the largest of the grid's authorities have a few megabytes.
pub const CRL_LEN_MAX: usize = 32 << 20;

/// Why bytes were refused as a revocation list.
#[derive(Debug, thiserror::Error)]
pub enum CrlError {
    #[error("a revocation list of {len} bytes, more than {CRL_LEN_MAX}")]
    TooLong { len: usize },
    #[error("a revocation list that cannot be read")]
    Der(#[from] DerError),
    #[error("a revocation list with a critical extension that is not supported")]
    Partial,
    #[error("a revocation list whose extensions cannot be read")]
    Extensions(#[source] CertificateError),
    #[error("a revocation list that the authority which it names has not signed")]
    Signature,
    #[error("a revocation list that the crypto library cannot read")]
    Library(#[from] ErrorStack),
}

/// A revocation list that was read; whether its authority signed it is checked with each use.
pub struct RevocationList {
    crl: X509Crl,
    pub(crate) made_at: UnixTime,
    /// When the next one should be there; without it the list does not age.
    pub next_at: Option<UnixTime>,
}

impl RevocationList {
    /// Reads PEM or DER.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, CrlError> {
        if bytes.len() > CRL_LEN_MAX {
            return Err(CrlError::TooLong { len: bytes.len() });
        }
        let is_der = bytes.first() == Some(&tag::SEQUENCE);
        let crl = if is_der { X509Crl::from_der(bytes)? } else { X509Crl::from_pem(bytes)? };
        let der = crl.to_der()?;
        let (made_at, next_at) = read_times(&der)?;
        Ok(Self { crl, made_at, next_at })
    }

    /// Whether `authority` made and signed the list.
    pub(crate) fn is_of(&self, authority: &Certificate) -> bool {
        let may_sign_lists = || authority.x509.key_usage().is_none_or(|usage| usage.contains(X509KeyUsage::CRL_SIGN));
        let has_signed = || authority.public_key().is_ok_and(|key| self.crl.verify(&key).unwrap_or(false));
        self.names(authority) && may_sign_lists() && has_signed()
    }

    /// Whether the list says that it is one of `authority`.
    pub(crate) fn names(&self, authority: &Certificate) -> bool {
        name::is_same(self.crl.issuer_name(), authority.subject_name())
    }

    /// Whether the list names the certificate, which its authority has signed.
    pub(crate) fn revokes(&self, certificate: &Certificate) -> bool {
        matches!(self.crl.get_by_serial(certificate.x509.serial_number()), CrlStatus::Revoked(_))
    }
}

impl fmt::Debug for RevocationList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RevocationList({} to {:?})", self.made_at, self.next_at)
    }
}

/// Reads the times of a list, and refuses critical extensions.
fn read_times(der: &[u8]) -> Result<(UnixTime, Option<UnixTime>), CrlError> {
    let mut outer = der::only(der, tag::SEQUENCE)?.elements();
    let mut fields = outer.expect(tag::SEQUENCE)?.elements();
    fields.optional(tag::INTEGER)?;
    fields.expect(tag::SEQUENCE)?;
    fields.expect(tag::SEQUENCE)?;
    let made_at = der::time(&fields.element()?)?;
    let next_at = match (fields.optional(tag::UTC_TIME)?, fields.optional(tag::GENERALIZED_TIME)?) {
        (Some(time), _) | (None, Some(time)) => Some(der::time(&time)?),
        (None, None) => None,
    };
    fields.optional(tag::SEQUENCE)?;
    if let Some(wrapped) = fields.optional(tag::context(0))? {
        let extensions = der::only(wrapped.content, tag::SEQUENCE)?.elements();
        let extensions = read_extensions(extensions).map_err(CrlError::Extensions)?;
        if extensions.iter().any(|extension| extension.is_critical) {
            return Err(CrlError::Partial);
        }
    }
    Ok((made_at, next_at))
}
