//! Whether the attributes that a chain carries are to be believed.

use crate::voms::attribute_certificate::{AttributeCertificate, AttributeCertificateError, OID_ATTRIBUTE_CERTIFICATES};
use crate::voms::directory::{Servers, VomsDir};
use crate::x509::{Certificate, CertificateError, Chain, ChainError, TrustAnchors, TrustError, TrustRules, is_same};
use crate::{Fqan, FqanError, UnixTime};
use openssl::x509::{X509Name, X509NameRef};

/// How far the clock of a server may be from ours, seconds.
const SKEW_S: i64 = 300;

/// Trust settings of a site.
#[derive(Clone, Copy, Debug)]
pub struct VomsSite<'a> {
    /// The servers that may sign attributes, per organization.
    pub dir: &'a VomsDir,
    /// The authorities of those servers.
    pub trust: &'a TrustAnchors,
    /// Requirements for their chains.
    pub rules: &'a TrustRules,
    /// Our own name, for attribute certificates that are for certain hosts only.
    pub host: &'a str,
}

/// The attributes of a chain.
#[derive(Debug, Default)]
pub struct Attributes {
    /// Verified attributes, the primary one first.
    pub names: Vec<Fqan>,
    /// Why the rest is not; for the log.
    pub refusals: Vec<VomsError>,
    /// The last second in which all that is believed is valid.
    pub valid_until: Option<UnixTime>,
}

