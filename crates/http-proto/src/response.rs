//! The heads of answers.

use crate::{head::Version, status::Status};
use std::fmt::Write as _;

/// The head of an answer in the making. Fields are appended to it as text.
#[derive(Debug)]
pub struct Answer {
    pub status: Status,
    pub framing: Framing,
    fields: String,
}

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

impl Answer {
    pub const fn new(status: Status, framing: Framing) -> Self {
        Self { status, framing, fields: String::new() }
    }

    /// Appends a field. Line breaks in the value, which could add fields, are replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.add(name, value);
        self
    }

    /// Appends a field, as [`Answer::with`] does.
    pub fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.fields.push_str(name);
        self.fields.push_str(": ");
        let start = self.fields.len();
        // Writing to a string cannot fail.
        let _ = write!(self.fields, "{value}");
        let is_unsafe = |value: &str| value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
        if self.fields.get(start..).is_some_and(is_unsafe) {
            let clean = self.fields.split_off(start).replace(|c: char| c.is_ascii_control(), " ");
            self.fields.push_str(&clean);
        }
        self.fields.push_str("\r\n");
    }

    /// The fields that were added, by name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.split("\r\n").filter_map(|line| line.split_once(": "))
    }

    /// Writes the head for HTTP/1. `date` is the text of the time now.
    pub fn write(&self, version: Version, is_kept_alive: bool, date: &str, out: &mut Vec<u8>) {
        let Status(code) = self.status;
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(code.to_string().as_bytes());
        out.push(b' ');
        for part in [self.status.reason(), "\r\nDate: ", date, "\r\n", &self.fields] {
            out.extend_from_slice(part.as_bytes());
        }
        match self.framing {
            Framing::None | Framing::Close => {}
            Framing::Length(len) => {
                out.extend_from_slice(b"Content-Length: ");
                out.extend_from_slice(len.to_string().as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Framing::Chunked { has_status } => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                if has_status {
                    out.extend_from_slice(b"Trailer: X-Transfer-Status\r\n");
                }
            }
        }
        match (version, is_kept_alive && self.framing != Framing::Close) {
            (Version::Http10, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (_, false) => out.extend_from_slice(b"Connection: close\r\n"),
            (_, true) => {}
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: &Answer, version: Version, is_kept_alive: bool) -> String {
        let mut out = Vec::new();
        answer.write(version, is_kept_alive, "now", &mut out);
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
}
