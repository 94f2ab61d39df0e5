//! Frames of STOMP 1.2.

/// Longest frame that is accepted from a broker: its answers have no long bodies.
pub(super) const FRAME_LEN_MAX: usize = 64 << 10;

/// A frame in either direction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Frame {
    pub(super) command: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// Bytes that are not a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the broker does not speak STOMP: {0}")]
pub(super) struct FrameError(&'static str);

impl Frame {
    pub(super) fn new(command: &str, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { command: command.to_owned(), headers, body: Vec::new() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // The frames of the login are those of 1.0, without escapes.
        let is_escaped = self.command != "CONNECT";
        let text = |text: &str| if is_escaped { escaped(text) } else { text.to_owned() };
        let mut out = format!("{}\n", self.command).into_bytes();
        for (name, value) in &self.headers {
            out.extend(format!("{}:{}\n", text(name), text(value)).into_bytes());
        }
        if !self.body.is_empty() {
            out.extend(format!("content-length:{}\n", self.body.len()).into_bytes());
        }
        out.push(b'\n');
        out.extend(&self.body);
        out.push(0);
        out
    }

    /// The first frame of `input` and its length; `None` if more bytes are needed.
    pub(super) fn decode(input: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        // Line ends between frames keep a connection alive.
        let start = input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let frame = input.get(start..).unwrap_or_default();
        if frame.len() > FRAME_LEN_MAX {
            return Err(FrameError("a frame is too long"));
        }
        let Some(head_len) = end_of_head(frame) else { return Ok(None) };
        let head = frame.get(..head_len).unwrap_or_default();
        let head = std::str::from_utf8(head).map_err(|_| FrameError("a head is not UTF-8"))?;
        let mut lines = head.lines();
        let command = lines.next().unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(FrameError("a header has no colon"))?;
            headers.push((unescaped(name), unescaped(value)));
        }
        let rest = frame.get(head_len..).unwrap_or_default();
        let announced = headers.iter().find(|(name, _)| name == "content-length");
        let body_len = match announced {
            Some((_, len)) => Some(len.parse::<usize>().map_err(|_| FrameError("a length is not a number"))?),
            None => rest.iter().position(|byte| *byte == 0),
        };
        let Some(body_len) = body_len.filter(|len| *len < rest.len()) else { return Ok(None) };
        let (body, end) = rest.split_at(body_len);
        if end.first() != Some(&0) {
            return Err(FrameError("a frame does not end with a NUL"));
        }
        let body = body.to_vec();
        Ok(Some((Self { command, headers, body }, start + head_len + body_len + 1)))
    }
}

/// Length of command and headers with the empty line after them.
fn end_of_head(frame: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, byte) in frame.iter().enumerate() {
        if *byte == b'\n' {
            let line = frame.get(line_start..at)?;
            if line.is_empty() || line == b"\r" {
                return Some(at + 1);
            }
            line_start = at + 1;
        }
    }
    None
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace(':', "\\c")
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let next = if character == '\\' { characters.next() } else { None };
        out.push(match next {
            None => character,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('c') => ':',
            Some(other) => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back_however_they_arrive() {
        let mut sent = Frame::new("SEND", &[("destination", "/topic/rucio.cache"), ("odd", "a:b\\c\nd")]);
        sent.body = b"{\"a\":\"\x00\"}".to_vec();
        let bytes = sent.encode();
        for len in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..len]), Ok(None), "{len}");
        }
        let (read, len) = Frame::decode(&bytes).unwrap().unwrap();
        assert_eq!((read.command.as_str(), &read.body, len), ("SEND", &sent.body, bytes.len()));
        assert_eq!(read.header("odd"), sent.header("odd"));
    }

    #[test]
    fn answers_of_brokers_are_understood() {
        let (frame, len) = Frame::decode(b"\n\nCONNECTED\r\nversion:1.2\r\n\r\n\0\n").unwrap().unwrap();
        assert_eq!((frame.command.as_str(), frame.header("version"), len), ("CONNECTED", Some("1.2"), 29));
        let (frame, _) = Frame::decode(b"ERROR\nmessage:no\\cway\n\nbecause\0").unwrap().unwrap();
        assert_eq!((frame.header("message"), frame.body.as_slice()), (Some("no:way"), b"because".as_slice()));
        for bad in [b"ERROR\nmessage\n\n\0".as_slice(), b"A\ncontent-length:x\n\n\0", b"A\ncontent-length:1\n\nab\0"] {
            assert!(Frame::decode(bad).is_err(), "{bad:?}");
        }
        assert!(Frame::decode(&vec![b'a'; FRAME_LEN_MAX + 1]).is_err());
        assert_eq!(Frame::decode(&vec![b'a'; FRAME_LEN_MAX]), Ok(None));
    }
}
