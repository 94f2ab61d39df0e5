//! Credentials for servers: our own, or those of the client that a request is for.

use crate::gsi::GsiClientSettings;
use crate::{AccessKey, SecurityProtocol, SssKey, Token, UnixTime};
use forebay_types::OriginId;
use openssl::error::ErrorStack;
use openssl::sha::Sha256;
use std::fmt;
use std::sync::Arc;

/// Identifies credentials: a digest of all that they prove. Sessions of different names never serve each other's requests.
pub type CredentialsName = [u8; 32];

/// Credentials for servers: our own, or those of the client that a request is for. Immutable: a renewed proxy or token makes new ones.
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) gsi: Option<Arc<GsiClientSettings>>,
    pub(crate) token: Option<Token>,
    pub(crate) secret: Option<SssKey>,
    access_key: Option<AccessKey>,
    pub(crate) allows_plain_tokens: bool,
    /// Whether claims without proof (a user name, an address) are not sent.
    pub(crate) proves_only: bool,
    name: CredentialsName,
    valid_until: Option<UnixTime>,
}

/// The credentials for a server.
#[derive(Clone, Debug)]
pub enum CredentialUse {
    Own(Arc<Credentials>),
    /// Those of the client that a request is for.
    OfClient,
}

/// Selects the credentials for servers, always the newest. Called for each request: must not block.
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// The credentials for `server`.
    fn towards(&self, server: &OriginId) -> CredentialUse;
}

impl Credentials {
    /// A user name without proof, for servers that request one.
    pub fn anonymous(user: &str) -> Self {
        let nothing = Self {
            user: user.to_owned(),
            gsi: None,
            token: None,
            secret: None,
            access_key: None,
            allows_plain_tokens: false,
            proves_only: false,
            name: CredentialsName::default(),
            valid_until: None,
        };
        nothing.named("user", user.as_bytes())
    }

    /// Credentials of a client, empty at first. Claims without proof are not sent for it: a server that trusts this host would
    /// attribute them to us, although the client chose them.
    pub fn of_client() -> Self {
        Self { proves_only: true, ..Self::anonymous("") }.named("of a client", b"")
    }

    /// The same with a certificate or proxy.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn with_certificate(self, gsi: Arc<GsiClientSettings>) -> Result<Self, ErrorStack> {
        let (chain, ends) = (gsi.credential.chain().to_pem()?, gsi.credential.valid_until());
        Ok(Self { gsi: Some(gsi), ..self }.named("gsi", &chain).ending(Some(ends)))
    }

    /// The same with a token. It is sent over TLS only.
    #[must_use]
    pub fn with_token(self, token: Token) -> Self {
        let named = self.named("token", token.expose().as_bytes());
        let ends = token.claimed_end();
        Self { token: Some(token), ..named }.ending(ends)
    }

    /// The same with a shared secret.
    #[must_use]
    pub fn with_secret(self, key: SssKey) -> Self {
        let named = self.named("sss", format!("{} {}", key.id, key.name).as_bytes()).named("secret", &key.secret);
        let ends = key.expires_at;
        Self { secret: Some(key), ..named }.ending(ends)
    }

    /// The same with an access key for S3 servers.
    #[must_use]
    pub fn with_access_key(self, key: AccessKey) -> Self {
        let named = self.named("s3", &key.proof());
        Self { access_key: Some(key), ..named }
    }

    /// The access key, if there is one.
    pub const fn access_key(&self) -> Option<&AccessKey> {
        self.access_key.as_ref()
    }

    /// The same, whose token may be sent in clear to servers on this machine.
    #[must_use]
    pub fn allowing_plain_tokens_on_loopback(self) -> Self {
        Self { allows_plain_tokens: true, ..self }
    }

    /// Their identifier.
    pub const fn name(&self) -> &CredentialsName {
        &self.name
    }

    /// Whether they prove anything.
    pub const fn prove_something(&self) -> bool {
        self.gsi.is_some() || self.token.is_some() || self.secret.is_some() || self.access_key.is_some()
    }

    /// The earliest expiry, if one is known.
    pub const fn valid_until(&self) -> Option<UnixTime> {
        self.valid_until
    }

    /// Whether there is a token among them.
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The token to send along with requests on a connection.
    #[must_use]
    pub fn token_for(&self, is_tls: bool, is_loopback: bool) -> Option<&Token> {
        if is_tls || (is_loopback && self.allows_plain_tokens) { self.token.as_ref() } else { None }
    }

    /// The protocols that they support, for messages.
    pub fn protocols(&self) -> Vec<SecurityProtocol> {
        let has = |protocol: &SecurityProtocol| match protocol {
            SecurityProtocol::Gsi => self.gsi.is_some(),
            SecurityProtocol::Ztn => self.token.is_some(),
            SecurityProtocol::Sss => self.secret.is_some(),
            SecurityProtocol::Unix | SecurityProtocol::Host => !self.proves_only,
            SecurityProtocol::Tls => false,
        };
        SecurityProtocol::ALL.into_iter().filter(has).collect()
    }

    fn named(self, kind: &str, proof: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(&self.name);
        digest.update(kind.as_bytes());
        digest.update(&[0]);
        digest.update(proof);
        Self { name: digest.finish(), ..self }
    }

    fn ending(self, ends: Option<UnixTime>) -> Self {
        let valid_until = match (self.valid_until, ends) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { valid_until, ..self }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocols: Vec<_> = self.protocols().into_iter().map(SecurityProtocol::as_str).collect();
        write!(out, "Credentials({}: {})", self.user, protocols.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn credentials_that_prove_different_things_have_different_names() {
        let anonymous = || Credentials::anonymous("cache");
        let (one, other) = (anonymous().with_token(token("a.b.c")), anonymous().with_token(token("a.b.d")));
        assert_ne!(one.name(), other.name());
        assert_ne!(one.name(), anonymous().name());
        assert_eq!(one.name(), anonymous().with_token(token("a.b.c")).name());
        assert_ne!(anonymous().name(), Credentials::anonymous("other").name(), "servers tell users apart");
        assert_ne!(Credentials::anonymous("").name(), Credentials::of_client().name());
        assert!(one.prove_something() && !anonymous().prove_something());
        let key = |secret| anonymous().with_access_key(AccessKey::new("id", secret, None, None));
        assert!(key("a").name() != key("b").name() && key("a").prove_something());
    }

    #[test]
    fn secrets_are_not_shown_and_tokens_do_not_travel_in_clear() {
        let credentials = Credentials::anonymous("cache").with_token(token("a.secret.c"));
        assert!(!format!("{credentials:?}").contains("secret"));
        assert!(credentials.token_for(true, false).is_some());
        assert!(credentials.token_for(false, false).is_none());
        assert!(credentials.token_for(false, true).is_none(), "it is not allowed");
        let allowed = credentials.allowing_plain_tokens_on_loopback();
        assert!(allowed.token_for(false, true).is_some());
        assert!(allowed.token_for(false, false).is_none());
    }
}
