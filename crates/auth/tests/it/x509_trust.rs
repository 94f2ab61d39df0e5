//! Whom a chain leads to, and every reason not to believe it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::pki;
use crate::pki::{Authority, DAY, Draft, HOUR, Holder, INDEPENDENT, INHERIT_ALL, LIMITED, NOW};
use forebay_auth::UnixTime;
use forebay_auth::x509::{Chain, ChainError, CrlError, TrustAnchors, TrustError, TrustRules, Use, check_host};
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::x509::X509Builder;
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};

const REQUIRE_CRLS: TrustRules = TrustRules { crls: Use::Require, signing_policies: Use::Ignore, allow_limited: true };
const REQUIRE_POLICIES: TrustRules =
    TrustRules { crls: Use::Ignore, signing_policies: Use::Require, allow_limited: true };

fn verify(authority: &Authority, holder: &Holder, now: UnixTime) -> Result<(), TrustError> {
    authority.anchors().verify(&holder.chain(), &TrustRules::default(), now)
}

#[test]
fn proxies_of_known_people_are_trusted() {
    let authority = Authority::new("CA");
    let proxy = authority.person("Jane").proxy().proxy();
    let chain = proxy.chain();
    verify(&authority, &proxy, NOW).unwrap();
    assert_eq!(chain.subject(), "/DC=org/DC=grid/CN=Jane");
    assert_eq!(chain.leaf().subject(), "/DC=org/DC=grid/CN=Jane/CN=1234567/CN=1234567");
    assert_eq!((chain.proxies().len(), chain.is_limited()), (2, false));
}

#[test]
fn authorities_below_authorities_are_found_in_the_chain_and_among_the_trusted() {
    let root = Authority::new("Root");
    let middle = root.below("Middle");
    let mut person = middle.person("Jane").proxy();
    assert!(matches!(verify(&root, &person, NOW), Err(TrustError::UnknownAuthority { .. })));
    let mut anchors = root.anchors();
    anchors.add_authorities(&middle.certificate.to_pem().unwrap()).unwrap();
    anchors.verify(&person.chain(), &TrustRules::default(), NOW).unwrap();
    person.certificates.push(middle.certificate);
    verify(&root, &person, NOW).unwrap();
}

#[test]
fn the_order_of_the_certificates_does_not_matter() {
    let authority = Authority::new("CA");
    let mut proxy = authority.person("Jane").proxy().proxy();
    proxy.certificates.push(authority.certificate.clone());
    proxy.certificates.push(proxy.certificates[0].clone());
    let chain = proxy.chain();
    for by in 1..proxy.certificates.len() {
        let mut turned = proxy.clone();
        turned.certificates.rotate_left(by);
        assert_eq!(turned.chain(), chain);
        turned.certificates.reverse();
        assert_eq!(turned.chain(), chain);
    }
    verify(&authority, &proxy, NOW).unwrap();
}

#[test]
fn unknown_authorities_are_named() {
    let (ours, theirs) = (Authority::new("Ours"), Authority::new("Theirs"));
    let error = verify(&ours, &theirs.person("Jane").proxy(), NOW).unwrap_err();
    assert!(matches!(&error, TrustError::UnknownAuthority { issuer } if issuer == "/DC=org/DC=grid/CN=Theirs"));
    let mut brought = theirs.person("Jane").proxy();
    brought.certificates.push(theirs.certificate);
    assert!(matches!(verify(&ours, &brought, NOW), Err(TrustError::UnknownAuthority { .. })));
}

#[test]
fn an_authority_of_the_same_name_with_another_key_is_not_the_trusted_one() {
    let trusted = Authority::new("CA");
    let mut other = Authority::new("Other");
    other.certificate = trusted.certificate.clone();
    other.key = pki::key(7);
    let error = verify(&trusted, &other.person("Jane").proxy(), NOW).unwrap_err();
    assert!(matches!(error, TrustError::Signature { .. } | TrustError::UnknownAuthority { .. }), "{error}");
}

#[test]
fn certificates_that_have_ended_or_not_begun_are_refused_with_the_time() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let mut draft = person.proxy_draft(INHERIT_ALL, None);
    draft.until = NOW.plus(HOUR);
    let proxy = person.sign(draft);
    verify(&authority, &proxy, NOW.plus(HOUR - 1)).unwrap();
    let error = verify(&authority, &proxy, NOW.plus(HOUR + 1)).unwrap_err();
    assert!(error.to_string().ends_with("CN=Jane/CN=1234567 expired at 2026-01-01 01:00:00 UTC"), "{error}");
    let error = verify(&authority, &person, NOW.plus(2 * DAY)).unwrap_err();
    assert!(matches!(error, TrustError::Expired { .. }));
    let error = verify(&authority, &person, NOW.plus(-2 * DAY)).unwrap_err();
    assert!(matches!(&error, TrustError::NotYetValid { from, .. } if *from == NOW.plus(-DAY)), "{error}");
}

