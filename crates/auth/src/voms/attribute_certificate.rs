//! Attribute certificates as VOMS servers make them (RFC 5755 with extensions of VOMS), read from the extension of a proxy.

use crate::UnixTime;
use crate::der::{self, Der, DerError, Element, tag};
use openssl::hash::MessageDigest;
use openssl::pkey::{HasPublic, PKeyRef};
use openssl::sign::Verifier;

/// Most attribute certificates of a proxy: one for each organization.
pub const ATTRIBUTE_CERTIFICATES_MAX: usize = 16;

/// Most attributes of an attribute certificate.
pub const ATTRIBUTES_MAX: usize = 256;

/// Most extensions of an attribute certificate, certificates in one of them, and names in another.
const ELEMENTS_MAX: usize = 16;

/// The extension of proxies: 1.3.6.1.4.1.8005.100.100.5.
pub(crate) const OID_ATTRIBUTE_CERTIFICATES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 5];
/// Attributes as names: 1.3.6.1.4.1.8005.100.100.4.
const OID_NAMES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 4];
/// The server's certificates: 1.3.6.1.4.1.8005.100.100.10.
const OID_CERTIFICATES: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 10];
/// Attributes as pairs of name and value: 1.3.6.1.4.1.8005.100.100.11.
const OID_TAGS: &[u8] = &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 11];
const OID_AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 35];
const OID_TARGETS: &[u8] = &[0x55, 0x1d, 55];
const OID_NO_REVOCATION: &[u8] = &[0x55, 0x1d, 56];

/// The algorithms of signatures: RSA and ECDSA with SHA-2. SHA-1 is not accepted.
const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1];
const OID_ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3];

/// Why an attribute certificate cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttributeCertificateError {
    #[error("attribute certificates that cannot be read")]
    Der(#[from] DerError),
    #[error("attribute certificates with more parts than are read")]
    TooMany,
    #[error("an attribute certificate of a version that is not known")]
    Version,
    #[error("an attribute certificate that names no organization")]
    NoOrganization,
    #[error("an attribute certificate with a signature that is not RSA or ECDSA with SHA-2")]
    Algorithm,
    #[error("an attribute certificate with a critical extension that is not known")]
    Extension,
}

/// One attribute certificate; borrows from the proxy.
pub(crate) struct AttributeCertificate<'a> {
    info: &'a [u8],
    digest: MessageDigest,
    signature: &'a [u8],
    /// Names of the holder's issuer, or of the holder: DER.
    pub(crate) holder_names: Vec<&'a [u8]>,
    /// The magnitude of the serial number of the holder's certificate.
    pub(crate) holder_serial: &'a [u8],
    /// Names of the server: DER.
    pub(crate) issuer_names: Vec<&'a [u8]>,
    pub(crate) valid_from: UnixTime,
    pub(crate) valid_until: UnixTime,
    /// The name of the organization.
    pub(crate) organization: &'a str,
    /// The attributes' names, not yet read.
    pub(crate) names: Vec<&'a [u8]>,
    /// The server's certificate and those above it: DER.
    pub(crate) certificates: Vec<&'a [u8]>,
    /// The hosts that it is for; `None` when it is for all.
    pub(crate) targets: Option<Vec<&'a [u8]>>,
}

impl<'a> AttributeCertificate<'a> {
    /// Reads the value of a proxy's extension: a sequence of a sequence of attribute certificates.
    pub(crate) fn read_all(extension: &'a [u8]) -> Result<Vec<Self>, AttributeCertificateError> {
        nested_list(extension, ATTRIBUTE_CERTIFICATES_MAX)?.iter().map(Self::read).collect()
    }

    /// Whether the key has made the signature.
    pub(crate) fn is_signed_by<T: HasPublic>(&self, key: &PKeyRef<T>) -> bool {
        Verifier::new(self.digest, key)
            .and_then(|mut verifier| verifier.verify_oneshot(self.signature, self.info))
            .unwrap_or(false)
    }

    fn read(element: &Element<'a>) -> Result<Self, AttributeCertificateError> {
        let mut parts = element.elements();
        let info = parts.expect(tag::SEQUENCE)?;
        let algorithm = parts.expect(tag::SEQUENCE)?;
        let signature = parts.expect(tag::BIT_STRING)?.content;
        parts.end()?;
        let mut fields = info.elements();
        if fields.expect(tag::INTEGER)?.content != [1] {
            return Err(AttributeCertificateError::Version);
        }
        let (holder_names, holder_serial) = read_holder(fields.expect(tag::SEQUENCE)?)?;
        let issuer = fields.expect(tag::context(0))?.elements().expect(tag::SEQUENCE)?;
        if fields.expect(tag::SEQUENCE)?.whole != algorithm.whole {
            return Err(AttributeCertificateError::Algorithm);
        }
        fields.expect(tag::INTEGER)?;
        let mut validity = fields.expect(tag::SEQUENCE)?.elements();
        let (valid_from, valid_until) = (der::time(&validity.element()?)?, der::time(&validity.element()?)?);
        let (organization, names) = read_attributes(fields.expect(tag::SEQUENCE)?)?;
        fields.optional(tag::BIT_STRING)?;
        let mut certificate = Self {
            info: info.whole,
            digest: digest_of(algorithm)?,
            signature: signature.strip_prefix(&[0]).ok_or(DerError::Form)?,
            holder_names,
            holder_serial,
            issuer_names: directory_names(issuer)?,
            valid_from,
            valid_until,
            organization,
            names,
            certificates: Vec::new(),
            targets: None,
        };
        if let Some(extensions) = fields.optional(tag::SEQUENCE)? {
            certificate.read_extensions(extensions.elements())?;
        }
        Ok(certificate)
    }

