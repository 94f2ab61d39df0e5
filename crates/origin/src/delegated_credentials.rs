//! The credentials that a client hands over for requests in its name.

use forebay_auth::Credentials;
use parking_lot::RwLock;
use std::sync::Arc;

/// In whose name a request is made: the cache's own, or that of a client, whose credentials are shown to origins that are
/// configured that way. Clones share them, so that a file that is opened again uses the newest ones.
#[derive(Clone, Debug, Default)]
pub struct DelegatedCredentials {
    current: Option<Arc<Cell>>,
    is_insisting: bool,
}

/// `None` for a client that has handed over nothing.
type Cell = RwLock<Option<Arc<Credentials>>>;

impl DelegatedCredentials {
    /// For a client and the credentials that it has handed over, if any.
    #[must_use]
    pub fn of(credentials: Option<Arc<Credentials>>) -> Self {
        Self { current: Some(Arc::new(RwLock::new(credentials))), is_insisting: false }
    }

    /// The same for every server of the configuration, whatever it is usually shown. The cache's own credentials are never
    /// shown then: the answer must be the client's.
    #[must_use]
    pub fn insisting(self) -> Self {
        Self { is_insisting: true, ..self }
    }

    /// Whether the cache's own credentials must not be shown.
    #[must_use]
    pub const fn is_insisting(&self) -> bool {
        self.is_insisting
    }

    /// Whether the request is made for a client, which may have no credentials.
    #[must_use]
    pub const fn is_for_client(&self) -> bool {
        self.current.is_some()
    }

    /// The credentials of the client.
    #[must_use]
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.current.as_ref()?.read().clone()
    }

    /// Uses the credentials of `other` from now on, unless they end earlier.
    pub fn renew(&self, other: &Self) {
        // A client that hands over nothing must not remove credentials that are still valid. Those of `other` are read before
        // the lock is taken: both may share a cell.
        let (Some(current), Some(newer)) = (&self.current, other.credentials()) else { return };
        let mut current = current.write();
        // Of credentials without a known end, those that were accepted last are the better guess.
        let known_end = current.as_ref().and_then(|credentials| credentials.valid_until());
        if known_end.is_none_or(|end| newer.valid_until().is_some_and(|newer_end| newer_end > end)) {
            *current = Some(newer);
        }
    }
}

impl Eq for DelegatedCredentials {}

impl PartialEq for DelegatedCredentials {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.current, &other.current) {
            (None, None) => true,
            // By identity: clones share a cell, and its content changes with each renewal.
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same && self.is_insisting == other.is_insisting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_auth::Token;

    #[test]
    fn a_request_under_way_uses_credentials_that_last_longer() {
        // Claims: {"exp":1} and {"exp":9}.
        let of = |claims| {
            let token = Token::parse(format!("eyJhbGciOiJub25lIn0.{claims}.c2ln").as_bytes()).unwrap();
            DelegatedCredentials::of(Some(Arc::new(Credentials::of_client().with_token(token))))
        };
        let (short, long) = (of("eyJleHAiOjF9"), of("eyJleHAiOjl9"));
        let clone = short.clone();
        let ends = |delegated: &DelegatedCredentials| delegated.credentials().unwrap().valid_until();
        assert!(ends(&short) < ends(&long));
        short.renew(&long);
        assert_eq!(ends(&clone), ends(&long));
        long.renew(&of("eyJleHAiOjF9"));
        assert_eq!(ends(&long), ends(&clone), "credentials that end earlier are no gain");
        let without = DelegatedCredentials::of(None);
        without.renew(&short);
        assert!(without.credentials().is_some(), "any credentials are better than none");
        DelegatedCredentials::default().renew(&long);
        assert!(DelegatedCredentials::default().credentials().is_none());
    }
}
