//! Tokens that were verified a moment ago: clients send the same one with every open.

use super::Token;
use crate::{Identity, UnixTime};
use openssl::sha::sha256;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a token is believed without another look at its issuer's keys, seconds.
pub const VERIFIED_SECONDS_MAX: i64 = 60;

/// Tokens that were verified a moment ago, known by their digests: the tokens themselves are not kept.
///
/// Holds a fixed number. When half of that was added, what was not asked for since the half before is let go.
#[derive(Debug)]
pub struct VerifiedTokens {
    half_capacity: usize,
    young: HashMap<Digest, Verified>,
    old: HashMap<Digest, Verified>,
}

type Digest = [u8; 32];

#[derive(Clone, Debug)]
struct Verified {
    identity: Arc<Identity>,
    until: UnixTime,
}

impl VerifiedTokens {
    /// Remembers at most `capacity` tokens, and at least two.
    pub fn new(capacity: usize) -> Self {
        Self { half_capacity: (capacity / 2).max(1), young: HashMap::new(), old: HashMap::new() }
    }

    /// Whom `token` proved its bearer to be, if that was a moment before `now` and it has not expired since. The host is that of
    /// the client that sent it first.
    pub fn get(&mut self, token: &Token, now: UnixTime) -> Option<Arc<Identity>> {
        let digest = sha256(token.expose().as_bytes());
        if let Some(verified) = self.young.get(&digest) {
            return verified.at(now);
        }
        let verified = self.old.remove(&digest)?;
        let identity = verified.at(now)?;
        self.keep(digest, verified);
        Some(identity)
    }

    /// Remembers that `token` was verified at `now`.
    pub fn insert(&mut self, token: &Token, identity: Arc<Identity>, now: UnixTime) {
        let until = now.plus(VERIFIED_SECONDS_MAX);
        self.keep(sha256(token.expose().as_bytes()), Verified { identity, until });
    }

    /// Forgets all tokens: after an issuer was taken away, or its keys were.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    fn keep(&mut self, digest: Digest, verified: Verified) {
        if self.young.len() >= self.half_capacity && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&digest);
        self.young.insert(digest, verified);
    }
}

impl Verified {
    fn at(&self, now: UnixTime) -> Option<Arc<Identity>> {
        (now < self.until && !self.identity.is_expired(now)).then(|| Arc::clone(&self.identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    const NOW: UnixTime = UnixTime(1_000);

    fn token(text: &str) -> Token {
        Token::parse(text.as_bytes()).unwrap()
    }

    fn identity(expires_at: i64) -> Arc<Identity> {
        Arc::new(Identity { expires_at: Some(UnixTime(expires_at)), ..Identity::of(Method::Token, "h") })
    }

    #[test]
    fn tokens_are_believed_for_a_minute_and_not_kept() {
        let mut tokens = VerifiedTokens::new(8);
        tokens.insert(&token("long"), identity(5_000), NOW);
        tokens.insert(&token("short"), identity(1_010), NOW);
        let mut is_known = |text: &str, seconds| tokens.get(&token(text), NOW.plus(seconds)).is_some();
        assert!(is_known("long", 59));
        assert!(!is_known("long", 60));
        assert!(is_known("short", 9));
        assert!(!is_known("short", 10));
        assert!(!is_known("other", 0));
        let mut tokens = VerifiedTokens::new(2);
        tokens.insert(&token("secret.secret.secret"), identity(5_000), NOW);
        assert!(!format!("{tokens:?}").contains("secret"));
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_let_go() {
        let mut tokens = VerifiedTokens::new(8);
        for number in 0..100 {
            tokens.insert(&token(&format!("t{number}")), identity(5_000), NOW);
            tokens.insert(&token("wanted"), identity(5_000), NOW);
            assert!(tokens.young.len() + tokens.old.len() <= 8, "{number}");
        }
        tokens.insert(&token("wanted"), identity(5_000), NOW);
        for number in 100..200 {
            tokens.insert(&token(&format!("t{number}")), identity(5_000), NOW);
            assert!(tokens.get(&token("wanted"), NOW).is_some(), "{number}");
            assert!(tokens.young.len() + tokens.old.len() <= 8, "{number}");
        }
        assert!(tokens.get(&token("t100"), NOW).is_none());
        tokens.clear();
        assert!(tokens.young.is_empty() && tokens.old.is_empty());
        assert!(tokens.get(&token("wanted"), NOW).is_none());
    }
}