#[test]
fn tampered_certificates_are_refused() {
    let authority = Authority::new("CA");
    let jane = authority.person("Jane");
    let mut proxy = authority.person("Joe").proxy();
    proxy.certificates[1] = jane.certificates[0].clone();
    assert!(matches!(Chain::from_pem(&proxy.pem()), Err(ChainError::Apart { .. })));
    let mut forged = jane.clone();
    forged.key = pki::key(7);
    let error = verify(&authority, &forged.proxy(), NOW).unwrap_err();
    assert!(matches!(error, TrustError::Signature { .. }), "{error}");
}

#[test]
fn proxies_deeper_than_allowed_are_refused() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let last = person.sign(person.proxy_draft(INHERIT_ALL, Some(0)));
    verify(&authority, &last, NOW).unwrap();
    let error = verify(&authority, &last.proxy(), NOW).unwrap_err();
    assert!(matches!(error, TrustError::TooDeep { .. }), "{error}");
    let one_more = person.sign(person.proxy_draft(INHERIT_ALL, Some(1)));
    verify(&authority, &one_more.proxy(), NOW).unwrap();
    assert!(matches!(verify(&authority, &one_more.proxy().proxy(), NOW), Err(TrustError::TooDeep { .. })));
}

#[test]
fn limited_proxies_are_known_and_refused_where_not_allowed() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let limited = person.sign(person.proxy_draft(LIMITED, None)).proxy();
    assert!(limited.chain().is_limited());
    verify(&authority, &limited, NOW).unwrap();
    let rules = TrustRules { allow_limited: false, ..TrustRules::default() };
    let error = authority.anchors().verify(&limited.chain(), &rules, NOW).unwrap_err();
    assert!(matches!(error, TrustError::Limited { .. }));
}

#[test]
fn proxies_of_other_kinds_are_refused_with_advice() {
    let person = Authority::new("CA").person("Jane");
    let refusal = |draft| Chain::from_pem(&person.sign(draft).pem()).unwrap_err();
    for name in ["proxy", "limited proxy"] {
        let error = refusal(person.draft_below(name));
        assert!(error.to_string().ends_with("make one after RFC 3820 (voms-proxy-init -rfc)"), "{error}");
    }
    let draft_info = pki::raw_extension("1.3.6.1.4.1.3536.1.222", true, &[0x30, 0]);
    assert!(matches!(refusal(person.draft_below("1").with(draft_info)), ChainError::OldProxy { .. }));
    for policy in [INDEPENDENT, "1.2.3.4"] {
        assert!(matches!(refusal(person.proxy_draft(policy, None)), ChainError::ProxyRights { .. }));
    }
}

#[test]
fn a_proxy_with_a_name_of_its_own_is_refused() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let mut draft = person.proxy_draft(INHERIT_ALL, None);
    draft.subject = vec![("DC", "org".to_owned()), ("DC", "grid".to_owned()), ("CN", "Admin".to_owned())];
    assert!(matches!(Chain::from_pem(&person.sign(draft).pem()), Err(ChainError::ProxyName { .. })));
    let mut draft = person.proxy_draft(INHERIT_ALL, None);
    draft.subject.push(("CN", "2".to_owned()));
    assert!(matches!(Chain::from_pem(&person.sign(draft).pem()), Err(ChainError::ProxyName { .. })));
}

#[test]
fn people_cannot_sign_people() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let below = person.sign(Draft::of(&[("DC", "org"), ("CN", "Admin")]));
    assert!(matches!(Chain::from_pem(&below.pem()), Err(ChainError::Apart { .. })));
    let authority_by_name =
        person.sign(Draft::of(&[("CN", "Own CA")]).with(BasicConstraints::new().critical().ca().build().unwrap()));
    let fooled = Authority { certificate: authority_by_name.certificates[0].clone(), key: authority_by_name.key };
    let mut victim = fooled.person("Admin");
    victim.certificates.push(fooled.certificate.clone());
    let error = verify(&authority, &victim, NOW).unwrap_err();
    assert!(matches!(error, TrustError::UnknownAuthority { .. }), "{error}");
}

#[test]
fn a_chain_needs_an_end_entity() {
    let authority = Authority::new("CA");
    let mut proxy = authority.person("Jane").proxy();
    proxy.certificates.truncate(1);
    let error = Chain::from_pem(&proxy.pem()).unwrap_err();
    assert!(matches!(&error, ChainError::NoEndEntity { missing } if missing == "/DC=org/DC=grid/CN=Jane"));
    assert!(matches!(Chain::from_pem(&authority.certificate.to_pem().unwrap()), Err(ChainError::NoEndEntity { .. })));
    assert!(matches!(Chain::from_pem(b"nothing"), Err(ChainError::Nothing)));
    let two = [authority.person("Jane").pem(), authority.person("Joe").pem()].concat();
    assert!(matches!(Chain::from_pem(&two), Err(ChainError::Apart { .. })));
}

