//! A certification authority, and certificates of hosts and people that it has signed.

use anyhow::Result;
use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName, SubjectKeyIdentifier,
};
use openssl::x509::{X509, X509Builder, X509Name};

/// A certificate and its key.
pub(super) struct Holder {
    pub(super) certificate: X509,
    pub(super) key: PKey<Private>,
}

/// The kind of certificate to make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Authority,
    /// The host that all servers of the benchmark run on.
    Host,
    Person,
}

/// Length of all keys, as the grid's certificates have it.
const KEY_BITS: u32 = 2048;

/// Bits of serial numbers.
const SERIAL_BITS: i32 = 63;

/// The first half of every name.
const DOMAIN: [&str; 2] = ["bench", "grid"];

impl Holder {
    /// Makes a key and a certificate for it, signed by `issuer` or by itself; valid for a day.
    pub(super) fn new(common_name: &str, kind: Kind, issuer: Option<&Self>) -> Result<Self> {
        let key = PKey::from_rsa(Rsa::generate(KEY_BITS)?)?;
        let subject = name(common_name)?;
        let mut builder = X509Builder::new()?;
        builder.set_version(2)?;
        let mut serial = BigNum::new()?;
        serial.rand(SERIAL_BITS, MsbOption::ONE, false)?;
        builder.set_serial_number(&*serial.to_asn1_integer()?)?;
        builder.set_subject_name(&subject)?;
        builder.set_issuer_name(issuer.map_or(&*subject, |issuer| issuer.certificate.subject_name()))?;
        builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
        builder.set_not_after(&*Asn1Time::days_from_now(1)?)?;
        builder.set_pubkey(&key)?;
        if kind == Kind::Authority {
            builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
            builder.append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
        } else {
            builder.append_extension(BasicConstraints::new().critical().build()?)?;
            builder.append_extension(KeyUsage::new().critical().digital_signature().key_encipherment().build()?)?;
        }
        if kind == Kind::Host {
            builder.append_extension(ExtendedKeyUsage::new().server_auth().client_auth().build()?)?;
            let mut names = SubjectAlternativeName::new();
            let names = names.dns(common_name).ip("127.0.0.1").build(&builder.x509v3_context(None, None))?;
            builder.append_extension(names)?;
        }
        // Without them `voms-proxy-fake` signs nothing.
        let of_subject = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
        builder.append_extension(of_subject)?;
        if let Some(issuer) = issuer {
            let context = builder.x509v3_context(Some(&issuer.certificate), None);
            let of_issuer = AuthorityKeyIdentifier::new().keyid(true).build(&context)?;
            builder.append_extension(of_issuer)?;
        }
        builder.sign(issuer.map_or(&key, |issuer| &issuer.key), MessageDigest::sha256())?;
        Ok(Self { certificate: builder.build(), key })
    }

    /// The name as the grid writes it.
    pub(super) fn subject(common_name: &str) -> String {
        format!("/DC={}/DC={}/CN={common_name}", DOMAIN[0], DOMAIN[1])
    }
}

fn name(common_name: &str) -> Result<X509Name> {
    let mut builder = X509Name::builder()?;
    for part in DOMAIN {
        builder.append_entry_by_text("DC", part)?;
    }
    builder.append_entry_by_text("CN", common_name)?;
    Ok(builder.build())
}
