//! Verification of tokens.

use forebay_auth::*;
use forebay_testkit::TokenIssuer;
use forebay_types::Lfn;
use proptest::prelude::*;

const URL: &str = "https://issuer.example";
const NOW: UnixTime = UnixTime(1_700_000_000);

/// An issuer, and the list of issuers that knows its keys.
fn known(algorithm: &str, change: impl FnOnce(&mut Issuer)) -> (TokenIssuer, Issuers) {
    let issuer = TokenIssuer::new(URL, algorithm);
    let mut options = Issuer { audiences: vec!["https://cache.site.org".to_owned()], ..Issuer::new(URL) };
    change(&mut options);
    let mut issuers = Issuers::new(vec![options]).unwrap();
    assert!(issuers.set_keys(URL, KeySet::parse(issuer.key_set().as_bytes()).unwrap()));
    (issuer, issuers)
}

/// Claims of a good token, with `changes` to them: `"name":value,…`; `null` takes a claim away.
fn claims(changes: &str) -> String {
    let mut claims: serde_json::Map<_, _> = serde_json::from_str(
        r#"{"sub":"jane","aud":"https://cache.site.org","exp":1700000600,"nbf":1699999000,"iat":1699999000,
            "wlcg.ver":"1.0","scope":"storage.read:/mc","wlcg.groups":["/cms","/cms/prod"]}"#,
    )
    .unwrap();
    claims.insert("iss".to_owned(), URL.into());
    let changes: serde_json::Map<_, _> = serde_json::from_str(&format!("{{{changes}}}")).unwrap();
    claims.extend(changes);
    claims.retain(|_, value| !value.is_null());
    serde_json::to_string(&claims).unwrap()
}

fn token(text: &str) -> Token {
    Token::parse(text.as_bytes()).unwrap()
}

fn verify(issuers: &Issuers, text: &str) -> Result<Identity, TokenError> {
    issuers.verify(&token(text), "wn1", NOW)
}

#[test]
fn tokens_of_every_algorithm_prove_who_their_bearer_is() {
    for algorithm in ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"] {
        let (issuer, issuers) = known(algorithm, |options| {
            options.base_path = Lfn::parse("/cms").unwrap();
            options.user = TokenUser::Subject;
        });
        let identity = verify(&issuers, &issuer.sign(&claims(""))).unwrap();
        assert_eq!(identity.to_string(), r#"token:jane "jane" of https://issuer.example /cms at wn1"#);
        assert_eq!((identity.method, identity.expires_at), (Method::Token, Some(UnixTime(1_700_000_630))));
        assert_eq!(identity.groups, ["/cms", "/cms/prod"]);
        let [scope] = identity.scopes.as_deref().unwrap() else { panic!("one scope") };
        assert_eq!((scope.path.as_str(), scope.rights.has(Right::Read)), ("/cms/mc", true));
    }
}

