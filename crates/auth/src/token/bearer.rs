//! Tokens that come with a request, in the opaque data of a path.

use super::{Token, TokenTextError};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use zeroize::Zeroizing;

/// The key of opaque data that holds a token.
const AUTHZ: &str = "authz";

/// The scheme before a token, in any case (RFC 9110).
const SCHEME: &[u8] = b"bearer";

impl Token {
    /// The token in opaque data (`authz=Bearer%20…&…`; the scheme may be missing); `None` when there is none. Of several,
    /// the first counts.
    ///
    /// # Errors
    /// When the parameter is not a token.
    pub fn from_opaque(opaque: &str) -> Result<Option<Self>, TokenTextError> {
        let Some(value) = opaque.split('&').find_map(authz_value) else { return Ok(None) };
        let decoded: Zeroizing<Vec<u8>> = Zeroizing::new(percent_decode_str(value).collect());
        Self::parse(without_scheme(&decoded).unwrap_or(&decoded)).map(Some)
    }
}

/// Opaque data without its tokens: what may be logged, or be part of a key.
#[must_use]
pub fn without_tokens(opaque: &str) -> Cow<'_, str> {
    if opaque.split('&').all(|pair| authz_value(pair).is_none()) {
        return Cow::Borrowed(opaque);
    }
    let kept: Vec<_> = opaque.split('&').filter(|pair| authz_value(pair).is_none()).collect();
    Cow::Owned(kept.join("&"))
}

fn authz_value(pair: &str) -> Option<&str> {
    pair.split_once('=').filter(|(key, _)| *key == AUTHZ).map(|(_, value)| value)
}

/// The text after `Bearer` and a space.
fn without_scheme(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.trim_ascii_start().split_at_checked(SCHEME.len())?;
    (scheme.eq_ignore_ascii_case(SCHEME) && rest.first().is_some_and(u8::is_ascii_whitespace)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_opaque(opaque: &str) -> Result<Option<String>, TokenTextError> {
        Token::from_opaque(opaque).map(|token| token.map(|token| token.expose().to_owned()))
    }

    #[test]
    fn opaque_data_carries_tokens_with_or_without_scheme() {
        for opaque in
            ["authz=Bearer%20a.b.c", "x=1&authz=a.b.c&y", "authz=Bearer%20a.b.c&authz=other", "authz=bearer a.b.c"]
        {
            assert_eq!(in_opaque(opaque), Ok(Some("a.b.c".to_owned())), "{opaque}");
        }
        for opaque in ["", "a=1", "xauthz=a", "authz", "Authz=a"] {
            assert_eq!(in_opaque(opaque), Ok(None), "{opaque}");
        }
        assert_eq!(in_opaque("authz="), Err(TokenTextError::Empty));
        assert_eq!(in_opaque("authz=Bearer%20"), Err(TokenTextError::Empty));
        assert_eq!(in_opaque("authz=a%00b"), Err(TokenTextError::BadByte));
    }

    #[test]
    fn opaque_data_is_cleared_of_all_tokens() {
        assert_eq!(without_tokens("a=1&authz=x&b=2&authz=y"), "a=1&b=2");
        assert_eq!(without_tokens("authz=x"), "");
        assert!(matches!(without_tokens("a=1&b"), Cow::Borrowed("a=1&b")));
    }
}
