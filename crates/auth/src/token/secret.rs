//! A bearer token in transit: its possession is the proof. Requests carry one in the opaque data of a path.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;
use zeroize::Zeroizing;

/// Longest token, bytes: a few times what issuers make, and what fits into the header of an HTTP request.
pub const TOKEN_LEN_MAX: usize = 16 << 10;

/// The key of opaque data that holds a token.
const AUTHZ: &str = "authz";

/// The scheme before a token, in any case (RFC 9110).
const SCHEME: &[u8] = b"bearer";

/// A bearer token, not verified: not part of `Debug`, and cleared from memory when it is dropped.
#[derive(Clone, Eq, PartialEq)]
pub struct Token(Zeroizing<String>);

/// Why a text can be no token.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenTextError {
    #[error("the token is empty")]
    Empty,
    #[error("the token has {len} bytes, at most {TOKEN_LEN_MAX} are taken")]
    TooLong { len: usize },
    #[error("the token holds bytes other than printable ASCII: is it a file's name, or text around it?")]
    BadByte,
}

impl Token {
    /// Takes the text of a token; white space around it is dropped.
    ///
    /// # Errors
    /// When the text can be no token.
    pub fn parse(text: &[u8]) -> Result<Self, TokenTextError> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Err(TokenTextError::Empty);
        }
        if text.len() > TOKEN_LEN_MAX {
            return Err(TokenTextError::TooLong { len: text.len() });
        }
        if !text.iter().all(u8::is_ascii_graphic) {
            return Err(TokenTextError::BadByte);
        }
        let text = std::str::from_utf8(text).map_err(|_| TokenTextError::BadByte)?;
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

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

    /// The secret itself, to verify or send it; never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token({} bytes)", self.0.len())
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

    #[test]
    fn tokens_are_never_shown_and_other_texts_are_refused() {
        let token = Token::parse(b" abc.def.ghi\n").unwrap();
        assert_eq!(token.expose(), "abc.def.ghi");
        assert_eq!(format!("{token:?}"), "Token(11 bytes)");
        assert_eq!(Token::parse(b" \n"), Err(TokenTextError::Empty));
        assert_eq!(Token::parse(b"a b"), Err(TokenTextError::BadByte));
        assert_eq!(Token::parse(b"a\0"), Err(TokenTextError::BadByte));
        assert_eq!(Token::parse("aü".as_bytes()), Err(TokenTextError::BadByte));
        assert!(Token::parse(&vec![b'a'; TOKEN_LEN_MAX]).is_ok());
        let too_long = Token::parse(&vec![b'a'; TOKEN_LEN_MAX + 1]);
        assert_eq!(too_long, Err(TokenTextError::TooLong { len: TOKEN_LEN_MAX + 1 }));
    }

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
