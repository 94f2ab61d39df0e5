//! One certificate with what the grid's rules ask of it: its names, its times, and whether it is a proxy.

use crate::UnixTime;
use crate::der::{self, Der, DerError, tag};
use crate::x509::name::{self, NameError};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, Public};
use openssl::x509::{X509, X509KeyUsage, X509NameRef, X509Ref};
use std::fmt;

/// Longest certificate that is read, bytes of DER: proxies carry attribute certificates with whole chains inside.
pub const CERTIFICATE_LEN_MAX: usize = 64 << 10;

/// Longest RSA key that is worked with, bits: the time of an operation grows with the square or cube of it.
pub const RSA_BITS_MAX: u32 = 8192;

/// Extensions of a certificate that are looked at; more are not found in practice.
const EXTENSIONS_MAX: usize = 64;

/// proxyCertInfo of RFC 3820: 1.3.6.1.5.5.7.1.14.
const OID_PROXY_INFO: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 14];
/// proxyCertInfo of the draft that Globus 3 implemented: 1.3.6.1.4.1.3536.1.222.
const OID_DRAFT_PROXY_INFO: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 0x81, 0x5e];
/// Policy of a proxy that may do what its issuer may: 1.3.6.1.5.5.7.21.1.
const OID_INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
/// Policy of a proxy with rights of its own only: 1.3.6.1.5.5.7.21.2.
const OID_INDEPENDENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
/// Policy of a proxy that may not start jobs: 1.3.6.1.4.1.3536.1.1.1.9.
const OID_LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];
const OID_BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];

/// The role of a certificate in a chain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateKind {
    Authority,
    /// A person, a robot or a host.
    EndEntity,
    /// A proxy after RFC 3820.
    Proxy(ProxyPolicy),
    /// A proxy after the draft of Globus 3.
    DraftProxy,
    /// A proxy of Globus 2: no extension, just a name that ends in `CN=proxy` or `CN=limited proxy`.
    LegacyProxy,
}

/// The rights that a proxy inherits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProxyPolicy {
    /// All that the issuer may.
    InheritAll,
    /// All but starting jobs.
    Limited,
    /// Nothing: it has rights of its own only.
    Independent,
    /// Those of a policy in an unknown language.
    Unknown,
}

/// Why a certificate was refused, independent of its signer.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("a certificate of {len} bytes, more than {CERTIFICATE_LEN_MAX}")]
    TooLong { len: usize },
    #[error("a certificate that cannot be read")]
    Der(#[from] DerError),
    #[error("a certificate with too many extensions, or one of them twice")]
    Extensions,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the certificate of {subject} has a key that is not used: {bits} bits")]
    Key { subject: String, bits: u32 },
    #[error("a certificate that the crypto library cannot read")]
    Library(#[from] ErrorStack),
}

/// A certificate that was read, but not verified.
#[derive(Clone)]
pub struct Certificate {
    /// The crypto library's certificate.
    pub x509: X509,
    subject: String,
    pub issuer: String,
    /// The first second in which it is valid.
    pub valid_from: UnixTime,
    valid_until: UnixTime,
    /// Its role in a chain.
    pub kind: CertificateKind,
    der: Vec<u8>,
}

impl Certificate {
    /// Reads DER.
    ///
    /// # Errors
    /// When it is not a certificate, or an unsafe one.
    pub fn from_der(bytes: &[u8]) -> Result<Self, CertificateError> {
        if bytes.len() > CERTIFICATE_LEN_MAX {
            return Err(CertificateError::TooLong { len: bytes.len() });
        }
        Self::from_x509(X509::from_der(bytes)?)
    }

    /// Takes a certificate that the crypto library has read.
    ///
    /// # Errors
    /// See [`Certificate::from_der`].
    pub fn from_x509(x509: X509) -> Result<Self, CertificateError> {
        let der = x509.to_der()?;
        if der.len() > CERTIFICATE_LEN_MAX {
            return Err(CertificateError::TooLong { len: der.len() });
        }
        let fields = Fields::read(&der)?;
        let (subject, issuer) = (name::slash_form(x509.subject_name())?, name::slash_form(x509.issuer_name())?);
        let bits = key_bits(&x509);
        if !(1..=RSA_BITS_MAX).contains(&bits) {
            return Err(CertificateError::Key { subject, bits });
        }
        let kind = kind_of(&x509, &fields)?;
        let (valid_from, valid_until) = (fields.valid_from, fields.valid_until);
        Ok(Self { x509, subject, issuer, valid_from, valid_until, kind, der })
    }

    /// Whether it is a proxy of any kind.
    pub const fn is_proxy(&self) -> bool {
        matches!(self.kind, CertificateKind::Proxy(_) | CertificateKind::DraftProxy | CertificateKind::LegacyProxy)
    }

    /// Its subject, in slash form.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The subject as X.509 compares it.
    pub fn subject_name(&self) -> &X509NameRef {
        self.x509.subject_name()
    }

    /// The issuer as X.509 compares it.
    pub fn issuer_name(&self) -> &X509NameRef {
        self.x509.issuer_name()
    }

    /// The last second in which it is valid.
    pub const fn valid_until(&self) -> UnixTime {
        self.valid_until
    }

    /// # Errors
    /// When the crypto library fails.
    pub fn public_key(&self) -> Result<PKey<Public>, ErrorStack> {
        self.x509.public_key()
    }

    /// Whether its key may sign data: no key usage is stated, or this one is.
    pub fn may_sign(&self) -> bool {
        self.x509.key_usage().is_none_or(|usage| usage.contains(X509KeyUsage::DIGITAL_SIGNATURE))
    }

    /// The names of its issuer's file in a directory of authorities, `hash.0`, today's kind first.
    pub fn issuer_hashes(&self) -> Vec<String> {
        let hashes = [Some(self.x509.issuer_name_hash()), name::old_hash(self.x509.issuer_name())];
        hashes.into_iter().flatten().map(|hash| format!("{hash:08x}.0")).collect()
    }

    /// The bytes of an extension, if it has it.
    pub(crate) fn extension(&self, oid: &[u8]) -> Option<&[u8]> {
        let fields = Fields::read(&self.der).ok()?;
        fields.extension(oid).map(|extension| extension.value)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Certificate({:?} by {:?}, {:?})", self.subject, self.issuer, self.kind)
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

/// The parts of a certificate that the crypto library does not give out.
struct Fields<'a> {
    valid_from: UnixTime,
    valid_until: UnixTime,
    extensions: Vec<Extension<'a>>,
}

pub(crate) struct Extension<'a> {
    pub(crate) oid: &'a [u8],
    pub(crate) is_critical: bool,
    pub(crate) value: &'a [u8],
}

impl<'a> Fields<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, CertificateError> {
        let mut outer = der::only(bytes, tag::SEQUENCE)?.elements();
        let mut fields = outer.expect(tag::SEQUENCE)?.elements();
        fields.optional(tag::context(0))?;
        fields.expect(tag::INTEGER)?;
        fields.expect(tag::SEQUENCE)?;
        fields.expect(tag::SEQUENCE)?;
        let mut validity = fields.expect(tag::SEQUENCE)?.elements();
        let (valid_from, valid_until) = (der::time(&validity.element()?)?, der::time(&validity.element()?)?);
        fields.expect(tag::SEQUENCE)?;
        fields.expect(tag::SEQUENCE)?;
        fields.optional(tag::context_plain(1))?;
        fields.optional(tag::context_plain(2))?;
        let extensions = match fields.optional(tag::context(3))? {
            Some(wrapped) => read_extensions(der::only(wrapped.content, tag::SEQUENCE)?.elements())?,
            None => Vec::new(),
        };
        Ok(Self { valid_from, valid_until, extensions })
    }

    fn extension(&self, oid: &[u8]) -> Option<&Extension<'a>> {
        self.extensions.iter().find(|extension| extension.oid == oid)
    }
}

