//! The connection of a client, as a state machine.

use crate::{body::Body, head::HEAD_LEN_MAX, head::Head, status::Status};

/// Longest body that is read past so that the connection can live on.
pub const BODY_LEN_MAX: u64 = 64 << 10;

/// Cuts the bytes of a client into requests.
///
/// Calling order: [`Session::handle_input`] with all received bytes that were not consumed; answer a [`Next::Request`] before the
/// next call. Bodies of requests are read past. After a [`Refusal`] the connection ends.
#[derive(Clone, Debug, Default)]
pub struct Session {
    body: Option<Body>,
    /// Bytes of the body read past so far.
    body_len: u64,
    /// Bytes of the incomplete head that hold no end of it.
    scanned: usize,
}

/// The beginning of the received bytes.
#[derive(Clone, Debug)]
pub enum Next<'a> {
    NeedMore,
    /// Bytes that need no answer.
    Skipped {
        consumed: usize,
    },
    Request {
        consumed: usize,
        head: Head<'a>,
    },
}

/// A request that is refused before its name is looked at. The connection ends with the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub status: Status,
    pub text: &'static str,
}

impl Session {
    /// Looks at received bytes that were not consumed yet.
    ///
    /// # Errors
    /// For malformed, ambiguous and too large requests.
    pub fn handle_input<'a>(&mut self, bytes: &'a [u8]) -> Result<Next<'a>, Refusal> {
        if self.body.is_some() {
            return self.skip_body(bytes);
        }
        // Some clients of old end a body with a line break that its length does not count.
        if self.scanned == 0 && bytes.starts_with(b"\r\n") {
            return Ok(Next::Skipped { consumed: 2 });
        }
        let Some(len) = self.end_of_head(bytes)? else { return Ok(Next::NeedMore) };
        self.scanned = 0;
        let (head, body) = Head::parse(bytes.get(..len).unwrap_or_default())?;
        head.check_body(body.as_ref())?;
        (self.body, self.body_len) = (body, 0);
        Ok(Next::Request { consumed: len, head })
    }

    /// Whether no byte of a next request has been seen.
    pub const fn is_idle(&self) -> bool {
        self.body.is_none() && self.scanned == 0
    }

    /// Whether the body of the request that was answered last is still to come.
    pub const fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Whether that body is too long to be read past: the answer is the last one.
    pub const fn has_long_body(&self) -> bool {
        matches!(self.body, Some(Body::Length(len)) if len > BODY_LEN_MAX)
    }

    fn skip_body<'a>(&mut self, bytes: &[u8]) -> Result<Next<'a>, Refusal> {
        let Some(body) = &mut self.body else { return Ok(Next::NeedMore) };
        let malformed = Refusal::new(Status::BAD_REQUEST, "the chunks of the body are malformed");
        let (consumed, is_end) = body.skip(bytes).map_err(|_| malformed)?;
        self.body_len += consumed as u64;
        if self.body_len > BODY_LEN_MAX {
            return Err(too_large());
        }
        if is_end {
            self.body = None;
        }
        Ok(if consumed == 0 { Next::NeedMore } else { Next::Skipped { consumed } })
    }

    /// The length of the head, if all of it is there. Bytes are looked at once, however slowly they come.
    fn end_of_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        // No request begins with the first byte of a TLS handshake.
        if bytes.first() == Some(&0x16) {
            return Err(Refusal::new(Status::BAD_REQUEST, "TLS is not expected here"));
        }
        let mut from = self.scanned;
        while let Some(at) = bytes.get(from..).and_then(first_break) {
            let at = from + at;
            match (bytes.get(at), bytes.get(at + 1)) {
                // The rest of the line break is still to come.
                (Some(b'\r'), None) => {
                    self.scanned = at;
                    return self.within_limit(bytes);
                }
                (Some(b'\r'), Some(b'\n')) => from = at + 2,
                // Bare line breaks are read in different ways by different servers.
                _ => return Err(Refusal::new(Status::BAD_REQUEST, "lines must end with CR LF")),
            }
            if bytes.get(..from).is_some_and(|head| head.ends_with(b"\r\n\r\n")) {
                return if from <= HEAD_LEN_MAX { Ok(Some(from)) } else { Err(head_too_long()) };
            }
        }
        self.scanned = bytes.len();
        self.within_limit(bytes)
    }

    fn within_limit(&self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        if bytes.len() > HEAD_LEN_MAX { Err(head_too_long()) } else { Ok(None) }
    }
}

