//! For whom a file is asked for.

use forebay_auth::Credentials;
use parking_lot::RwLock;
use std::sync::Arc;

/// For whom something is asked for: nobody, or a client, shown by its own credentials where an origin is used that way. Clones
/// share it, so that what is opened anew uses the newest credentials.
#[derive(Clone, Debug, Default)]
pub struct OnBehalf {
    current: Option<Arc<Cell>>,
    is_insisting: bool,
}

/// What a client has to show, if anything.
type Cell = RwLock<Option<Arc<Credentials>>>;

impl OnBehalf {
    /// On behalf of a client with what it has to show, if anything.
    #[must_use]
    pub fn of(credentials: Option<Arc<Credentials>>) -> Self {
        Self { current: Some(Arc::new(RwLock::new(credentials))), is_insisting: false }
    }

    /// The same for every server of the configuration, whatever it is usually shown: on behalf of nobody, nothing is proven.
    #[must_use]
    pub fn insisting(self) -> Self {
        Self { is_insisting: true, ..self }
    }

    pub(crate) const fn is_insisting(&self) -> bool {
        self.is_insisting
    }

    /// Whether it is for a client, be it one without credentials.
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
        let (Some(current), Some(newer)) = (&self.current, other.credentials()) else { return };
        let mut current = current.write();
        // Of those whose end is not known, the ones that were accepted last are the better guess.
        let known_end = current.as_ref().and_then(|credentials| credentials.valid_until());
        if known_end.is_none_or(|end| newer.valid_until().is_some_and(|newer_end| newer_end > end)) {
            *current = Some(newer);
        }
    }
}

impl Eq for OnBehalf {}

impl PartialEq for OnBehalf {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.current, &other.current) {
            (None, None) => true,
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
            OnBehalf::of(Some(Arc::new(Credentials::of_client().with_token(token))))
        };
        let (short, long) = (of("eyJleHAiOjF9"), of("eyJleHAiOjl9"));
        let clone = short.clone();
        let ends = |behalf: &OnBehalf| behalf.credentials().unwrap().valid_until();
        assert!(ends(&short) < ends(&long));
        short.renew(&long);
        assert_eq!(ends(&clone), ends(&long));
        long.renew(&of("eyJleHAiOjF9"));
        assert_eq!(ends(&long), ends(&clone), "what ends earlier is no gain");
        let without = OnBehalf::of(None);
        without.renew(&short);
        assert!(without.credentials().is_some(), "who has nothing takes what there is");
        OnBehalf::default().renew(&long);
        assert!(OnBehalf::default().credentials().is_none());
    }
}
