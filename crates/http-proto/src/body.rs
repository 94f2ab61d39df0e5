//! Bodies of requests. They are read past, never used.

/// The rest of a body that has not been received yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Body {
    Length(u64),
    Chunked(Chunk),
}

/// Where in a chunked body the next byte belongs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Chunk {
    /// At the beginning of the line with a length.
    #[default]
    Line,
    Data(u64),
    /// At the end of line after data.
    End,
    /// In a line of the trailer, or the empty one after it.
    Trailer,
}

/// A body is malformed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// Longest line with the length of a chunk, or of a trailer.
const LINE_LEN_MAX: usize = 1024;

impl Body {
    /// Reads past a part of the body. Returns its length, and whether the body has ended. A length of 0 without the end means that
    /// more bytes are needed.
    pub(crate) fn skip(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        match self {
            Self::Length(rest) => {
                let len = bytes.len().min(usize::try_from(*rest).unwrap_or(usize::MAX));
                *rest -= len as u64;
                Ok((len, *rest == 0))
            }
            Self::Chunked(chunk) => chunk.skip(bytes),
        }
    }
}

impl Chunk {
    fn skip(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        match self {
            Self::Data(rest) => {
                let len = bytes.len().min(usize::try_from(*rest).unwrap_or(usize::MAX));
                *rest -= len as u64;
                if *rest == 0 {
                    *self = Self::End;
                }
                Ok((len, false))
            }
            Self::Line | Self::End | Self::Trailer => {
                let Some((line, len)) = line_of(bytes)? else { return Ok((0, false)) };
                let is_end = matches!(self, Self::Trailer) && line.is_empty();
                *self = match self {
                    Self::End if line.is_empty() => Self::Line,
                    Self::End => return Err(Malformed),
                    Self::Trailer => Self::Trailer,
                    Self::Line | Self::Data(_) => match chunk_len(line)? {
                        0 => Self::Trailer,
                        len => Self::Data(len),
                    },
                };
                Ok((len, is_end))
            }
        }
    }
}

/// The first line without its end, and its length with it.
fn line_of(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(end) = bytes.iter().take(LINE_LEN_MAX).position(|&byte| byte == b'\n') else {
        return if bytes.len() >= LINE_LEN_MAX { Err(Malformed) } else { Ok(None) };
    };
    // A line that ends without CR is read by other servers in another way.
    let line = bytes.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(Malformed)?;
    if line.contains(&b'\r') { Err(Malformed) } else { Ok(Some((line, end + 1))) }
}

/// The length in hexadecimal digits, before extensions.
fn chunk_len(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = std::str::from_utf8(digits).map_err(|_| Malformed)?.trim_end_matches([' ', '\t']);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Malformed);
    }
    u64::from_str_radix(digits, 16).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips `bytes` in pieces of `step`, and returns what lies after the body.
    fn rest_of(mut body: Body, bytes: &[u8], step: usize) -> Result<Option<&[u8]>, Malformed> {
        let (mut start, mut end) = (0, 0);
        while end < bytes.len() {
            end = (end + step).min(bytes.len());
            loop {
                let (len, is_end) = body.skip(&bytes[start..end])?;
                start += len;
                if is_end {
                    return Ok(Some(&bytes[start..]));
                }
                if len == 0 {
                    break;
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn bodies_end_where_they_say_however_they_arrive() {
        let chunked = b"4;x=\"y\"\r\nWiki\r\n0A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET";
        for step in 1..=chunked.len() {
            let body = Body::Chunked(Chunk::default());
            assert_eq!(rest_of(body, chunked, step), Ok(Some(&b"GET"[..])), "{step}");
            assert_eq!(rest_of(Body::Length(5), b"12345GET", step), Ok(Some(&b"GET"[..])));
        }
        assert_eq!(rest_of(Body::Length(5), b"1234", 1), Ok(None));
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for bytes in [
            &b"x\r\n"[..],
            b"\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"0x1\r\n",
            b"1 1\r\n",
            b"1\n",
            b"1\r\r\n",
            b"1\r\nab\r\n",
            b"11111111111111111\r\n",
        ] {
            let refused = rest_of(Body::Chunked(Chunk::default()), bytes, 1);
            assert!(refused.is_err(), "{}", bytes.escape_ascii());
        }
        assert!(rest_of(Body::Chunked(Chunk::default()), &[b'0'; LINE_LEN_MAX], LINE_LEN_MAX).is_err());
    }
}