impl Head<'_> {
    /// Refuses a body that is too long to be read past.
    pub(crate) fn check_body(&self, body: Option<&Body>) -> Result<(), Refusal> {
        let is_too_long = matches!(body, Some(Body::Length(len)) if *len > BODY_LEN_MAX);
        if is_too_long && !self.is_refused_anyway() { Err(too_large()) } else { Ok(()) }
    }

    /// Whether the answer does not depend on the body, however long: the connection ends without reading it.
    fn is_refused_anyway(&self) -> bool {
        use crate::head::Method;
        matches!(self.method, Method::Post | Method::NotAllowed | Method::Unknown)
    }
}

impl Refusal {
    pub(crate) const fn new(status: Status, text: &'static str) -> Self {
        Self { status, text }
    }
}

/// The place of the first byte of a line break.
fn first_break(bytes: &[u8]) -> Option<usize> {
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    // All bytes of a piece are compared at once: requests of many ranges have lines of kilobytes.
    let (pieces, _) = bytes.as_chunks::<32>();
    let without = pieces.iter().take_while(|piece| !piece.iter().fold(false, |found, byte| found | is_break(byte)));
    let start = without.count() * 32;
    bytes.get(start..)?.iter().position(is_break).map(|at| start + at)
}

const fn too_large() -> Refusal {
    Refusal::new(Status::TOO_LARGE, "the body of the request is too long")
}

