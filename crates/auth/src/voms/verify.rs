//! Whether the attributes that a chain carries are to be believed.

use crate::voms::attribute_certificate::{AttributeCertificate, AttributeCertificateError, OID_ATTRIBUTE_CERTIFICATES};
use crate::voms::directory::{Servers, VomsDir};
use crate::x509::{
    Certificate, CertificateError, Chain, ChainError, TrustAnchors, TrustError, TrustRules, is_same, utc::Utc,
};
use crate::{Fqan, FqanError, UnixTime};
use openssl::x509::X509Name;

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

/// Why an attribute certificate, or one of its attributes, is not believed.
#[derive(Debug, thiserror::Error)]
pub enum VomsError {
    /// It cannot be read.
    #[error(transparent)]
    Form(#[from] AttributeCertificateError),
    #[error("no server may sign attributes of {organization}: the vomsdir has no entry for it")]
    UnknownOrganization { organization: String },
    #[error(
        "the attributes of {organization} come without the certificate of their server, and the vomsdir has none that fits"
    )]
    NoServer { organization: String },
    #[error("the attributes of {organization} were not signed by {server}, as they say")]
    Signature { organization: String, server: String },
    #[error("{server}, certified by {authority}, may not speak for {organization}: no .lsc file says so")]
    NotListed { organization: String, server: String, authority: String },
    #[error("a certificate of the server of {organization} cannot be used")]
    Certificate { organization: String, source: CertificateError },
    #[error("the certificates of the server of {organization} do not form a chain")]
    Chain { organization: String, source: ChainError },
    #[error("the server of {organization} is not trusted")]
    Trust { organization: String, source: TrustError },
    #[error("the attributes of {organization} expired at {}", Utc(*.at))]
    Expired { organization: String, at: UnixTime },
    #[error("the attributes of {organization} are valid from {} on only; are the clocks right?", Utc(*.from))]
    NotYetValid { organization: String, from: UnixTime },
    #[error("the attributes of {organization} are not those of {subject}")]
    Holder { organization: String, subject: String },
    #[error("the attributes of {organization} are for other hosts than {host}")]
    Target { organization: String, host: String },
    #[error("the server of {organization} may not hand out {attribute}")]
    Foreign { organization: String, attribute: Fqan },
    #[error("an attribute of {organization} is not a name")]
    Name { organization: String, source: FqanError },
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
            Err(error) => attributes.refusals.push(error),
        }
    }
    attributes
}

impl Attributes {
    /// Takes the names of an attribute certificate that is believed.
    fn take(&mut self, certificate: &AttributeCertificate<'_>) {
        let organization = || certificate.organization.to_owned();
        for name in &certificate.names {
            let name = std::str::from_utf8(name).map_err(|_| FqanError::BadPart).and_then(Fqan::parse);
            match name {
                Ok(name) if name.vo() == certificate.organization => self.names.push(name),
                Ok(attribute) => self.refusals.push(VomsError::Foreign { organization: organization(), attribute }),
                Err(source) => self.refusals.push(VomsError::Name { organization: organization(), source }),
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
) -> Result<(), VomsError> {
    let organization = || certificate.organization.to_owned();
    let servers = site.dir.servers(certificate.organization);
    let servers = servers.ok_or_else(|| VomsError::UnknownOrganization { organization: organization() })?;
    let server = if certificate.certificates.is_empty() {
        server_of_directory(certificate, servers)?
    } else {
        server_of_certificate(certificate, servers)?
    };
    let verdict = site.trust.verify(&server, site.rules, now);
    verdict.map_err(|source| VomsError::Trust { organization: organization(), source })?;
    if now > certificate.valid_until.plus(SKEW_S) {
        return Err(VomsError::Expired { organization: organization(), at: certificate.valid_until });
    }
    if now < certificate.valid_from.plus(-SKEW_S) {
        return Err(VomsError::NotYetValid { organization: organization(), from: certificate.valid_from });
    }
    if !is_holder(certificate, chain.end_entity()) {
        return Err(VomsError::Holder { organization: organization(), subject: chain.subject().to_owned() });
    }
    let is_host = |target: &&[u8]| target.eq_ignore_ascii_case(site.host.as_bytes());
    if certificate.targets.as_ref().is_some_and(|targets| !targets.iter().any(is_host)) {
        return Err(VomsError::Target { organization: organization(), host: site.host.to_owned() });
    }
    Ok(())
}

/// The chain that the attribute certificate brings: its first certificate has signed, and an `.lsc` file lists it.
fn server_of_certificate(certificate: &AttributeCertificate<'_>, servers: &Servers) -> Result<Chain, VomsError> {
    let organization = || certificate.organization.to_owned();
    let brought = certificate.certificates.iter().map(|der| Certificate::from_der(der)).collect::<Result<Vec<_>, _>>();
    let brought = brought.map_err(|source| VomsError::Certificate { organization: organization(), source })?;
    let server = brought.first().ok_or_else(|| VomsError::NoServer { organization: organization() })?;
    if !has_signed(server, certificate) {
        return Err(VomsError::Signature { organization: organization(), server: server.subject().to_owned() });
    }
    if !servers.lists(&brought) {
        return Err(VomsError::NotListed {
            organization: organization(),
            server: server.subject().to_owned(),
            authority: server.issuer().to_owned(),
        });
    }
    let signer = server.clone();
    let chain = Chain::from_certificates(brought);
    let chain = chain.map_err(|source| VomsError::Chain { organization: organization(), source })?;
    if chain.leaf() == &signer {
        Ok(chain)
    } else {
        Err(VomsError::Signature { organization: organization(), server: signer.subject().to_owned() })
    }
}

/// The server whose certificate the site itself has.
fn server_of_directory(certificate: &AttributeCertificate<'_>, servers: &Servers) -> Result<Chain, VomsError> {
    let organization = || certificate.organization.to_owned();
    let mut known = servers.certificates.iter();
    let server = known.find(|server| has_signed(server, certificate));
    let server = server.ok_or_else(|| VomsError::NoServer { organization: organization() })?;
    let chain = Chain::from_certificates(vec![server.clone()]);
    chain.map_err(|source| VomsError::Chain { organization: organization(), source })
}

/// Whether the certificate is that of the server that the attribute certificate names, and its key has signed.
fn has_signed(server: &Certificate, certificate: &AttributeCertificate<'_>) -> bool {
    is_one_of(server, &certificate.issuer_names, Certificate::subject_name)
        && server.public_key().is_ok_and(|key| certificate.is_signed_by(&key))
}

/// Whether the attributes are of the end entity: by serial number, and its issuer's or its own name.
fn is_holder(certificate: &AttributeCertificate<'_>, end_entity: &Certificate) -> bool {
    let serial = end_entity.x509().serial_number().to_bn().map(|serial| serial.to_vec());
    serial.is_ok_and(|serial| serial == certificate.holder_serial)
        && (is_one_of(end_entity, &certificate.holder_names, Certificate::issuer_name)
            || is_one_of(end_entity, &certificate.holder_names, Certificate::subject_name))
}

fn is_one_of(
    certificate: &Certificate,
    names: &[&[u8]],
    of: impl Fn(&Certificate) -> &openssl::x509::X509NameRef,
) -> bool {
    names.iter().any(|der| X509Name::from_der(der).is_ok_and(|name| is_same(&name, of(certificate))))
}
