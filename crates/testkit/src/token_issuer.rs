//! An issuer of signed tokens, with keys of its own.

use openssl::base64;
use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey};
use openssl::ecdsa::EcdsaSig;
use openssl::hash::{MessageDigest, hash};
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;

/// Issues JSON web tokens with whatever claims a test wants, signed with one algorithm.
pub struct TokenIssuer {
    url: String,
    algorithm: String,
    /// The keys in the set, the one that signs last.
    keys: Vec<(String, PKey<Private>)>,
    made: usize,
}

impl TokenIssuer {
    /// An issuer named `url` with one new key for `algorithm`: `RS256`, `ES384` and so on.
    pub fn new(url: &str, algorithm: &str) -> Self {
        let mut issuer = Self { url: url.to_owned(), algorithm: algorithm.to_owned(), keys: Vec::new(), made: 0 };
        issuer.rotate();
        issuer
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Signs with a new key from now on; the old ones stay in the set.
    pub fn rotate(&mut self) {
        self.made += 1;
        self.keys.push((format!("key-{}", self.made), new_key(&self.algorithm)));
    }

    /// Drops all keys from the set but the one that signs.
    pub fn retire(&mut self) {
        self.keys.drain(..self.keys.len() - 1);
    }

    /// Name of the key that signs.
    pub fn key_id(&self) -> &str {
        &self.current().0
    }

    /// The public keys, as a JSON web key set.
    pub fn key_set(&self) -> String {
        let keys: Vec<_> = self.keys.iter().map(|(id, key)| self.public_key(id, key)).collect();
        format!(r#"{{"keys":[{}]}}"#, keys.join(","))
    }

    /// A token with `claims`, a JSON object (or whatever a test wants to see refused).
    pub fn sign(&self, claims: &str) -> String {
        let header = format!(r#"{{"alg":"{}","typ":"JWT","kid":"{}"}}"#, self.algorithm, self.key_id());
        self.sign_with_header(&header, claims)
    }

    /// A token with a header of the test's own, signed with the issuer's algorithm whatever the header says.
    pub fn sign_with_header(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let signature = self.signature_of(signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }

    fn current(&self) -> &(String, PKey<Private>) {
        self.keys.last().expect("an issuer always has a key")
    }

    fn signature_of(&self, text: &[u8]) -> Vec<u8> {
        let (_, key) = self.current();
        let digest = digest_of(&self.algorithm);
        if let Some(half_len) = half_len_of(&self.algorithm) {
            let key = key.ec_key().expect("an EC key");
            let signature = EcdsaSig::sign(&hash(digest, text).expect("a digest"), &key).expect("a signature");
            return [padded(signature.r(), half_len), padded(signature.s(), half_len)].concat();
        }
        let mut signer = Signer::new(digest, key).expect("a signer");
        signer.sign_oneshot_to_vec(text).expect("a signature")
    }

    fn public_key(&self, id: &str, key: &PKey<Private>) -> String {
        let numbers = if let Some(half_len) = half_len_of(&self.algorithm) {
            let key = key.ec_key().expect("an EC key");
            let mut context = BigNumContext::new().expect("a context");
            let (mut x, mut y) = (BigNum::new().expect("a number"), BigNum::new().expect("a number"));
            let point = key.public_key();
            point.affine_coordinates(key.group(), &mut x, &mut y, &mut context).expect("coordinates");
            let curve = if half_len == 66 { "P-521".to_owned() } else { format!("P-{}", half_len * 8) };
            let (x, y) = (encode(&padded(&x, half_len)), encode(&padded(&y, half_len)));
            format!(r#""kty":"EC","crv":"{curve}","x":"{x}","y":"{y}""#)
        } else {
            let key = key.rsa().expect("an RSA key");
            format!(r#""kty":"RSA","n":"{}","e":"{}""#, encode(&key.n().to_vec()), encode(&key.e().to_vec()))
        };
        format!(r#"{{"kid":"{id}","use":"sig","alg":"{}",{numbers}}}"#, self.algorithm)
    }
}

fn new_key(algorithm: &str) -> PKey<Private> {
    let curve = match half_len_of(algorithm) {
        None => return PKey::from_rsa(Rsa::generate(2048).expect("an RSA key")).expect("a key"),
        Some(32) => Nid::X9_62_PRIME256V1,
        Some(48) => Nid::SECP384R1,
        Some(_) => Nid::SECP521R1,
    };
    let group = EcGroup::from_curve_name(curve).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("an EC key")).expect("a key")
}

/// Bytes of each half of a signature, for algorithms on curves.
fn half_len_of(algorithm: &str) -> Option<usize> {
    match algorithm {
        "ES256" => Some(32),
        "ES384" => Some(48),
        "ES512" => Some(66),
        _ => None,
    }
}

fn digest_of(algorithm: &str) -> MessageDigest {
    match algorithm {
        "RS384" | "ES384" => MessageDigest::sha384(),
        "RS512" | "ES512" => MessageDigest::sha512(),
        _ => MessageDigest::sha256(),
    }
}

fn padded(number: &openssl::bn::BigNumRef, len: usize) -> Vec<u8> {
    let len = i32::try_from(len).expect("numbers of keys are short");
    number.to_vec_padded(len).expect("the number fits")
}

/// Base64 for URLs, without padding.
fn encode(bytes: &[u8]) -> String {
    base64::encode_block(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}
