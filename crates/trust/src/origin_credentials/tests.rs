//! Rules, files that change, and proxies that end.

use super::*;
use forebay_types::Endpoint;
use openssl::{
    asn1::Asn1Time,
    bn::BigNum,
    hash::MessageDigest,
    pkey::PKey,
    rsa::Rsa,
    x509::{X509, X509NameBuilder, extension::BasicConstraints},
};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

fn options(rules: Vec<CredentialRule>, ca_dir: &Path) -> CredentialOptions {
    CredentialOptions {
        rules,
        user: "forebay".to_owned(),
        ca_dir: ca_dir.to_owned(),
        trust: TrustRules::default(),
        keeps_those_of_clients: false,
    }
}

fn rule(hosts: &str, proof: OriginProof) -> CredentialRule {
    CredentialRule {
        hosts: vec![hosts.to_owned()],
        proof,
        user: "forebay".to_owned(),
        allows_weak_groups: false,
        allows_unsigned: false,
        allows_plain_tokens: false,
    }
}

fn write_secret(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn shown(credentials: &OriginCredentials, host: &str) -> Arc<Credentials> {
    match credentials.towards(&Endpoint::new(host, 1094).into()) {
        CredentialUse::Own(own) => own,
        CredentialUse::OfClient => panic!("the client's"),
    }
}

fn now() -> UnixTime {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    UnixTime(i64::try_from(now).unwrap())
}

/// A self-signed certificate, good for a month, and its key.
fn certificate(common_name: &str, is_authority: bool) -> (Vec<u8>, Vec<u8>) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", common_name).unwrap();
    let name = name.build();
    let mut constraints = BasicConstraints::new();
    constraints.critical();
    if is_authority {
        constraints.ca();
    }
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(30).unwrap()).unwrap();
    builder.append_extension(constraints.build().unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    (builder.build().to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap())
}

/// Writes the authority that certificates need to verify servers.
fn with_authority(directory: &Path) {
    fs::write(directory.join("authority.pem"), certificate("authority", true).0).unwrap();
}

#[test]
fn the_first_rule_that_matches_a_server_counts() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    write_secret(&file, b"a.b.c");
    let rules = vec![rule("public.site.org", OriginProof::Nothing), rule("*.Site.org", OriginProof::Token(Some(file)))];
    let credentials = OriginCredentials::open(options(rules, directory.path()), now()).unwrap();
    assert!(!shown(&credentials, "public.site.org").prove_something());
    assert!(shown(&credentials, "pool7.SITE.org.").prove_something());
    assert!(!shown(&credentials, "site.org.evil.example").prove_something());
}

#[test]
fn a_changed_token_file_is_reloaded() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let rules = vec![rule("*", OriginProof::Token(Some(file.clone())))];
    let credentials = OriginCredentials::open(options(rules, directory.path()), now()).unwrap();
    assert!(!shown(&credentials, "o").prove_something(), "there is none yet");
    let (_, _, problem) = credentials.report().next().unwrap();
    assert!(problem.unwrap().contains("token"));
    write_secret(&file, b"a.b.c");
    credentials.refresh(now());
    let first = shown(&credentials, "o");
    assert!(first.prove_something());
    credentials.refresh(now());
    assert!(Arc::ptr_eq(&first, &shown(&credentials, "o")), "nothing has changed");
    write_secret(&file, b"a.b.later");
    credentials.refresh(now());
    let second = shown(&credentials, "o");
    assert_ne!(first.name(), second.name());
    fs::write(&file, b"not a token").unwrap();
    credentials.refresh(now());
    assert!(Arc::ptr_eq(&second, &shown(&credentials, "o")), "a damaged file changes nothing");
    assert!(credentials.report().next().unwrap().2.is_some());
}

#[test]
fn proxies_are_created_from_a_certificate_renewed_in_time_and_need_authorities() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate_file, key_file) = (directory.path().join("robot.crt"), directory.path().join("robot.key"));
    let (pem, key) = certificate("robot", false);
    write_secret(&certificate_file, &pem);
    write_secret(&key_file, &key);
    let authorities = directory.path().join("certificates");
    fs::create_dir(&authorities).unwrap();
    with_authority(&authorities);
    let proof = OriginProof::Certificate { certificate: certificate_file, key: key_file };
    let began = now();
    let credentials = OriginCredentials::open(options(vec![rule("*", proof)], &authorities), began).unwrap();
    let first = shown(&credentials, "o");
    let hours_left = |credentials: &Credentials| credentials.valid_until().unwrap().seconds_since(began) / 3600;
    assert!((11..=12).contains(&hours_left(&first)), "{}", hours_left(&first));
    credentials.refresh(began.plus(5 * 3600));
    assert!(Arc::ptr_eq(&first, &shown(&credentials, "o")), "it is good for long");
    credentials.refresh(began.plus(7 * 3600));
    let second = shown(&credentials, "o");
    assert!(hours_left(&second) > 17, "{}", hours_left(&second));
    let directory = tempfile::tempdir().unwrap();
    let rules = vec![rule("*", OriginProof::Proxy(Some(directory.path().join("proxy"))))];
    assert!(OriginCredentials::open(options(rules, directory.path()), now()).is_err());
}

#[test]
fn client_credentials_are_used_only_by_their_rule() {
    let directory = tempfile::tempdir().unwrap();
    with_authority(directory.path());
    let token = || Token::parse(b"a.b.c").ok();
    let none = OriginCredentials::none("forebay");
    assert!(!none.use_those_of_clients() && none.of_client(None, token()).is_none());
    let rules = vec![rule("*", OriginProof::OfClient)];
    let credentials = OriginCredentials::open(options(rules, directory.path()), now()).unwrap();
    assert!(credentials.use_those_of_clients());
    assert!(credentials.of_client(None, None).is_none(), "nothing to speak with");
    assert!(credentials.of_client(None, token()).unwrap().prove_something());
    assert!(matches!(credentials.towards(&Endpoint::new("o", 1).into()), CredentialUse::OfClient));
}
