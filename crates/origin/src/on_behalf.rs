//! For whom a file is asked for.

use forebay_auth::Credentials;
use std::sync::{Arc, PoisonError, RwLock};

/// For whom something is asked for: nobody, or a client, shown by its own credentials where an origin is used that way. Clones
/// share it, so that what is opened anew uses the newest credentials.
#[derive(Clone, Debug, Default)]
pub struct OnBehalf {
    current: Option<Arc<RwLock<Arc<Credentials>>>>,
    is_insisting: bool,
}

impl OnBehalf {
    /// On behalf of a client.
    #[must_use]
    pub fn of(credentials: Arc<Credentials>) -> Self {
        Self { current: Some(Arc::new(RwLock::new(credentials))), is_insisting: false }
    }

    /// The same for every server, whatever it is usually shown: on behalf of nobody, nothing is proven.
    #[must_use]
    pub fn insisting(self) -> Self {
        Self { is_insisting: true, ..self }
    }

    pub(crate) const fn is_insisting(&self) -> bool {
        self.is_insisting
    }

    /// The credentials of the client; none on behalf of nobody.
    #[must_use]
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.current.as_ref().map(|current| Arc::clone(&current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Uses the credentials of `other` from now on, unless they end earlier.
    pub fn renew(&self, other: &Self) {
        let (Some(current), Some(newer)) = (&self.current, other.credentials()) else { return };
        let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
        let ends = |credentials: &Credentials| credentials.valid_until().map_or(i64::MAX, |end| end.0);
        if ends(&newer) > ends(&current) {
            *current = newer;
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
            OnBehalf::of(Arc::new(Credentials::of_nobody("u").with_token(token)))
        };
        let (short, long) = (of("eyJleHAiOjF9"), of("eyJleHAiOjl9"));
        let clone = short.clone();
        let ends = |behalf: &OnBehalf| behalf.credentials().unwrap().valid_until();
        assert!(ends(&short) < ends(&long));
        short.renew(&long);
        assert_eq!(ends(&clone), ends(&long));
        long.renew(&of("eyJleHAiOjF9"));
        assert_eq!(ends(&long), ends(&clone), "what ends earlier is no gain");
        OnBehalf::default().renew(&long);
        assert!(OnBehalf::default().credentials().is_none());
    }
}