#[test]
fn keys_may_be_rotated_and_tokens_may_name_none() {
    let (mut issuer, mut issuers) = known("ES256", |_| ());
    let old = issuer.sign(&claims(""));
    issuer.rotate();
    let new = issuer.sign(&claims(""));
    assert!(verify(&issuers, &old).is_ok());
    let unknown = verify(&issuers, &new).unwrap_err();
    assert_eq!(unknown.asks_for_keys(), Some(MissingKeys::One));
    assert_eq!(issuers.issuer_of(&token(&new)).unwrap().url, URL);
    issuers.set_keys(URL, KeySet::parse(issuer.key_set().as_bytes()).unwrap());
    assert!(verify(&issuers, &old).is_ok());
    assert!(verify(&issuers, &new).is_ok());
    assert!(verify(&issuers, &issuer.sign_with_header(r#"{"alg":"ES256"}"#, &claims(""))).is_ok());
    issuer.retire();
    issuers.set_keys(URL, KeySet::parse(issuer.key_set().as_bytes()).unwrap());
    assert!(verify(&issuers, &old).is_err());
    assert!(verify(&issuers, &new).is_ok());
}

#[test]
fn changed_tokens_and_those_of_others_are_refused() {
    for algorithm in ["RS256", "ES256"] {
        let (issuer, issuers) = known(algorithm, |_| ());
        let good = issuer.sign(&claims(""));
        let [header, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
        let other_body = issuer.sign(&claims(r#""sub":"root""#));
        let other_body = other_body.split('.').nth(1).unwrap();
        let stranger = TokenIssuer::new(URL, algorithm);
        let by_stranger = stranger.sign_with_header(&format!(r#"{{"alg":"{algorithm}"}}"#), &claims(""));
        let flipped = if signature.starts_with('A') { 'B' } else { 'A' };
        for bad in [
            format!("{header}.{other_body}.{signature}"),
            format!("{header}.{body}.{flipped}{}", &signature[1..]),
            format!("{header}.{body}.AAAA{signature}"),
            format!("{header}.{body}.{}", &signature[4..]),
            format!("{header}.{body}."),
            by_stranger,
        ] {
            assert_eq!(verify(&issuers, &bad), Err(TokenError::Jwt(JwtError::Signature)), "{bad}");
        }
    }
}

#[test]
fn algorithms_that_prove_nothing_are_refused() {
    let (issuer, issuers) = known("RS256", |_| ());
    for algorithm in ["none", "None", "", "HS256", "PS256", "EdDSA", "rs256"] {
        let bad = issuer.sign_with_header(&format!(r#"{{"alg":"{algorithm}"}}"#), &claims(""));
        let refused = Err(TokenError::Jwt(JwtError::Algorithm { algorithm: algorithm.to_owned() }));
        assert_eq!(verify(&issuers, &bad), refused, "{algorithm}");
    }
    // A key of another kind is never tried.
    let confused = issuer.sign_with_header(r#"{"alg":"ES256"}"#, &claims(""));
    assert!(matches!(verify(&issuers, &confused), Err(TokenError::Jwt(JwtError::UnknownKey { .. }))));
    let critical = issuer.sign_with_header(r#"{"alg":"RS256","crit":["x"]}"#, &claims(""));
    assert_eq!(verify(&issuers, &critical), Err(TokenError::Jwt(JwtError::Critical)));
}

#[test]
fn texts_that_are_no_tokens_are_refused() {
    let (issuer, issuers) = known("ES256", |_| ());
    for text in ["a", "a.b", "a.b.c", "..", "e30.e30.e30.e30", "e30.e30.="] {
        assert!(
            matches!(verify(&issuers, text), Err(TokenError::Jwt(JwtError::Parts | JwtError::Json { .. }))),
            "{text}"
        );
    }
    for claims in ["[]", "{}", r#"{"iss":1}"#, r#"{"iss":"https://issuer.example","iss":"x"}"#, "{"] {
        let text = issuer.sign(claims);
        assert_eq!(verify(&issuers, &text), Err(TokenError::Jwt(JwtError::Json { part: "claims" })), "{claims}");
    }
}

#[test]
fn issuers_must_be_known_and_have_keys() {
    let (issuer, issuers) = known("ES256", |_| ());
    for other in ["https://issuer.example/", "https://ISSUER.example", "https://issuer.example.evil", ""] {
        let text = issuer.sign(&claims(&format!(r#""iss":"{other}""#)));
        assert!(matches!(verify(&issuers, &text), Err(TokenError::UnknownIssuer { .. })), "{other}");
    }
    let without_keys = Issuers::new(vec![Issuer::new(URL)]).unwrap();
    let error = verify(&without_keys, &issuer.sign(&claims(""))).unwrap_err();
    assert_eq!(error.asks_for_keys(), Some(MissingKeys::All));
}

#[test]
fn tokens_are_valid_in_their_time_only() {
    let (issuer, issuers) = known("ES256", |_| ());
    let verify = |changes: &str| verify(&issuers, &issuer.sign(&claims(changes))).map(|_| ());
    assert_eq!(verify(r#""exp":null"#), Err(TokenError::NoExpiry));
    assert_eq!(verify(r#""exp":1699999971"#), Ok(()));
    assert_eq!(verify(r#""exp":1699999970"#), Err(TokenError::Expired { seconds: 30 }));
    assert_eq!(verify(r#""nbf":1700000030"#), Ok(()));
    assert_eq!(verify(r#""nbf":1700000031"#), Err(TokenError::NotYet { seconds: 31 }));
    assert_eq!(verify(r#""iat":1700000031"#), Err(TokenError::NotYet { seconds: 31 }));
    assert_eq!(verify(r#""nbf":null,"iat":null"#), Ok(()));
    assert_eq!(verify(r#""exp":9223372036854775807"#), Ok(()));
}

#[test]
fn tokens_must_be_for_this_server() {
    let (issuer, issuers) = known("ES256", |_| ());
    let verify = |changes: &str| verify(&issuers, &issuer.sign(&claims(changes))).map(|_| ());
    for good in [
        r#""aud":["x","https://cache.site.org"]"#,
        r#""aud":"https://wlcg.cern.ch/jwt/v1/any""#,
        r#""aud":"ANY","wlcg.ver":null,"ver":"scitoken:2.0""#,
    ] {
        assert_eq!(verify(good), Ok(()), "{good}");
    }
    for bad in [
        r#""aud":null"#,
        r#""aud":[]"#,
        r#""aud":"""#,
        r#""aud":"https://cache.site.org/""#,
        r#""aud":"ANY""#,
        r#""aud":"https://wlcg.cern.ch/jwt/v1/any","wlcg.ver":null,"ver":"scitoken:2.0""#,
    ] {
        assert!(matches!(verify(bad), Err(TokenError::Audience { .. })), "{bad}");
    }
}

#[test]
fn issuers_may_be_held_to_a_profile() {
    let (issuer, issuers) = known("ES256", |options| options.profile = Some(TokenProfile::SciTokens));
    let refused = verify(&issuers, &issuer.sign(&claims("")));
    assert_eq!(refused, Err(TokenError::Profile { version: "wlcg".to_owned() }));
    let changes = r#""wlcg.ver":null,"ver":"scitoken:2.0","scope":"read:/a""#;
    let identity = verify(&issuers, &issuer.sign(&claims(changes))).unwrap();
    assert!(identity.groups.is_empty());
    assert_eq!(identity.scopes.unwrap().len(), 1);
}

#[test]
fn tokens_without_a_profile_are_scitokens_where_only_those_are_expected() {
    let untyped = r#""wlcg.ver":null,"scope":"read:/a storage.read:/b","aud":"ANY""#;
    for (profile, is_good) in [(None, false), (Some(TokenProfile::Wlcg), false), (Some(TokenProfile::SciTokens), true)]
    {
        let (issuer, issuers) = known("ES256", |options| options.profile = profile);
        match verify(&issuers, &issuer.sign(&claims(untyped))) {
            Ok(identity) => assert_eq!((is_good, identity.scopes.unwrap().len()), (true, 1)),
            Err(error) => assert_eq!((is_good, error), (false, TokenError::Untyped)),
        }
    }
}

#[test]
fn lists_of_issuers_are_checked() {
    let issuer = |leeway_seconds| Issuer { leeway_seconds, ..Issuer::new(URL) };
    assert!(matches!(Issuers::new(vec![issuer(0), issuer(0)]), Err(IssuersError::Twice { .. })));
    assert!(Issuers::new(vec![issuer(LEEWAY_SECONDS_MAX)]).is_ok());
    for seconds in [-1, LEEWAY_SECONDS_MAX + 1] {
        assert!(matches!(Issuers::new(vec![issuer(seconds)]), Err(IssuersError::Leeway { .. })), "{seconds}");
    }
    let many = |count| (0..count).map(|n| Issuer::new(&format!("https://{n}"))).collect::<Vec<_>>();
    assert!(Issuers::new(many(ISSUERS_MAX)).is_ok());
    assert!(matches!(Issuers::new(many(ISSUERS_MAX + 1)), Err(IssuersError::TooMany { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_makes_it_panic(header in ".{0,40}", body in ".{0,60}", text in "[ -~]{1,80}") {
        let (issuer, issuers) = known("ES256", |_| ());
        let _ = verify(&issuers, &issuer.sign_with_header(&header, &body));
        if let Ok(token) = Token::parse(text.as_bytes()) {
            let _ = issuers.verify(&token, "h", NOW);
        }
    }
}
