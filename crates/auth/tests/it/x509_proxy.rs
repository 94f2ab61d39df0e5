//! Proxies that we make: for ourselves, for a peer, and from a peer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::pki;
use crate::pki::{Authority, DAY, HOUR, LIMITED, NOW};
use forebay_auth::x509::{
    Chain, Credential, CredentialError, ProxyError, ProxyRequest, TrustError, TrustRules, make_proxy, sign_request,
};
use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::symm::Cipher;

#[test]
fn a_proxy_of_our_own_is_trusted_and_ends_in_time() {
    let authority = Authority::new("CA");
    let robot = authority.person("Robot").credential();
    let proxy = make_proxy(&robot, 12 * HOUR, NOW).unwrap();
    authority.anchors().verify(proxy.chain(), &TrustRules::default(), NOW).unwrap();
    assert_eq!((proxy.chain().subject(), proxy.chain().proxies().len()), ("/DC=org/DC=grid/CN=Robot", 1));
    assert_eq!(proxy.valid_until(), NOW.plus(12 * HOUR));
    assert_eq!(make_proxy(&robot, 12 * DAY, NOW).unwrap().valid_until(), NOW.plus(DAY));
    assert!(matches!(make_proxy(&robot, HOUR, NOW.plus(DAY)), Err(ProxyError::Ended { .. })));
}

#[test]
fn proxies_below_limited_ones_are_limited() {
    let person = Authority::new("CA").person("Jane");
    let limited = person.sign(person.proxy_draft(LIMITED, None)).credential();
    let below = make_proxy(&limited, HOUR, NOW).unwrap();
    let alone = Chain::from_pem(&[below.chain().leaf().x509.to_pem().unwrap(), person.pem()].concat());
    assert!(below.chain().is_limited());
    assert!(alone.is_err());
}

#[test]
fn a_delegated_proxy_stands_below_the_chain_of_the_delegator() {
    let authority = Authority::new("CA");
    let jane = authority.person("Jane").proxy();
    let request = ProxyRequest::new(&jane.chain()).unwrap();
    let signed = sign_request(&jane.credential(), request.pem(), NOW).unwrap();
    let delegated = request.take(&signed, &jane.chain()).unwrap();
    authority.anchors().verify(delegated.chain(), &TrustRules::default(), NOW).unwrap();
    assert_eq!((delegated.chain().subject(), delegated.chain().proxies().len()), ("/DC=org/DC=grid/CN=Jane", 2));
}

#[test]
fn answers_to_a_request_that_are_not_the_requested_proxy_are_refused() {
    let authority = Authority::new("CA");
    let (jane, joe) = (authority.person("Jane").proxy(), authority.person("Joe").proxy());
    let request = ProxyRequest::new(&jane.chain()).unwrap();
    let for_other_key = jane.proxy().certificates[0].to_pem().unwrap();
    assert!(matches!(request.take(&for_other_key, &jane.chain()), Err(ProxyError::OtherKey)));
    let request = ProxyRequest::new(&jane.chain()).unwrap();
    let by_joe = sign_request(&joe.credential(), request.pem(), NOW).unwrap();
    assert!(matches!(request.take(&by_joe, &jane.chain()), Err(ProxyError::Chain(_))));
    let request = ProxyRequest::new(&jane.chain()).unwrap();
    assert!(matches!(request.take(&joe.key_pem(), &jane.chain()), Err(ProxyError::NoCertificate)));
}

#[test]
fn requests_that_are_not_in_order_are_refused() {
    let jane = Authority::new("CA").person("Jane").credential();
    assert!(sign_request(&jane, &pki::request(&pki::key(5)), NOW).is_ok());
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let ec = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    assert!(matches!(sign_request(&jane, &pki::request(&ec), NOW), Err(ProxyError::Request)));
    let mut altered = openssl::x509::X509Req::from_pem(&pki::request(&pki::key(5))).unwrap().to_der().unwrap();
    *altered.last_mut().unwrap() ^= 1;
    assert!(matches!(sign_request(&jane, &altered, NOW), Err(ProxyError::Request)));
    assert!(matches!(sign_request(&jane, &vec![b'x'; 20 << 10], NOW), Err(ProxyError::Request)));
}

#[test]
fn credentials_need_the_key_of_their_leaf_and_never_show_it() {
    let authority = Authority::new("CA");
    let jane = authority.person("Jane");
    let other_key = pki::key(6).private_key_to_pem_pkcs8().unwrap();
    assert!(matches!(Credential::from_pem(&jane.pem(), &other_key), Err(CredentialError::Mismatch { .. })));
    assert!(matches!(Credential::from_pem(&jane.pem(), b"no key"), Err(CredentialError::Key(Some(_)))));
    let encrypted = jane.key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_128_cbc(), b"secret").unwrap();
    assert!(matches!(Credential::from_pem(&jane.pem(), &encrypted), Err(CredentialError::Key(Some(_)))));
    let shown = format!("{:?}", jane.credential());
    assert_eq!(
        shown,
        "Credential(Certificate(\"/DC=org/DC=grid/CN=Jane\" by \"/DC=org/DC=grid/CN=CA\", EndEntity), key not shown)"
    );
}

#[test]
fn a_proxy_file_is_certificates_and_key_in_one() {
    let proxy = Authority::new("CA").person("Jane").proxy();
    let leaf = proxy.certificates[0].to_pem().unwrap();
    let file = [leaf, proxy.key_pem(), proxy.certificates[1].to_pem().unwrap()].concat();
    let credential = Credential::from_pem(&file, &file).unwrap();
    assert_eq!(credential.chain(), &proxy.chain());
}

#[test]
fn a_forged_delegation_is_not_trusted() {
    let authority = Authority::new("CA");
    let jane = authority.person("Jane").proxy();
    let mut forger = jane.clone();
    forger.key = pki::key(7);
    let mut draft = forger.proxy_draft(pki::INHERIT_ALL, None);
    draft.until = NOW.plus(HOUR);
    let error = authority.anchors().verify(&forger.sign(draft).chain(), &TrustRules::default(), NOW).unwrap_err();
    assert!(matches!(error, TrustError::Signature { .. }));
}