#[test]
fn chains_beyond_the_limits_are_refused() {
    let mut proxy = Authority::new("CA").person("Jane");
    for _ in 0..9 {
        proxy = proxy.proxy();
    }
    assert_eq!(proxy.chain().certificates().len(), 10);
    assert!(matches!(Chain::from_pem(&proxy.proxy().pem()), Err(ChainError::TooMany)));
    assert!(matches!(Chain::from_pem(&vec![b'\n'; (64 << 10) + 1]), Err(ChainError::TooLong { .. })));
    assert!(matches!(Chain::from_pem(&vec![b'\n'; 64 << 10]), Err(ChainError::Nothing)));
}

#[test]
fn keys_that_must_not_sign_identify_no_client() {
    let authority = Authority::new("CA");
    let usage = || KeyUsage::new().critical().key_encipherment().build().unwrap();
    let person = authority.issue(Draft::of(&[("CN", "Jane")]).with(usage()));
    assert!(matches!(verify(&authority, &person, NOW), Err(TrustError::KeyUsage { .. })));
    let error = verify(&authority, &person.proxy(), NOW).unwrap_err();
    assert!(matches!(error, TrustError::KeyUsage { .. }), "{error}");
}

#[test]
fn weak_signatures_and_keys_are_refused() {
    let authority = Authority::new("CA");
    let mut draft = Draft::of(&[("CN", "Jane")]);
    draft.digest = MessageDigest::sha1();
    let error = verify(&authority, &authority.issue(draft), NOW).unwrap_err();
    assert_eq!(error.to_string(), "the certificate of /CN=Jane has a signature with SHA-1, which is too weak");
    let mut person = authority.person("Jane");
    person.certificates = {
        let weak = PKey::from_rsa(Rsa::generate(512).unwrap()).unwrap();
        let mut builder = X509Builder::new().unwrap();
        builder.set_version(2).unwrap();
        builder.set_subject_name(person.certificates[0].subject_name()).unwrap();
        builder.set_issuer_name(authority.certificate.subject_name()).unwrap();
        builder.set_not_before(person.certificates[0].not_before()).unwrap();
        builder.set_not_after(person.certificates[0].not_after()).unwrap();
        builder.set_pubkey(&weak).unwrap();
        builder.sign(&authority.key, MessageDigest::sha256()).unwrap();
        vec![builder.build()]
    };
    let error = verify(&authority, &person, NOW).unwrap_err();
    assert!(matches!(error, TrustError::Weak { .. }), "{error}");
}

#[test]
fn proxies_may_be_signed_with_sha1_but_not_with_md5() {
    let authority = Authority::new("CA");
    let person = authority.person("Jane");
    let proxy = |digest| person.sign(Draft { digest, ..person.proxy_draft(INHERIT_ALL, None) });
    verify(&authority, &proxy(MessageDigest::sha1()), NOW).unwrap();
    assert!(matches!(verify(&authority, &proxy(MessageDigest::md5()), NOW), Err(TrustError::Weak { .. })));
}

#[test]
fn a_proxy_that_names_another_key_as_its_signers_is_refused_with_advice() {
    let authority = Authority::new("CA");
    let key_of = |digits: u8| pki::raw_extension("2.5.29.14", false, &[&[4, 4][..], &[digits; 4]].concat());
    let signer = |digits: u8| pki::raw_extension("2.5.29.35", false, &[&[0x30, 6, 0x80, 4][..], &[digits; 4]].concat());
    let person = authority.issue(Draft::of(&[("CN", "Jane")]).with(pki::signing_usage()).with(key_of(1)));
    let proxy = |digits| person.sign(person.proxy_draft(INHERIT_ALL, None).with(signer(digits)));
    verify(&authority, &proxy(1), NOW).unwrap();
    let error = verify(&authority, &proxy(2), NOW).unwrap_err();
    assert!(matches!(error, TrustError::ProxyLink { .. }), "{error}");
}

