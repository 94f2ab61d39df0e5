//! The attribute certificates of a proxy: reading never panics, and what nobody has signed gives no attributes.

#![no_main]

use forebay_auth::UnixTime;
use forebay_auth::voms::{VomsDir, VomsSite, attributes};
use forebay_auth::x509::{Certificate, Chain, TrustAnchors, TrustRules};
use libfuzzer_sys::fuzz_target;
use openssl::asn1::{Asn1Integer, Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::{X509, X509Extension, X509Name};
use std::sync::LazyLock;

const NOW: UnixTime = UnixTime(1_795_348_800);
const LISTED: &[u8] = b"/DC=org/CN=voms.site.org\n/DC=org/CN=CA\n";

/// Inherits all rights.
const PROXY_INFO: &[u8] = &[0x30, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1];

/// The key of everybody here.
static KEY: LazyLock<PKey<Private>> = LazyLock::new(|| {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve that the library knows");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
});

fuzz_target!(|input: &[u8]| {
    let Ok(chain) = chain_with(input) else { return };
    let mut dir = VomsDir::default();
    dir.add_lsc("atlas", LISTED).expect("a good file");
    let (trust, rules) = (TrustAnchors::default(), TrustRules::default());
    let found = attributes(&chain, VomsSite { dir: &dir, trust: &trust, rules: &rules, host: "cache.site.org" }, NOW);
    assert!(found.names.is_empty() && found.valid_until.is_none());
    let _ = found.refusals.iter().map(ToString::to_string).collect::<Vec<_>>();
});

/// A person with a proxy that carries the bytes.
fn chain_with(bytes: &[u8]) -> Result<Chain, ErrorStack> {
    let person = certificate(&[], &[])?;
    let proxy = certificate(&["7"], &[("1.3.6.1.5.5.7.1.14", PROXY_INFO), ("1.3.6.1.4.1.8005.100.100.5", bytes)])?;
    let certificates = [proxy, person].map(Certificate::from_x509).into_iter().collect::<Result<Vec<_>, _>>();
    let Ok(certificates) = certificates else { return Err(ErrorStack::get()) };
    Ok(Chain::from_certificates(certificates).expect("a proxy and its owner"))
}

/// A certificate of Jane, or of what is below her.
fn certificate(below: &[&str], extensions: &[(&str, &[u8])]) -> Result<X509, ErrorStack> {
    let name = |below: &[&str]| {
        let mut name = X509Name::builder()?;
        name.append_entry_by_nid(Nid::COMMONNAME, "Jane")?;
        below.iter().try_for_each(|part| name.append_entry_by_nid(Nid::COMMONNAME, part))?;
        Ok::<_, ErrorStack>(name.build())
    };
    let authority = {
        let mut name = X509Name::builder()?;
        name.append_entry_by_nid(Nid::COMMONNAME, "CA")?;
        name.build()
    };
    let mut certificate = X509::builder()?;
    certificate.set_version(2)?;
    certificate.set_serial_number(&*Asn1Integer::from_bn(&*BigNum::from_u32(7)?)?)?;
    certificate.set_subject_name(&*name(below)?)?;
    let issuer = if below.is_empty() { authority } else { name(&[])? };
    certificate.set_issuer_name(&issuer)?;
    certificate.set_not_before(&*Asn1Time::from_unix(NOW.0)?)?;
    certificate.set_not_after(&*Asn1Time::from_unix(NOW.0 + 3600)?)?;
    certificate.set_pubkey(&KEY)?;
    for (oid, value) in extensions {
        let (oid, value) = (Asn1Object::from_str(oid)?, Asn1OctetString::new_from_bytes(value)?);
        certificate.append_extension(X509Extension::new_from_der(&oid, true, &value)?)?;
    }
    certificate.sign(&KEY, MessageDigest::sha256())?;
    Ok(certificate.build())
}
