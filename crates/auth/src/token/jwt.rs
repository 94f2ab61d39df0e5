//! JSON web tokens in compact form (RFC 7515, 7519): parts, and their signature.

use super::keys::{Key, KeyKind, KeySet};
use super::{Token, base64url};
use openssl::bn::BigNum;
use openssl::ecdsa::EcdsaSig;
use openssl::hash::{MessageDigest, hash};
use openssl::sign::Verifier;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Longest text of a header or of a claim in an error.
const SHOWN_LEN_MAX: usize = 100;

/// A token taken apart; nothing of it is proven yet.
pub(super) struct Jwt<'t> {
    header: Header,
    claims: Vec<u8>,
    signed: &'t str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// Why a text was refused as a token.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JwtError {
    #[error("not a JSON web token: a token has three parts in base64url, joined by dots")]
    Parts,
    #[error("the token's {part} is malformed")]
    Json { part: &'static str },
    #[error("the token is signed with `{algorithm}`: RS256, RS384, RS512, ES256, ES384 and ES512 are accepted")]
    Algorithm { algorithm: String },
    #[error("the token demands extensions (`crit`), and none is supported")]
    Critical,
    #[error("the issuer's keys have none named `{key_id}` for {algorithm}")]
    UnknownKey { key_id: String, algorithm: &'static str },
    #[error("the token's signature is wrong")]
    Signature,
}

/// The algorithms that are accepted: name, kind of key, digest, and bytes of each half of an EC signature.
type Algorithm = (&'static str, KeyKind, fn() -> MessageDigest, usize);

const ALGORITHMS: [Algorithm; 6] = [
    ("RS256", KeyKind::Rsa, MessageDigest::sha256, 0),
    ("RS384", KeyKind::Rsa, MessageDigest::sha384, 0),
    ("RS512", KeyKind::Rsa, MessageDigest::sha512, 0),
    ("ES256", KeyKind::EcP256, MessageDigest::sha256, 32),
    ("ES384", KeyKind::EcP384, MessageDigest::sha384, 48),
    ("ES512", KeyKind::EcP521, MessageDigest::sha512, 66),
];

impl<'t> Jwt<'t> {
    pub(super) fn parse(token: &'t Token) -> Result<Self, JwtError> {
        let (signed, signature) = token.expose().rsplit_once('.').ok_or(JwtError::Parts)?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Parts)?;
        let decoded = |part| base64url::decode(part).ok_or(JwtError::Parts);
        let (header, claims, signature) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
        let header: Header = serde_json::from_slice(&header).map_err(|_| JwtError::Json { part: "header" })?;
        if header.crit.is_some() {
            return Err(JwtError::Critical);
        }
        Ok(Self { header, claims, signed, signature })
    }

    /// The claims, not proven before [`Jwt::verify`] agreed.
    pub(super) fn claims<T: DeserializeOwned>(&self) -> Result<T, JwtError> {
        serde_json::from_slice(&self.claims).map_err(|_| JwtError::Json { part: "claims" })
    }

    /// Whether one of `keys` made the signature.
    pub(super) fn verify(&self, keys: &KeySet) -> Result<(), JwtError> {
        let wanted = self.header.alg.as_str();
        let known = ALGORITHMS.into_iter().find(|(name, ..)| *name == wanted);
        let (algorithm, kind, digest, half_len) =
            known.ok_or_else(|| JwtError::Algorithm { algorithm: shown(wanted) })?;
        let key_id = self.header.kid.as_deref();
        let mut candidates = keys.candidates(key_id, algorithm, kind).peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::UnknownKey { key_id: key_id.map(shown).unwrap_or_default(), algorithm });
        }
        let is_good = candidates.any(|key| match kind {
            KeyKind::Rsa => self.is_signed_with_rsa(key, digest()),
            KeyKind::EcP256 | KeyKind::EcP384 | KeyKind::EcP521 => self.is_signed_with_ec(key, digest(), half_len),
        });
        if is_good { Ok(()) } else { Err(JwtError::Signature) }
    }

    fn is_signed_with_rsa(&self, key: &Key, digest: MessageDigest) -> bool {
        Verifier::new(digest, &key.public)
            .and_then(|mut verifier| verifier.verify_oneshot(&self.signature, self.signed.as_bytes()))
            .unwrap_or(false)
    }

    fn is_signed_with_ec(&self, key: &Key, digest: MessageDigest, half_len: usize) -> bool {
        let Some((r, s)) = self.signature.split_at_checked(half_len).filter(|(_, s)| s.len() == half_len) else {
            return false;
        };
        let verified = || {
            let signature = EcdsaSig::from_private_components(BigNum::from_slice(r)?, BigNum::from_slice(s)?)?;
            let key = key.public.ec_key()?;
            signature.verify(&hash(digest, self.signed.as_bytes())?, &key)
        };
        verified().unwrap_or(false)
    }
}

/// The beginning of a text from a peer, escaped for errors.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_LEN_MAX).flat_map(char::escape_debug).collect()
}