/// Reads the elements of `Extensions`.
pub(crate) fn read_extensions(mut der: Der<'_>) -> Result<Vec<Extension<'_>>, CertificateError> {
    let mut extensions: Vec<Extension<'_>> = Vec::new();
    while !der.is_empty() {
        let mut parts = der.expect(tag::SEQUENCE)?.elements();
        let oid = parts.expect(tag::OID)?.content;
        let is_critical = parts.optional(tag::BOOLEAN)?.is_some_and(|flag| flag.content != [0]);
        let value = parts.expect(tag::OCTET_STRING)?.content;
        if extensions.len() == EXTENSIONS_MAX || extensions.iter().any(|known| known.oid == oid) {
            return Err(CertificateError::Extensions);
        }
        extensions.push(Extension { oid, is_critical, value });
    }
    Ok(extensions)
}

fn key_bits(x509: &X509Ref) -> u32 {
    let Ok(key) = x509.public_key() else { return 0 };
    match key.id() {
        Id::RSA | Id::RSA_PSS | Id::EC | Id::ED25519 | Id::ED448 => key.bits(),
        _ => 0,
    }
}

fn kind_of(x509: &X509Ref, fields: &Fields<'_>) -> Result<CertificateKind, CertificateError> {
    if let Some(info) = fields.extension(OID_PROXY_INFO) {
        return Ok(CertificateKind::Proxy(policy_of(info.value)?));
    }
    if fields.extension(OID_DRAFT_PROXY_INFO).is_some() {
        return Ok(CertificateKind::DraftProxy);
    }
    let is_legacy_name = matches!(name::last_common_name(x509.subject_name()), Some(b"proxy" | b"limited proxy"));
    if is_legacy_name && name::is_one_common_name_below(x509.subject_name(), x509.issuer_name())? {
        return Ok(CertificateKind::LegacyProxy);
    }
    let is_authority = match fields.extension(OID_BASIC_CONSTRAINTS) {
        Some(constraints) => states_authority(constraints.value)?,
        None => name::is_same(x509.subject_name(), x509.issuer_name()),
    };
    Ok(if is_authority { CertificateKind::Authority } else { CertificateKind::EndEntity })
}

/// Reads `ProxyCertInfo ::= SEQUENCE { pathLen INTEGER OPTIONAL, SEQUENCE { language OID, policy OPTIONAL } }`.
fn policy_of(info: &[u8]) -> Result<ProxyPolicy, CertificateError> {
    let mut info = der::only(info, tag::SEQUENCE)?.elements();
    info.optional(tag::INTEGER)?;
    let mut policy = info.expect(tag::SEQUENCE)?.elements();
    Ok(match policy.expect(tag::OID)?.content {
        OID_INHERIT_ALL => ProxyPolicy::InheritAll,
        OID_LIMITED => ProxyPolicy::Limited,
        OID_INDEPENDENT => ProxyPolicy::Independent,
        _ => ProxyPolicy::Unknown,
    })
}

/// Reads `BasicConstraints ::= SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLen INTEGER OPTIONAL }`.
fn states_authority(constraints: &[u8]) -> Result<bool, CertificateError> {
    let mut constraints = der::only(constraints, tag::SEQUENCE)?.elements();
    Ok(constraints.optional(tag::BOOLEAN)?.is_some_and(|flag| flag.content != [0]))
}
