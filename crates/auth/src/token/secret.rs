//! A bearer token in transit: its possession is the proof.

use std::fmt;
use zeroize::Zeroizing;

/// Longest token, bytes: a few times what issuers make, and what fits into the header of an HTTP request.
pub const TOKEN_LEN_MAX: usize = 16 << 10;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_never_shown() {
        let token = Token::parse(b" abc.def.ghi\n").unwrap();
        assert_eq!(token.expose(), "abc.def.ghi");
        assert_eq!(format!("{token:?}"), "Token(11 bytes)");
    }

    #[test]
    fn texts_that_can_be_no_token_are_refused() {
        assert_eq!(Token::parse(b" \n"), Err(TokenTextError::Empty));
        assert_eq!(Token::parse(b"a b"), Err(TokenTextError::BadByte));
        assert_eq!(Token::parse(b"a\0"), Err(TokenTextError::BadByte));
        assert_eq!(Token::parse("aü".as_bytes()), Err(TokenTextError::BadByte));
        assert!(Token::parse(&vec![b'a'; TOKEN_LEN_MAX]).is_ok());
        let too_long = Token::parse(&vec![b'a'; TOKEN_LEN_MAX + 1]);
        assert_eq!(too_long, Err(TokenTextError::TooLong { len: TOKEN_LEN_MAX + 1 }));
    }
}