#[test]
fn revoked_certificates_are_refused_unless_lists_are_ignored() {
    let authority = Authority::new("CA");
    let (jane, joe) = (authority.person("Jane"), authority.person("Joe"));
    let mut anchors = authority.anchors();
    anchors.add_crl(&authority.crl(&[&jane.certificates[0]], NOW.plus(-DAY), NOW.plus(HOUR))).unwrap();
    let jane = jane.proxy().chain();
    let joe = joe.proxy().chain();
    assert!(matches!(anchors.verify(&jane, &TrustRules::default(), NOW), Err(TrustError::Revoked { .. })));
    assert!(matches!(anchors.verify(&jane, &REQUIRE_CRLS, NOW), Err(TrustError::Revoked { .. })));
    anchors.verify(&joe, &REQUIRE_CRLS, NOW).unwrap();
    let ignored = TrustRules { crls: Use::Ignore, ..TrustRules::default() };
    anchors.verify(&jane, &ignored, NOW).unwrap();
    let error = anchors.verify(&joe, &REQUIRE_CRLS, NOW.plus(2 * HOUR)).unwrap_err();
    assert!(matches!(&error, TrustError::CrlExpired { at, .. } if *at == NOW.plus(HOUR)), "{error}");
    anchors.verify(&joe, &TrustRules::default(), NOW.plus(2 * HOUR)).unwrap();
    assert!(matches!(
        anchors.verify(&jane, &TrustRules::default(), NOW.plus(2 * HOUR)),
        Err(TrustError::Revoked { .. })
    ));
}

#[test]
fn lists_of_others_do_not_count() {
    let authority = Authority::new("CA");
    let jane = authority.person("Jane");
    let forger = Authority { certificate: authority.certificate.clone(), key: pki::key(6) };
    let forged = forger.crl(&[&jane.certificates[0]], NOW.plus(-DAY), NOW.plus(DAY));
    let mut anchors = TrustAnchors::default();
    anchors.add_crl(&forged).unwrap();
    anchors.add_authorities(&authority.certificate.to_pem().unwrap()).unwrap();
    assert!(matches!(anchors.add_crl(&forged), Err(CrlError::Signature)));
    anchors.verify(&jane.chain(), &TrustRules::default(), NOW).unwrap();
    assert!(matches!(anchors.verify(&jane.chain(), &REQUIRE_CRLS, NOW), Err(TrustError::NoCrl { .. })));
    anchors.add_crl(&authority.crl(&[], NOW.plus(DAY), NOW.plus(2 * DAY))).unwrap();
    assert!(matches!(anchors.verify(&jane.chain(), &REQUIRE_CRLS, NOW), Err(TrustError::NoCrl { .. })));
    assert!(anchors.add_crl(b"nothing").is_err());
}

#[test]
fn authorities_sign_only_what_their_policy_says() {
    let authority = Authority::new("CA");
    let policy = |pattern: &str| {
        format!(
            "access_id_CA X509 '/DC=org/DC=grid/CN=CA'\npos_rights globus CA:sign\n\
             cond_subjects globus '\"{pattern}\"'\n"
        )
    };
    let jane = authority.person("Jane").proxy().chain();
    let mut anchors = authority.anchors();
    anchors.verify(&jane, &TrustRules::default(), NOW).unwrap();
    assert!(matches!(anchors.verify(&jane, &REQUIRE_POLICIES, NOW), Err(TrustError::NoSigningPolicy { .. })));
    anchors.add_signing_policy(policy("/DC=org/DC=other/*").as_bytes()).unwrap();
    assert!(matches!(anchors.verify(&jane, &TrustRules::default(), NOW), Err(TrustError::SigningPolicy { .. })));
    anchors.add_signing_policy(policy("/DC=org/DC=grid/*").as_bytes()).unwrap();
    anchors.verify(&jane, &REQUIRE_POLICIES, NOW).unwrap();
}

#[test]
fn hosts_are_known_by_their_alternative_names_first() {
    let authority = Authority::new("CA");
    let host = authority.host("a.site.org").leaf();
    check_host(&host, "a.site.org").unwrap();
    check_host(&host, "A.site.org.").unwrap();
    let error = check_host(&host, "b.site.org").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the certificate of /DC=org/DC=grid/CN=a.site.org is not that of the host b.site.org; it is for a.site.org"
    );
    let named = authority.issue(Draft::of(&[("CN", "xrootd/b.site.org")])).leaf();
    check_host(&named, "b.site.org").unwrap();
    assert!(check_host(&named, "xrootd").is_err());
    let mut alternative = SubjectAlternativeName::new();
    alternative.ip("192.0.2.1").ip("2001:db8::1");
    let builder = X509Builder::new().unwrap();
    let alternative = alternative.build(&builder.x509v3_context(None, None)).unwrap();
    let addressed = authority.issue(Draft::of(&[("CN", "b.site.org")]).with(alternative)).leaf();
    check_host(&addressed, "192.0.2.1").unwrap();
    check_host(&addressed, "2001:db8::1").unwrap();
    assert!(check_host(&addressed, "192.0.2.2").is_err());
    assert!(check_host(&addressed, "b.site.org").is_err(), "the common name counts only without alternative names");
}
