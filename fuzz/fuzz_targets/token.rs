//! Tokens: as they come, with a header and claims that are signed well, and as key sets and discovery documents.
//!
//! The first byte chooses the use of the rest; for signed tokens a NUL parts header and claims.

#![no_main]

use forebay_auth::{
    Issuer, Issuers, KeySet, Token, TokenUser, UnixTime, discovery_urls, max_age, parse_discovery, without_tokens,
};
use libfuzzer_sys::fuzz_target;
use openssl::{
    base64,
    bn::{BigNum, BigNumContext},
    ec::{EcGroup, EcKey},
    ecdsa::EcdsaSig,
    nid::Nid,
    pkey::Private,
    sha::sha256,
};
use std::sync::LazyLock;

const URL: &str = "https://issuer";
const NOW: UnixTime = UnixTime(1_700_000_000);

static KEY: LazyLock<EcKey<Private>> = LazyLock::new(|| {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    EcKey::generate(&group).expect("a key")
});

static ISSUERS: LazyLock<Issuers> = LazyLock::new(|| {
    let mut context = BigNumContext::new().expect("a context");
    let (mut x, mut y) = (BigNum::new().expect("a number"), BigNum::new().expect("a number"));
    KEY.public_key().affine_coordinates(KEY.group(), &mut x, &mut y, &mut context).expect("coordinates");
    let number = |number: &BigNum| encode(&number.to_vec_padded(32).expect("32 bytes"));
    let keys = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","x":"{}","y":"{}"}}]}}"#, number(&x), number(&y));
    let issuer = Issuer { user: TokenUser::Subject, ..Issuer::new(URL) };
    let mut issuers = Issuers::new(vec![issuer]).expect("one issuer");
    issuers.set_keys(URL, KeySet::parse(keys.as_bytes()).expect("a key set"));
    issuers
});

fn encode(bytes: &[u8]) -> String {
    base64::encode_block(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let text = format!("{}.{}", encode(header), encode(claims));
    let signature = EcdsaSig::sign(&sha256(text.as_bytes()), &KEY).expect("a signature");
    let half = |number: &openssl::bn::BigNumRef| number.to_vec_padded(32).expect("32 bytes");
    format!("{text}.{}", encode(&[half(signature.r()), half(signature.s())].concat()))
}

fn verify(text: &[u8]) {
    let Ok(token) = Token::parse(text) else { return };
    let _ = ISSUERS.issuer_of(&token);
    if let Ok(identity) = ISSUERS.verify(&token, "host", NOW) {
        assert_eq!(identity.issuer.as_deref(), Some(URL));
        assert!(!identity.is_expired(NOW));
        assert!(identity.to_string().chars().all(|c| !c.is_control()));
    }
}

fuzz_target!(|input: &[u8]| {
    let [choice, rest @ ..] = input else { return };
    match choice % 5 {
        0 => verify(rest),
        1 => {
            let cut = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            let (header, claims) = rest.split_at(cut);
            verify(signed(header, claims.get(1..).unwrap_or_default()).as_bytes());
        }
        2 => verify(signed(br#"{"alg":"ES256"}"#, rest).as_bytes()),
        3 => drop(KeySet::parse(rest)),
        _ => {
            let text = String::from_utf8_lossy(rest);
            let _ = parse_discovery(rest, URL);
            let _ = (discovery_urls(&text), max_age(&text));
            assert_eq!(Token::from_opaque(&without_tokens(&text)), Ok(None));
        }
    }
});