    fn read_extensions(&mut self, extensions: Der<'a>) -> Result<(), AttributeCertificateError> {
        for extension in list(extensions, tag::SEQUENCE, ELEMENTS_MAX)? {
            let mut parts = extension.elements();
            let oid = parts.expect(tag::OID)?.content;
            let is_critical = parts.optional(tag::BOOLEAN)?.is_some_and(|flag| flag.content != [0]);
            let value = parts.expect(tag::OCTET_STRING)?.content;
            match oid {
                OID_CERTIFICATES => {
                    let all = nested_list(value, ELEMENTS_MAX)?;
                    self.certificates = all.iter().map(|certificate| certificate.whole).collect();
                }
                OID_TARGETS => self.targets = Some(read_targets(der::only(value, tag::SEQUENCE)?)?),
                OID_TAGS | OID_AUTHORITY_KEY | OID_NO_REVOCATION => {}
                _ if is_critical => return Err(AttributeCertificateError::Extension),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The sequences of a sequence in a sequence.
fn nested_list(bytes: &[u8], count_max: usize) -> Result<Vec<Element<'_>>, AttributeCertificateError> {
    let outer = der::only(bytes, tag::SEQUENCE)?;
    list(der::only(outer.content, tag::SEQUENCE)?.elements(), tag::SEQUENCE, count_max)
}

/// The elements of a list, which all have the tag.
fn list(mut der: Der<'_>, tag: u8, count_max: usize) -> Result<Vec<Element<'_>>, AttributeCertificateError> {
    let mut elements = Vec::new();
    while !der.is_empty() {
        if elements.len() == count_max {
            return Err(AttributeCertificateError::TooMany);
        }
        elements.push(der.expect(tag)?);
    }
    Ok(elements)
}

/// Reads `SEQUENCE { [0] { SEQUENCE { [4] Name }, serial, ... } }`.
fn read_holder(holder: Element<'_>) -> Result<(Vec<&[u8]>, &[u8]), AttributeCertificateError> {
    let mut base = holder.elements().expect(tag::context(0))?.elements();
    let names = directory_names(base.expect(tag::SEQUENCE)?)?;
    let serial = der::magnitude(base.expect(tag::INTEGER)?.content);
    Ok((names, serial))
}

/// The names of the kind `[4] Name` among `GeneralNames`.
fn directory_names(names: Element<'_>) -> Result<Vec<&[u8]>, AttributeCertificateError> {
    let mut der = names.elements();
    let mut found = Vec::new();
    while !der.is_empty() {
        let name = der.element()?;
        if found.len() == ELEMENTS_MAX {
            return Err(AttributeCertificateError::TooMany);
        }
        if name.tag == tag::context(4) {
            found.push(der::only(name.content, tag::SEQUENCE)?.whole);
        }
    }
    Ok(found)
}

/// Reads `SEQUENCE OF SEQUENCE { OID, SET { SEQUENCE { [0] { [6] "vo://host:port" }, SEQUENCE OF OCTET STRING } } }`.
fn read_attributes(attributes: Element<'_>) -> Result<(&str, Vec<&[u8]>), AttributeCertificateError> {
    for attribute in list(attributes.elements(), tag::SEQUENCE, ELEMENTS_MAX)? {
        let mut parts = attribute.elements();
        if parts.expect(tag::OID)?.content != OID_NAMES {
            continue;
        }
        let mut values = parts.expect(tag::SET)?.elements().expect(tag::SEQUENCE)?.elements();
        let authority = values.optional(tag::context(0))?.ok_or(AttributeCertificateError::NoOrganization)?;
        let authority = authority.elements().expect(tag::context_plain(6))?.content;
        let authority = std::str::from_utf8(authority).ok().and_then(|text| text.split_once("://"));
        let (organization, _) = authority.ok_or(AttributeCertificateError::NoOrganization)?;
        if organization.is_empty() {
            return Err(AttributeCertificateError::NoOrganization);
        }
        let names = list(values.expect(tag::SEQUENCE)?.elements(), tag::OCTET_STRING, ATTRIBUTES_MAX)?;
        return Ok((organization, names.iter().map(|name| name.content).collect()));
    }
    Err(AttributeCertificateError::NoOrganization)
}

/// The hosts of `SEQUENCE OF Target`: DNS names and URIs, in whatever wrapping; three levels are looked through.
fn read_targets(targets: Element<'_>) -> Result<Vec<&[u8]>, AttributeCertificateError> {
    let mut hosts = Vec::new();
    let mut level = vec![targets];
    for _ in 0..4 {
        let mut next = Vec::new();
        for element in level {
            let mut der = element.elements();
            while !der.is_empty() {
                let inner = der.element()?;
                if next.len() + hosts.len() == ELEMENTS_MAX * 4 {
                    return Err(AttributeCertificateError::TooMany);
                }
                match inner.tag {
                    tag::SEQUENCE | 0xa0 | 0xa1 => next.push(inner),
                    0x82 | 0x86 => hosts.push(inner.content),
                    _ => {}
                }
            }
        }
        level = next;
    }
    Ok(hosts)
}

fn digest_of(algorithm: Element<'_>) -> Result<MessageDigest, AttributeCertificateError> {
    let oid = algorithm.elements().expect(tag::OID)?.content;
    let (kind, last) = oid.split_at_checked(oid.len().saturating_sub(1)).ok_or(DerError::Form)?;
    match (kind, last) {
        (OID_RSA, [11]) | (OID_ECDSA, [2]) => Ok(MessageDigest::sha256()),
        (OID_RSA, [12]) | (OID_ECDSA, [3]) => Ok(MessageDigest::sha384()),
        (OID_RSA, [13]) | (OID_ECDSA, [4]) => Ok(MessageDigest::sha512()),
        _ => Err(AttributeCertificateError::Algorithm),
    }
}
