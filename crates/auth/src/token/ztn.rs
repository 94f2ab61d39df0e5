//! The security protocol `ztn`: one message that carries a token. Both sides use it over TLS only.

use super::{TOKEN_LEN_MAX, Token, TokenTextError};
use zeroize::Zeroizing;

/// Name of the protocol, padded as messages begin.
const NAME: [u8; 4] = *b"ztn\0";

/// The only version there is.
const VERSION: u8 = 0;

/// The message carries a token.
const OP_TOKEN: u8 = b'T';

/// Bytes before the token: name, version, operation, two of padding, length.
const HEADER_LEN: usize = 10;

/// The parameters of a server in the list of security protocols: `VERSION:LENGTH:`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ZtnParams {
    /// Longest token that the server takes, bytes.
    pub token_len_max: usize,
}

/// Why a message or parameters of `ztn` were refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ZtnError {
    #[error("ztn: the message is cut off")]
    Truncated,
    #[error("ztn: the message is of another protocol or version")]
    Foreign,
    #[error("ztn: operation {op} is not supported, send a token")]
    Operation { op: u8 },
    #[error("ztn: the token does not end with a NUL byte")]
    NoNul,
    #[error("ztn: {0}")]
    Token(#[from] TokenTextError),
    #[error("ztn: the server's parameters are not of the form VERSION:LENGTH:")]
    Params,
    #[error("ztn: the token has {len} bytes, the server takes {len_max}")]
    TooLongForServer { len: usize, len_max: usize },
}

impl Default for ZtnParams {
    fn default() -> Self {
        Self { token_len_max: TOKEN_LEN_MAX }
    }
}

impl ZtnParams {
    /// The text in the server's list.
    pub fn to_text(self) -> String {
        format!("{VERSION}:{}:", self.token_len_max)
    }

    /// Reads the text in a server's list. Options before the version are left alone, as the stock client does.
    ///
    /// # Errors
    /// When it is of another form.
    pub fn parse(text: &str) -> Result<Self, ZtnError> {
        let mut fields = text.split(':');
        let _options_and_version: u64 = fields.next().and_then(|field| field.parse().ok()).ok_or(ZtnError::Params)?;
        let len: usize = fields.next().and_then(|field| field.parse().ok()).ok_or(ZtnError::Params)?;
        if len == 0 {
            return Err(ZtnError::Params);
        }
        Ok(Self { token_len_max: len.min(TOKEN_LEN_MAX) })
    }
}

/// The message of a client that carries `token`.
///
/// # Errors
/// When the server does not take a token that long.
pub fn ztn_message(token: &Token, server: ZtnParams) -> Result<Zeroizing<Vec<u8>>, ZtnError> {
    let text = token.expose().as_bytes();
    let error = ZtnError::TooLongForServer { len: text.len(), len_max: server.token_len_max };
    if text.len() > server.token_len_max {
        return Err(error);
    }
    let len = u16::try_from(text.len() + 1).map_err(|_| error)?;
    let mut message = Zeroizing::new(Vec::with_capacity(HEADER_LEN + text.len() + 1));
    message.extend(NAME);
    message.extend([VERSION, OP_TOKEN, 0, 0]);
    message.extend(len.to_be_bytes());
    message.extend(text);
    message.push(0);
    Ok(message)
}

/// The token in a client's message. Stock clients pad it.
///
/// # Errors
/// Says why the message was refused.
pub fn parse_ztn_message(message: &[u8]) -> Result<Token, ZtnError> {
    let (header, rest) = message.split_first_chunk::<HEADER_LEN>().ok_or(ZtnError::Truncated)?;
    let [n0, n1, n2, n3, version, op, _, _, len_high, len_low] = *header;
    if [n0, n1, n2, n3] != NAME || version != VERSION {
        return Err(ZtnError::Foreign);
    }
    if op != OP_TOKEN {
        return Err(ZtnError::Operation { op });
    }
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let text = rest.get(..len).ok_or(ZtnError::Truncated)?;
    Ok(Token::parse(text.strip_suffix(b"\0").ok_or(ZtnError::NoNul)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::parse(b"a.b.c").unwrap()
    }

    #[test]
    fn messages_have_the_layout_of_stock_clients_and_others_are_refused() {
        let message = ztn_message(&token(), ZtnParams::default()).unwrap();
        assert_eq!(message.as_slice(), b"ztn\0\0T\0\0\0\x06a.b.c\0");
        assert_eq!(parse_ztn_message(&message), Ok(token()));
        assert_eq!(parse_ztn_message(b"ztn\0\0T\0\0\0\x06a.b.c\0xx"), Ok(token()));
        for (message, error) in [
            (b"".as_slice(), ZtnError::Truncated),
            (b"ztn\0\0T\0\0\0", ZtnError::Truncated),
            (b"ztn\0\0T\0\0\0\x07a.b.c\0", ZtnError::Truncated),
            (b"gsi\0\0T\0\0\0\x06a.b.c\0", ZtnError::Foreign),
            (b"ztn\0\x01T\0\0\0\x06a.b.c\0", ZtnError::Foreign),
            (b"ztn\0\0S\0\0\0\x06a.b.c\0", ZtnError::Operation { op: b'S' }),
            (b"ztn\0\0T\0\0\0\x05a.b.c\0", ZtnError::NoNul),
            (b"ztn\0\0T\0\0\0\0", ZtnError::NoNul),
            (b"ztn\0\0T\0\0\0\x01\0", ZtnError::Token(TokenTextError::Empty)),
        ] {
            assert_eq!(parse_ztn_message(message), Err(error), "{message:?}");
        }
    }

    #[test]
    fn servers_say_how_long_a_token_may_be() {
        assert_eq!(ZtnParams { token_len_max: 4096 }.to_text(), "0:4096:");
        assert_eq!(ZtnParams::parse("0:4096:"), Ok(ZtnParams { token_len_max: 4096 }));
        assert_eq!(ZtnParams::parse("0:524288:").unwrap().token_len_max, TOKEN_LEN_MAX);
        for text in ["", "0", "0:", "x:1:", "0:x:", "0:0:", "0:-1:"] {
            assert_eq!(ZtnParams::parse(text), Err(ZtnError::Params), "{text}");
        }
        let refused = ztn_message(&token(), ZtnParams { token_len_max: 4 });
        assert_eq!(refused, Err(ZtnError::TooLongForServer { len: 5, len_max: 4 }));
        assert!(ztn_message(&token(), ZtnParams { token_len_max: 5 }).is_ok());
    }
}
