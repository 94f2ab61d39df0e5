//! The heads of answers.

use crate::{head::Version, status::Status};
use forebay_types::ByteRange;
use std::fmt::Write as _;

/// The head of an answer in the making. Fields are appended to it as text.
#[derive(Debug)]
pub struct Answer {
    pub status: Status,
    pub framing: Framing,
    fields: Fields,
}

/// Fields of heads as text. Those that many answers have in common are made once.
#[derive(Clone, Debug, Default)]
pub struct Fields(String);

/// How a client finds the end of the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    /// The status or the method has none.
    None,
    Length(u64),
    /// In chunks, with a trailer `X-Transfer-Status` if `has_status`.
    Chunked {
        has_status: bool,
    },
    /// At the end of the connection, for clients of HTTP/1.0.
    Close,
}

/// Fits the fields of an answer with a part of a file.
const FIELDS_CAPACITY: usize = 448;

impl Fields {
    /// Appends a field. Line breaks in the value, which could add fields, are replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.add(name, value);
        self
    }

    /// Appends a field, as [`Fields::with`] does.
    pub fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let Self(text) = self;
        text.push_str(name);
        text.push_str(": ");
        let start = text.len();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value}");
        let is_unsafe = |value: &str| value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
        if text.get(start..).is_some_and(is_unsafe) {
            let clean = text.split_off(start).replace(|c: char| c.is_ascii_control(), " ");
            text.push_str(&clean);
        }
        text.push_str("\r\n");
    }
}

impl Answer {
    pub fn new(status: Status, framing: Framing) -> Self {
        Self { status, framing, fields: Fields(String::with_capacity(FIELDS_CAPACITY)) }
    }

    /// Appends a field, as [`Fields::with`] does.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.add(name, value);
        self
    }

    /// Appends a field, as [`Fields::with`] does.
    pub fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.fields.add(name, value);
    }

    /// Appends all of `fields`.
    pub fn add_all(&mut self, Fields(text): &Fields) {
        self.fields.0.push_str(text);
    }

    /// Appends a field whose value is a number.
    pub fn add_number(&mut self, name: &str, value: u64) {
        let Fields(text) = &mut self.fields;
        for part in [name, ": ", itoa::Buffer::new().format(value), "\r\n"] {
            text.push_str(part);
        }
    }

    /// Appends the place of `range`, which is not empty, in a file of `size` bytes.
    pub fn add_content_range(&mut self, range: ByteRange, size: u64) {
        let Fields(text) = &mut self.fields;
        text.push_str("Content-Range: bytes ");
        push_place(range, size, text);
        text.push_str("\r\n");
    }

    /// The fields that were added, by name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.0.split("\r\n").filter_map(|line| line.split_once(": "))
    }

    /// Writes the head for HTTP/1, in parts that `append` gets in order. `date` is the text of the time now.
    pub fn write(&self, version: Version, is_kept_alive: bool, date: &str, mut append: impl FnMut(&[u8])) {
        let Status(code) = self.status;
        let Fields(fields) = &self.fields;
        let mut digits = itoa::Buffer::new();
        let code = digits.format(code);
        for part in ["HTTP/1.1 ", code, " ", self.status.reason(), "\r\nDate: ", date, "\r\n", fields] {
            append(part.as_bytes());
        }
        match self.framing {
            Framing::None | Framing::Close => {}
            Framing::Length(len) => {
                append(b"Content-Length: ");
                append(digits.format(len).as_bytes());
                append(b"\r\n");
            }
            Framing::Chunked { has_status } => {
                append(b"Transfer-Encoding: chunked\r\n");
                if has_status {
                    append(b"Trailer: X-Transfer-Status\r\n");
                }
            }
        }
        match (version, is_kept_alive && self.framing != Framing::Close) {
            (Version::Http10, true) => append(b"Connection: keep-alive\r\n"),
            (_, false) => append(b"Connection: close\r\n"),
            (_, true) => {}
        }
        append(b"\r\n");
    }
}

/// Appends a range as `Content-Range` has it, without its unit.
pub(crate) fn push_place(range: ByteRange, size: u64, text: &mut String) {
    let mut digits = itoa::Buffer::new();
    text.push_str(digits.format(range.start()));
    text.push('-');
    text.push_str(digits.format(range.end().saturating_sub(1)));
    text.push('/');
    text.push_str(digits.format(size));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: &Answer, version: Version, is_kept_alive: bool) -> String {
        let mut out = Vec::new();
        answer.write(version, is_kept_alive, "now", |part| out.extend_from_slice(part));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_have_their_fields_and_one_framing() {
        let answer = Answer::new(Status::PARTIAL, Framing::Length(5)).with("ETag", "\"a\"");
        let text = "HTTP/1.1 206 Partial Content\r\nDate: now\r\nETag: \"a\"\r\nContent-Length: 5\r\n";
        assert_eq!(written(&answer, Version::Http11, true), format!("{text}\r\n"));
        assert_eq!(written(&answer, Version::Http10, true), format!("{text}Connection: keep-alive\r\n\r\n"));
        assert_eq!(written(&answer, Version::Http11, false), format!("{text}Connection: close\r\n\r\n"));
        let answer = Answer::new(Status::OK, Framing::Chunked { has_status: true });
        let text = "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nTrailer: X-Transfer-Status\r\n\r\n";
        assert_eq!(written(&answer, Version::Http11, true), text);
        let answer = Answer::new(Status::OK, Framing::Close);
        assert!(written(&answer, Version::Http10, true).ends_with("Connection: close\r\n\r\n"));
    }

    #[test]
    fn values_cannot_add_fields() {
        let answer = Answer::new(Status::OK, Framing::None).with("Location", "/a\r\nSet-Cookie: x\0");
        assert_eq!(answer.fields().collect::<Vec<_>>(), [("Location", "/a  Set-Cookie: x ")]);
    }

    #[test]
    fn fields_of_numbers_and_places_are_written_as_text() {
        let mut answer = Answer::new(Status::PARTIAL, Framing::None).with("A", 1);
        answer.add_all(&Fields::default().with("ETag", "\"a\"").with("B", "x\ny"));
        answer.add_number("Age", u64::MAX);
        answer.add_content_range(ByteRange::at(5, 10), 100);
        let fields = [("A", "1"), ("ETag", "\"a\""), ("B", "x y"), ("Age", "18446744073709551615")];
        assert_eq!(answer.fields().take(4).collect::<Vec<_>>(), fields);
        assert_eq!(answer.fields().last(), Some(("Content-Range", "bytes 5-14/100")));
    }
}
