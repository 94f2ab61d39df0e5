//! An issuer of tokens, signed with RSA and SHA-256.

use super::{AUDIENCE, ISSUER, LIFETIME_S};
use anyhow::Result;
use openssl::base64;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;

/// A name with a key that signs certificates.
pub(super) struct Issuer {
    key: PKey<Private>,
}

const KEY_BITS: u32 = 2048;

impl Issuer {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { key: PKey::from_rsa(Rsa::generate(KEY_BITS)?)? })
    }

    /// The public key as a JSON web key set.
    pub(super) fn key_set(&self) -> Result<String> {
        let key = self.key.rsa()?;
        let (n, e) = (encoded(&key.n().to_vec()), encoded(&key.e().to_vec()));
        Ok(format!(r#"{{"keys":[{{"kty":"RSA","kid":"bench","alg":"RS256","use":"sig","n":"{n}","e":"{e}"}}]}}"#))
    }

    /// A token of `subject`, who may read everything.
    pub(super) fn token(&self, subject: &str, now: i64) -> Result<String> {
        let (from, end) = (now - 60, now + LIFETIME_S);
        let claims = format!(
            r#"{{"iss":"{ISSUER}","sub":"{subject}","aud":"{AUDIENCE}","wlcg.ver":"1.0","scope":"storage.read:/","iat":{from},"nbf":{from},"exp":{end}}}"#
        );
        let head = encoded(br#"{"alg":"RS256","typ":"JWT","kid":"bench"}"#);
        let signed = format!("{head}.{}", encoded(claims.as_bytes()));
        let mut signer = Signer::new(MessageDigest::sha256(), &self.key)?;
        let signature = signer.sign_oneshot_to_vec(signed.as_bytes())?;
        Ok(format!("{signed}.{}", encoded(&signature)))
    }
}

/// Base 64 for URLs, without padding.
fn encoded(bytes: &[u8]) -> String {
    base64::encode_block(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}
