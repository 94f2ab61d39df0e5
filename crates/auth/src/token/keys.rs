//! Public keys of issuers, as JSON web key sets (RFC 7517) carry them.

use super::base64url;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::{PKey, Public};
use openssl::rsa::Rsa;
use serde::Deserialize;

/// Longest key set that is read, bytes.
pub const KEY_SET_LEN_MAX: usize = 256 << 10;

/// Most keys of a set; issuers have a handful.
pub const KEYS_MAX: usize = 64;

/// Shortest and longest modulus of an RSA key, bits: shorter ones are broken, longer ones cost too much.
const RSA_BITS_MIN: i32 = 2048;
const RSA_BITS_MAX: i32 = 8192;

/// Longest text of a key's number: the longest modulus, and some zeros before it.
const NUMBER_TEXT_LEN_MAX: usize = 1400;

/// The public keys of an issuer. Keys that are not for signatures, or of an unknown kind, are left out.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    pub(super) kind: KeyKind,
    pub(super) public: PKey<Public>,
}

/// Algorithms of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum KeyKind {
    Rsa,
    EcP256,
    EcP384,
    EcP521,
}

/// Why a key set was refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    #[error("the key set has {len} bytes, at most {KEY_SET_LEN_MAX} are read")]
    TooLong { len: usize },
    #[error("the key set is not a JSON object with an array `keys`")]
    Json(#[from] serde_json::Error),
    #[error("the key set holds {count} keys, at most {KEYS_MAX} are read")]
    TooMany { count: usize },
    #[error(
        "none of the {count} keys in the set can be used: RSA of {RSA_BITS_MIN} to {RSA_BITS_MAX} bits and EC on P-256, \
         P-384 or P-521 can"
    )]
    NoneUsable { count: usize },
}

#[derive(Deserialize)]
struct RawKeySet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a key set.
    ///
    /// # Errors
    /// When it is not a key set, or has no usable key.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > KEY_SET_LEN_MAX {
            return Err(KeySetError::TooLong { len: json.len() });
        }
        let raw: RawKeySet = serde_json::from_slice(json)?;
        let count = raw.keys.len();
        if count > KEYS_MAX {
            return Err(KeySetError::TooMany { count });
        }
        let keys: Vec<_> =
            raw.keys.into_iter().filter_map(|raw| Key::parse(serde_json::from_value(raw).ok()?)).collect();
        if keys.is_empty() {
            return Err(KeySetError::NoneUsable { count });
        }
        Ok(Self { keys })
    }

    /// How many keys can be used.
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key: none was fetched yet.
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that a token signed with `algorithm` by the key `id` may be verified with: those of that name, or all when
    /// the token names none.
    pub(super) fn candidates(&self, id: Option<&str>, algorithm: &str, kind: KeyKind) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| {
            key.kind == kind
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
                && key.algorithm.as_deref().is_none_or(|only| only == algorithm)
        })
    }
}

impl Key {
    fn parse(raw: RawKey) -> Option<Self> {
        if raw.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let (kind, public) = match raw.kty.as_str() {
            "RSA" => (KeyKind::Rsa, rsa(&raw.n?, &raw.e?)?),
            "EC" => ec(&raw.crv?, &raw.x?, &raw.y?)?,
            _ => return None,
        };
        Some(Self { id: raw.kid, algorithm: raw.alg, kind, public })
    }
}

fn number(text: &str) -> Option<BigNum> {
    if text.len() > NUMBER_TEXT_LEN_MAX {
        return None;
    }
    BigNum::from_slice(&base64url::decode(text)?).ok()
}

fn rsa(modulus: &str, exponent: &str) -> Option<PKey<Public>> {
    let (modulus, exponent) = (number(modulus)?, number(exponent)?);
    let is_sane = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&modulus.num_bits())
        && modulus.is_bit_set(0)
        && exponent.is_bit_set(0)
        && (2..=64).contains(&exponent.num_bits());
    if !is_sane {
        return None;
    }
    PKey::from_rsa(Rsa::from_public_components(modulus, exponent).ok()?).ok()
}

fn ec(curve: &str, x: &str, y: &str) -> Option<(KeyKind, PKey<Public>)> {
    let (kind, curve) = match curve {
        "P-256" => (KeyKind::EcP256, Nid::X9_62_PRIME256V1),
        "P-384" => (KeyKind::EcP384, Nid::SECP384R1),
        "P-521" => (KeyKind::EcP521, Nid::SECP521R1),
        _ => return None,
    };
    let group = EcGroup::from_curve_name(curve).ok()?;
    let (x, y) = (number(x)?, number(y)?);
    // The library checks that the point is on the curve.
    let key = EcKey::from_public_key_affine_coordinates(&group, &x, &y).ok()?;
    Some((kind, PKey::from_ec_key(key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testkit::TokenIssuer;

    #[test]
    fn keys_of_each_kind_are_read() {
        for (algorithm, kind) in [
            ("RS256", KeyKind::Rsa),
            ("ES256", KeyKind::EcP256),
            ("ES384", KeyKind::EcP384),
            ("ES512", KeyKind::EcP521),
        ] {
            let issuer = TokenIssuer::new("https://issuer", algorithm);
            let keys = KeySet::parse(issuer.key_set().as_bytes()).unwrap();
            assert_eq!(keys.candidates(Some(issuer.key_id()), algorithm, kind).count(), 1, "{algorithm}");
            assert_eq!(keys.candidates(None, algorithm, kind).count(), 1, "{algorithm}");
            assert_eq!(keys.candidates(Some("other"), algorithm, kind).count(), 0, "{algorithm}");
        }
    }

    #[test]
    fn keys_that_cannot_be_used_are_left_out() {
        let good = TokenIssuer::new("https://issuer", "ES256").key_set();
        let good = good.trim_start_matches(r#"{"keys":["#).trim_end_matches("]}");
        let weak = Rsa::generate(1024).unwrap();
        let weak = openssl::base64::encode_block(&weak.n().to_vec()).replace('+', "-").replace('/', "_");
        let weak = weak.trim_end_matches('=');
        for bad in [
            r#"{"kty":"oct","k":"AAAA"}"#.to_owned(),
            r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#.to_owned(),
            r#"{"kty":"EC","crv":"secp256k1","x":"AAAA","y":"AAAA"}"#.to_owned(),
            format!(r#"{{"kty":"RSA","n":"{weak}","e":"AQAB"}}"#),
            good.replacen("\"sig\"", "\"enc\"", 1),
            "17".to_owned(),
        ] {
            let both = format!(r#"{{"keys":[{bad},{good}]}}"#);
            assert_eq!(KeySet::parse(both.as_bytes()).unwrap().len(), 1, "{bad}");
            let alone = format!(r#"{{"keys":[{bad}]}}"#);
            assert!(matches!(KeySet::parse(alone.as_bytes()), Err(KeySetError::NoneUsable { count: 1 })), "{bad}");
        }
    }

    #[test]
    fn sets_that_are_none_or_too_large_are_refused() {
        for json in ["", "[]", "{}", r#"{"keys":{}}"#] {
            assert!(matches!(KeySet::parse(json.as_bytes()), Err(KeySetError::Json(_))), "{json}");
        }
        let many = format!(r#"{{"keys":[{}]}}"#, vec!["1"; KEYS_MAX + 1].join(","));
        assert!(matches!(KeySet::parse(many.as_bytes()), Err(KeySetError::TooMany { .. })));
        let long = vec![b' '; KEY_SET_LEN_MAX + 1];
        assert!(matches!(KeySet::parse(&long), Err(KeySetError::TooLong { .. })));
    }
}