/// ROOT's TCurlFile halves its number of ranges on this status only.
const fn head_too_long() -> Refusal {
    Refusal::new(Status::BAD_REQUEST, "the header of the request is too long")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::head::{Expectation, Method, TARGET_LEN_MAX, Version};
    use proptest::prelude::*;

    /// Calls `look` with the head of `request`.
    pub(crate) fn with_head<T>(request: &str, look: impl FnOnce(&Head<'_>) -> T) -> T {
        match Session::default().handle_input(request.as_bytes()) {
            Ok(Next::Request { consumed, head }) => {
                assert_eq!(consumed, request.len());
                look(&head)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Feeds the bytes in pieces of `step`. Returns the targets of the requests, and the status of a refusal at the end.
    fn outcome(bytes: &[u8], step: usize) -> (Vec<String>, Option<u16>) {
        let mut session = Session::default();
        let (mut targets, mut start, mut end) = (Vec::new(), 0, 0);
        while end < bytes.len() {
            end = (end + step).min(bytes.len());
            loop {
                match session.handle_input(&bytes[start..end]) {
                    Ok(Next::NeedMore) => break,
                    Ok(Next::Skipped { consumed }) => start += consumed,
                    Ok(Next::Request { consumed, head }) => {
                        targets.push(head.target.to_owned());
                        start += consumed;
                    }
                    Err(refusal) => return (targets, Some(refusal.status.0)),
                }
            }
        }
        (targets, None)
    }

    #[test]
    fn pipelined_requests_are_cut_wherever_the_bytes_are_split() {
        let bytes = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\nPROPFIND /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
            PROPFIND /c HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /d HTTP/1.0\r\n\r\n";
        for step in 1..=bytes.len() {
            let (targets, status) = outcome(bytes, step);
            assert_eq!((targets.join(" ").as_str(), status), ("/a /b /c /d", None), "{step}");
        }
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let long = "x".repeat(TARGET_LEN_MAX);
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: a\n\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: b\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("PROPFIND / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413),
            (&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        ] {
            for step in [1, 7, request.len()] {
                assert_eq!(outcome(request.as_bytes(), step), (Vec::new(), Some(status)), "{request:?}");
            }
        }
    }

    #[test]
    fn equal_lengths_are_one_and_a_body_at_the_limit_is_read_past() {
        let body = "x".repeat(usize::try_from(BODY_LEN_MAX).unwrap());
        let request = format!(
            "PROPFIND /a HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\nContent-Length: {len}\r\n\r\n{body}GET /b HTTP/1.0\r\n\r\n",
            len = body.len()
        );
        assert_eq!(outcome(request.as_bytes(), 1000), (vec!["/a".to_owned(), "/b".to_owned()], None));
        let chunked = format!(
            "PROPFIND /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        assert_eq!(outcome(chunked.as_bytes(), 1000).1, Some(413));
    }

    #[test]
    fn heads_are_limited_in_length_and_number_of_fields() {
        let request = |len: usize| {
            let head = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n";
            head.replace("X: ", &format!("X: {}", "x".repeat(len - head.len())))
        };
        assert_eq!(outcome(request(HEAD_LEN_MAX).as_bytes(), 4096).1, None);
        assert_eq!(outcome(request(HEAD_LEN_MAX + 1).as_bytes(), 4096).1, Some(400));
        assert_eq!(outcome(&vec![b'x'; HEAD_LEN_MAX + 1], 4096).1, Some(400));
        let fields = |count| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
        assert_eq!(outcome(fields(crate::FIELDS_MAX).as_bytes(), 4096).1, None);
        assert_eq!(outcome(fields(crate::FIELDS_MAX + 1).as_bytes(), 4096).1, Some(400));
    }

    #[test]
    fn connections_live_on_as_the_version_and_the_client_say() {
        for (head, is_kept_alive) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
        ] {
            assert_eq!(with_head(head, |head| head.is_kept_alive), is_kept_alive, "{head}");
        }
    }

    #[test]
    fn heads_hold_what_was_sent() {
        with_head("GET /f?a=b HTTP/1.1\r\nHost: a\r\nRange:  bytes=0-1 \r\nExpect: 100-Continue\r\n\r\n", |head| {
            assert_eq!((head.method, head.target, head.version), (Method::Get, "/f?a=b", Version::Http11));
            assert_eq!(head.field("range").map(str::trim), Some("bytes=0-1"));
            assert_eq!((head.field("x"), head.expectation), (None, Expectation::Continue));
        });
        with_head("BREW / HTTP/1.1\r\nHost: a\r\nExpect: coffee\r\nUser-Agent: \u{fc}\r\n\r\n", |head| {
            assert_eq!((head.method, head.expectation), (Method::Unknown, Expectation::Unknown));
        });
    }

    #[test]
    fn a_handshake_is_refused_however_it_is_cut() {
        // Found by fuzzing: a carriage return at the end of the bytes hid it.
        let bytes = [&[0x16; 60][..], b"\0M\r"].concat();
        for step in 1..=bytes.len() {
            assert_eq!(outcome(&bytes, step), (Vec::new(), Some(400)), "{step}");
        }
    }

    proptest! {
        #[test]
        fn splits_change_nothing(bytes in "(GET|PROPFIND) /[a-z]{0,9} HTTP/1\\.1(\r\n(Host: a|Content-Length: [0-9]|X: [ -~]{0,5}|Transfer-Encoding: chunked)){0,4}(\r\n|\n|\r){1,4}[0-9a-f\r\n]{0,12}", step in 1..60_usize) {
            let whole = outcome(bytes.as_bytes(), bytes.len());
            prop_assert_eq!(outcome(bytes.as_bytes(), step), whole);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), step in 1..20_usize) {
            outcome(&bytes, step);
        }
    }
}
