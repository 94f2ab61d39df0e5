//! Certificates, chains, revocation lists and signing policies: reading never panics, and an order once found is kept.
//!
//! The first byte chooses what the rest is.

#![no_main]

use forebay_auth::UnixTime;
use forebay_auth::x509::{Certificate, Chain, SigningPolicy, TrustAnchors, TrustRules, check_host};
use libfuzzer_sys::fuzz_target;

const NOW: UnixTime = UnixTime(1_795_348_800);

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    match choice & 3 {
        0 => check_chain(Chain::from_pem(bytes).ok()),
        1 => check_chain(der_chain(bytes)),
        2 => {
            let _ = TrustAnchors::default().add_crl(bytes);
        }
        _ => {
            let Ok(policy) = SigningPolicy::parse(bytes) else { return };
            let _ = policy.allows("/CN=CA", "/DC=org/CN=Jane");
        }
    }
});

/// Certificates one after the other, each behind its length in two bytes.
fn der_chain(mut bytes: &[u8]) -> Option<Chain> {
    let mut certificates = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (der, behind) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
        certificates.push(Certificate::from_der(der).ok()?);
        bytes = behind;
    }
    Chain::from_certificates(certificates).ok()
}

fn check_chain(chain: Option<Chain>) {
    let Some(chain) = chain else { return };
    let again = Chain::from_certificates(chain.certificates().to_vec()).expect("a chain stays a chain");
    assert_eq!(again, chain);
    assert!(TrustAnchors::default().verify(&chain, &TrustRules::default(), NOW).is_err(), "nobody is trusted");
    let _ = check_host(chain.end_entity(), "host.site.org");
}
