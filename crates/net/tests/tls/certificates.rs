//! CAs, hosts and people for one test each.

use openssl::{
    asn1::{Asn1Integer, Asn1Time},
    bn::{BigNum, MsbOption},
    ec::{EcGroup, EcKey},
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    x509::{
        X509, X509Builder, X509Name,
        extension::{BasicConstraints, KeyUsage, SubjectAlternativeName},
    },
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const DAY_SECONDS: i64 = 86_400;

/// A certificate and its key.
pub(crate) struct Issued {
    pub(crate) certificate: X509,
    pub(crate) key: PKey<Private>,
}

/// What a certificate is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Ca,
    /// A host of these names; those that are addresses count as such.
    Host(&'a [&'a str]),
}

impl Issued {
    /// A CA of its own.
    pub(crate) fn ca(name: &str) -> Self {
        Self::make(name, Purpose::Ca, (-1, 10), None)
    }

    /// A CA that this one vouches for.
    pub(crate) fn ca_below(&self, name: &str) -> Self {
        Self::make(name, Purpose::Ca, (-1, 10), Some(self))
    }

    /// A host's certificate that is valid today.
    pub(crate) fn host(&self, names: &[&str]) -> Self {
        self.host_valid(names, (-1, 10))
    }

    /// A host's certificate that is valid between these days from now.
    pub(crate) fn host_valid(&self, names: &[&str], days: (i64, i64)) -> Self {
        Self::make("host", Purpose::Host(names), days, Some(self))
    }

    fn make(name: &str, purpose: Purpose<'_>, (first, last): (i64, i64), issuer: Option<&Self>) -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let subject = name_of(name);
        let mut builder = X509Builder::new().unwrap();
        let mut serial = BigNum::new().unwrap();
        serial.rand(120, MsbOption::MAYBE_ZERO, false).unwrap();
        builder.set_version(2).unwrap();
        builder.set_serial_number(&Asn1Integer::from_bn(&serial).unwrap()).unwrap();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(issuer.map_or(&*subject, |issuer| issuer.certificate.subject_name())).unwrap();
        builder.set_pubkey(&key).unwrap();
        let now = forebay_net::clock::now_unix();
        builder.set_not_before(&Asn1Time::from_unix(now + first * DAY_SECONDS).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(now + last * DAY_SECONDS).unwrap()).unwrap();
        match purpose {
            Purpose::Ca => {
                builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
                builder
                    .append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build().unwrap())
                    .unwrap();
            }
            Purpose::Host(names) => {
                let mut alternatives = SubjectAlternativeName::new();
                for name in names {
                    if name.parse::<std::net::IpAddr>().is_ok() {
                        alternatives.ip(name)
                    } else {
                        alternatives.dns(name)
                    };
                }
                let extension = alternatives.build(&builder.x509v3_context(None, None)).unwrap();
                builder.append_extension(extension).unwrap();
            }
        }
        builder.sign(issuer.map_or(&key, |issuer| &issuer.key), MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }

    /// Writes certificate and key where `directory` says, readable by nobody else.
    pub(crate) fn write(&self, directory: &Path) -> forebay_net::Credential {
        let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        fs::write(&key, self.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&certificate, self.certificate.to_pem().unwrap()).unwrap();
        forebay_net::Credential { certificate, key }
    }

    /// Puts a CA into a directory of trusted ones.
    pub(crate) fn trust_in(&self, directory: &Path) {
        let name = format!("{:08x}.0", self.certificate.subject_name_hash());
        fs::write(directory.join(name), self.certificate.to_pem().unwrap()).unwrap();
    }
}

fn name_of(common_name: &str) -> X509Name {
    let mut name = X509Name::builder().unwrap();
    name.append_entry_by_nid(Nid::COMMONNAME, common_name).unwrap();
    name.build()
}
