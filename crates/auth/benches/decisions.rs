//! Costs of decisions and of proofs of identity.

use divan::{Bencher, black_box};
use forebay_auth::{
    Conditions, Grant, Grants, Identity, Issuer, Issuers, KeySet, Keytab, Method, PathTemplate, Right, Rights,
    ScopeUse, SssParams, SssPeer, SssSeen, Token, UnixTime, VerifiedTokens, sss_message, verify_sss_message,
};
use forebay_testkit::TokenIssuer;
use forebay_types::Lfn;
use std::sync::Arc;

fn main() {
    divan::main();
}

const NOW: UnixTime = UnixTime(1_700_000_000);

/// A rule for each of `count` organizations, and one for directories of users.
fn grants(count: usize) -> Grants {
    let rule = |path: &str, who| Grant {
        name: String::new(),
        who,
        path: PathTemplate::parse(path).expect("a path"),
        rights: Rights::NONE.with(Right::Read),
        scopes: ScopeUse::Narrow,
    };
    let of_vo = |number| Conditions { vo: Some(format!("vo{number}")), ..Conditions::default() };
    let mut rules: Vec<_> = (1..count).map(|number| rule(&format!("/vo{number}"), of_vo(number))).collect();
    rules.push(rule("/vo1/user/{user}", Conditions::default()));
    Grants::new(rules).expect("few rules")
}

fn member() -> Identity {
    let groups = vec!["/vo1/prod".to_owned(), "/vo1".to_owned()];
    Identity { user: Some("jane".to_owned()), groups, ..Identity::of(Method::Token, "wn1.site.org") }
}

#[divan::bench(args = [4, 64, 1024])]
fn decide(bencher: Bencher<'_, '_>, rules: usize) {
    let (grants, member) = (grants(rules), member());
    let path = Lfn::parse("/vo1/user/jane/mc/2026/file.root").expect("a path");
    assert!(grants.decide(&member, &path, Right::Read, NOW).is_allowed);
    bencher.bench(|| grants.decide(black_box(&member), black_box(&path), Right::Read, NOW).is_allowed);
}

fn issuers(algorithm: &str) -> (Issuers, Token) {
    let issuer = TokenIssuer::new("https://issuer", algorithm);
    let mut issuers = Issuers::new(vec![Issuer::new(issuer.url())]).expect("one issuer");
    issuers.set_keys(issuer.url(), KeySet::parse(issuer.key_set().as_bytes()).expect("a key set"));
    let claims = r#"{"iss":"https://issuer","sub":"jane","aud":"ANY","exp":1700000600,"scope":"read:/mc read:/data"}"#;
    (issuers, Token::parse(issuer.sign(claims).as_bytes()).expect("a token"))
}

#[divan::bench(args = ["RS256", "ES256"])]
fn verify_token(bencher: Bencher<'_, '_>, algorithm: &str) {
    let (issuers, token) = issuers(algorithm);
    bencher.bench(|| issuers.verify(black_box(&token), "wn1.site.org", NOW).expect("a good token"));
}

#[divan::bench]
fn find_verified_token(bencher: Bencher<'_, '_>) {
    let (issuers, token) = issuers("ES256");
    let mut verified = VerifiedTokens::new(1024);
    verified.insert(&token, Arc::new(issuers.verify(&token, "wn1", NOW).expect("a good token")), NOW);
    bencher.bench_local(|| verified.get(black_box(&token), NOW).expect("it is known"));
}

#[divan::bench]
fn verify_sss(bencher: Bencher<'_, '_>) {
    let line = format!("0 N:7 n:key u:jane k:{}", "11".repeat(32));
    let keytab = Keytab::parse(line.as_bytes()).expect("a keytab");
    let peer = SssPeer { address: ([192, 0, 2, 7], 4711).into(), host: "wn1" };
    let server = SssParams { is_v2: true, lifetime_seconds: 13, keytab: String::new() };
    let key = keytab.keys().first().expect("a key");
    let message = sss_message(key, "jane", peer.address, &server, NOW).expect("a message");
    bencher.bench(|| {
        let seen = SssSeen::new(1);
        verify_sss_message(black_box(&message), &keytab, 13, &seen, &peer, "", NOW).expect("a good message")
    });
}