/// Why attributes are not believed.
#[derive(Debug, thiserror::Error)]
pub enum VomsError {
    #[error(transparent)]
    Form(#[from] AttributeCertificateError),
    /// Those of an organization, or one of them.
    #[error("attributes of {0}: {1}")]
    Of(String, VomsFault),
}

/// The fault of an organization's attributes.
#[derive(Debug, thiserror::Error)]
pub enum VomsFault {
    #[error("no server may sign them: the vomsdir has no entry for it")]
    UnknownOrganization,
    #[error("they come without the certificate of their server, and the vomsdir has none that fits")]
    NoServer,
    #[error("they were not signed by {server}, as they say")]
    Signature { server: String },
    #[error("{server}, certified by {authority}, may not speak for it: no .lsc file says so")]
    NotListed { server: String, authority: String },
    #[error("a certificate of the server cannot be used: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the certificates of the server do not form a chain: {0}")]
    Chain(#[from] ChainError),
    #[error("the server is not trusted: {0}")]
    Trust(#[from] TrustError),
    #[error("they expired at {} UTC", .at.utc())]
    Expired { at: UnixTime },
    #[error("they are valid from {} UTC on only; are the clocks right?", .from.utc())]
    NotYetValid { from: UnixTime },
    #[error("they are not those of {subject}")]
    Holder { subject: String },
    #[error("they are for other hosts than {host}")]
    Target { host: String },
    #[error("the server may not hand out {attribute}")]
    Foreign { attribute: Fqan },
    #[error("one of them is not a name: {0}")]
    Name(#[from] FqanError),
}

/// The attributes that the chain carries. The last certificate that has any counts; the chain itself must have been verified.
///
/// Costs the verification of one chain for each organization.
#[must_use]
pub fn attributes(chain: &Chain, site: VomsSite<'_>, now: UnixTime) -> Attributes {
    let own = chain.certificates().iter().take(chain.proxies().len() + 1);
    let mut attributes = Attributes::default();
    let Some(extension) =
        own.map(|certificate| certificate.extension(OID_ATTRIBUTE_CERTIFICATES)).find_map(|found| found)
    else {
        return attributes;
    };
    let certificates = match AttributeCertificate::read_all(extension) {
        Ok(certificates) => certificates,
        Err(error) => {
            attributes.refusals.push(error.into());
            return attributes;
        }
    };
    for certificate in certificates {
        match verify(&certificate, chain, site, now) {
            Ok(()) => attributes.take(&certificate),
            Err(fault) => attributes.refuse(&certificate, fault),
        }
    }
    attributes
}

impl Attributes {
    /// When they are believed no longer; `None` if there are none.
    pub fn expires_at(&self) -> Option<UnixTime> {
        let end = self.valid_until?.plus(SKEW_S + 1);
        (!self.names.is_empty()).then_some(end)
    }

    fn refuse(&mut self, certificate: &AttributeCertificate<'_>, fault: VomsFault) {
        self.refusals.push(VomsError::Of(certificate.organization.to_owned(), fault));
    }

    /// Takes the names of an attribute certificate that is believed.
    fn take(&mut self, certificate: &AttributeCertificate<'_>) {
        for name in &certificate.names {
            let name = std::str::from_utf8(name).map_err(|_| FqanError::BadPart).and_then(Fqan::parse);
            match name {
                Ok(name) if name.vo() == certificate.organization => self.names.push(name),
                Ok(attribute) => self.refuse(certificate, VomsFault::Foreign { attribute }),
                Err(error) => self.refuse(certificate, error.into()),
            }
        }
        self.valid_until =
            Some(self.valid_until.map_or(certificate.valid_until, |end| end.min(certificate.valid_until)));
    }
}

fn verify(
    certificate: &AttributeCertificate<'_>,
    chain: &Chain,
    site: VomsSite<'_>,
    now: UnixTime,
) -> Result<(), VomsFault> {
    let servers = site.dir.servers(certificate.organization).ok_or(VomsFault::UnknownOrganization)?;
    let server = if certificate.certificates.is_empty() {
        // The site itself has the server's certificate.
        let server = servers.certificates.iter().find(|server| has_signed(server, certificate));
        Chain::from_certificates(vec![server.ok_or(VomsFault::NoServer)?.clone()])?
    } else {
        server_of_certificate(certificate, servers)?
    };
    site.trust.verify(&server, site.rules, now)?;
    if now > certificate.valid_until.plus(SKEW_S) {
        return Err(VomsFault::Expired { at: certificate.valid_until });
    }
    if now < certificate.valid_from.plus(-SKEW_S) {
        return Err(VomsFault::NotYetValid { from: certificate.valid_from });
    }
    if !is_holder(certificate, chain.end_entity()) {
        return Err(VomsFault::Holder { subject: chain.subject().to_owned() });
    }
    let is_host = |target: &&[u8]| target.eq_ignore_ascii_case(site.host.as_bytes());
    if certificate.targets.as_ref().is_some_and(|targets| !targets.iter().any(is_host)) {
        return Err(VomsFault::Target { host: site.host.to_owned() });
    }
    Ok(())
}

/// The chain that the attribute certificate brings: its first certificate has signed, and an `.lsc` file lists it.
fn server_of_certificate(certificate: &AttributeCertificate<'_>, servers: &Servers) -> Result<Chain, VomsFault> {
    let brought: Vec<_> =
        certificate.certificates.iter().map(|der| Certificate::from_der(der)).collect::<Result<_, _>>()?;
    let server = brought.first().ok_or(VomsFault::NoServer)?.clone();
    // Before its key is worked with: the client may have made the certificate.
    if !servers.lists(&brought) {
        let (server, authority) = (server.subject().to_owned(), server.issuer.clone());
        return Err(VomsFault::NotListed { server, authority });
    }
    let is_not_signed = || VomsFault::Signature { server: server.subject().to_owned() };
    if !has_signed(&server, certificate) {
        return Err(is_not_signed());
    }
    let chain = Chain::from_certificates(brought)?;
    if chain.leaf() == &server { Ok(chain) } else { Err(is_not_signed()) }
}

/// Whether the certificate is that of the server that the attribute certificate names, and its key has signed.
fn has_signed(server: &Certificate, certificate: &AttributeCertificate<'_>) -> bool {
    is_one_of(server, &certificate.issuer_names, Certificate::subject_name)
        && server.public_key().is_ok_and(|key| certificate.is_signed_by(&key))
}

/// Whether the attributes are of the end entity: by serial number, and its issuer's or its own name.
fn is_holder(certificate: &AttributeCertificate<'_>, end_entity: &Certificate) -> bool {
    let serial = end_entity.x509.serial_number().to_bn().map(|serial| serial.to_vec());
    serial.is_ok_and(|serial| serial == certificate.holder_serial)
        && (is_one_of(end_entity, &certificate.holder_names, Certificate::issuer_name)
            || is_one_of(end_entity, &certificate.holder_names, Certificate::subject_name))
}

fn is_one_of(certificate: &Certificate, names: &[&[u8]], of: fn(&Certificate) -> &X509NameRef) -> bool {
    names.iter().any(|der| X509Name::from_der(der).is_ok_and(|name| is_same(&name, of(certificate))))
}
