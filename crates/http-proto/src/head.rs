//! The head of a request.

use crate::{
    body::{Body, Chunk},
    session::Refusal,
    status::Status,
    token_lists::{has_token, tokens},
};
use std::mem::MaybeUninit;

/// Longest request line: that of XrdHttp.
pub const TARGET_LEN_MAX: usize = 16 << 10;

/// Longest head: XrdHttp takes 90 KB, with 6000 ranges.
pub const HEAD_LEN_MAX: usize = 128 << 10;

/// Most fields of one head.
pub const FIELDS_MAX: usize = 100;

/// The head of a request.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    pub method: Method,
    /// As it was sent. May hold secrets: never log it.
    pub target: &'a str,
    pub version: Version,
    /// Whether the connection lives on after the answer.
    pub is_kept_alive: bool,
    pub expectation: Expectation,
    fields: Vec<(&'a str, &'a str)>,
}

/// The method of a request. Methods that this server refuses in the same way are one value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    Get,
    Head,
    Options,
    Propfind,
    Post,
    /// A known method that this server does not allow.
    NotAllowed,
    Unknown,
}

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    Http10,
    Http11,
    /// Not over a connection of this server's own HTTP/1.1.
    Http2,
}

/// The value of `Expect`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expectation {
    None,
    /// The body comes only after an interim answer.
    Continue,
    Unknown,
}

impl<'a> Head<'a> {
    /// Reads a head, which ends with an empty line, and the framing of its body.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(Self, Option<Body>), Refusal> {
        let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, &mut room) {
            Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::new(Status::BAD_REQUEST, "the request has too many header fields"));
            }
            Err(httparse::Error::Version) => {
                return Err(Refusal::new(Status::VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.0 and HTTP/1.1"));
            }
            Ok(_) | Err(_) => return Err(Refusal::new(Status::BAD_REQUEST, "the request is malformed")),
        }
        let mut fields = Vec::with_capacity(request.headers.len());
        for header in request.headers.iter() {
            // Fields of other characters carry nothing that is read here.
            let value = std::str::from_utf8(header.value).unwrap_or_default();
            fields.push((header.name, value));
        }
        let version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
        let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        Self::of(Method::of(method), target, version, fields)
    }

    /// A head of HTTP/2 from its parts, as a library has read them.
    ///
    /// # Errors
    /// When the head contradicts itself, has too many fields, or announces a body that is too long.
    pub fn of_parts(method: &str, target: &'a str, fields: Vec<(&'a str, &'a str)>) -> Result<Self, Refusal> {
        if fields.len() > FIELDS_MAX {
            return Err(Refusal::new(Status::BAD_REQUEST, "the request has too many header fields"));
        }
        let (head, body) = Self::of(Method::of(method), target, Version::Http2, fields)?;
        head.check_body(body.as_ref())?;
        Ok(head)
    }

    fn of(
        method: Method,
        target: &'a str,
        version: Version,
        fields: Vec<(&'a str, &'a str)>,
    ) -> Result<(Self, Option<Body>), Refusal> {
        if target.len() > TARGET_LEN_MAX {
            return Err(Refusal::new(Status::URI_TOO_LONG, "the request line is too long"));
        }
        let mut head = Self { method, target, version, is_kept_alive: true, expectation: Expectation::None, fields };
        let hosts = head.values("host").count();
        if hosts > 1 || (hosts == 0 && version == Version::Http11) {
            return Err(Refusal::new(Status::BAD_REQUEST, "the request needs one Host field"));
        }
        let body = head.body()?;
        head.is_kept_alive = match version {
            // A client of HTTP/1.0 cannot know where the answer to its next request begins, unless it asks for that.
            Version::Http10 => has_token(head.values("connection"), "keep-alive") && body.is_none(),
            Version::Http11 => !has_token(head.values("connection"), "close"),
            Version::Http2 => true,
        };
        head.expectation = match head.field("expect") {
            None => Expectation::None,
            Some(value) if value.trim().eq_ignore_ascii_case("100-continue") => Expectation::Continue,
            Some(_) => Expectation::Unknown,
        };
        Ok((head, body))
    }

    /// The first value of a field. Names are in lower case.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// All values of a field, in their order.
    pub fn values<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        self.fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// The framing of the body. Two that contradict each other let a proxy before this server see another request than this
    /// server does.
    fn body(&self) -> Result<Option<Body>, Refusal> {
        let refused = |text| Err(Refusal::new(Status::BAD_REQUEST, text));
        let mut length = None;
        for value in tokens(self.values("content-length")) {
            if !value.bytes().all(|digit| digit.is_ascii_digit()) {
                return refused("Content-Length is not a number");
            }
            let Ok(value) = value.parse::<u64>() else { return refused("Content-Length is too large") };
            if length.is_some_and(|length| length != value) {
                return refused("Content-Length is given twice");
            }
            length = Some(value);
        }
        if length.is_none() && self.field("content-length").is_some() {
            return refused("Content-Length is not a number");
        }
        if self.field("transfer-encoding").is_none() {
            return Ok(length.filter(|length| *length > 0).map(Body::Length));
        }
        if length.is_some() {
            return refused("the request has both Content-Length and Transfer-Encoding");
        }
        if self.version != Version::Http11 {
            return refused("Transfer-Encoding is of HTTP/1.1 only");
        }
        let mut codings = tokens(self.values("transfer-encoding"));
        match (codings.next(), codings.next()) {
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Body::Chunked(Chunk::default()))),
            _ => refused("Transfer-Encoding is not chunked"),
        }
    }
}

impl Method {
    fn of(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "PROPFIND" => Self::Propfind,
            "POST" => Self::Post,
            "PUT" | "DELETE" | "MKCOL" | "MOVE" | "COPY" | "LOCK" | "UNLOCK" | "PROPPATCH" | "PATCH" | "TRACE"
            | "CONNECT" => Self::NotAllowed,
            _ => Self::Unknown,
        }
    }

    /// The method's name in the metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Propfind => "PROPFIND",
            Self::Post => "POST",
            Self::NotAllowed => "not_allowed",
            Self::Unknown => "unknown",
        }
    }
}
