//! Redirects: to a host and port, to a URL, to a local file.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::wire::{Reader, until_nul};
use forebay_types::{Endpoint, XROOTD_PORT};

const WHAT: &str = "redirect";

/// Where to ask instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redirect {
    pub target: RedirectTarget,
    /// Flags of a redirect to a URL: `0x1000` writes can be recovered, `0x2000` collapse, `0x4000` erasure coding.
    pub flags: u32,
}

/// The place that a redirect names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RedirectTarget {
    /// Another server; the path stays the same.
    Host {
        endpoint: Endpoint,
        /// Opaque data to be merged into the request's own. May hold secrets.
        cgi: String,
        /// Text after a second `?`; may be empty.
        token: String,
    },
    Url {
        /// Whether the URL asks for TLS (`roots`, `xroots`).
        tls: bool,
        endpoint: Endpoint,
        /// The path in place of the request's; empty when the URL has none and the path stays the same.
        path: String,
        /// Opaque data to be merged into the request's own. May hold secrets.
        cgi: String,
    },
    /// A file that the client can open by itself.
    LocalFile {
        path: String,
    },
    Foreign {
        scheme: String,
    },
}

impl Redirect {
    /// Parses the body of a redirect.
    ///
    /// # Errors
    /// When it is cut off, not UTF-8, or names no host.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        const MALFORMED: ResponseError = ResponseError::Malformed { what: WHAT };
        let mut reader = Reader::new(body);
        let port = reader.array().map(i32::from_be_bytes).ok_or(ResponseError::Truncated { what: WHAT })?;
        let text = std::str::from_utf8(until_nul(reader.rest())).map_err(|_| MALFORMED)?;
        // A negative port holds the complement of the flags; -1 is none.
        let (target, flags) = if port < 0 {
            (parse_url(text), (!port).unsigned_abs())
        } else {
            (u16::try_from(port).ok().and_then(|port| parse_host(text, port)), 0)
        };
        target.map(|target| Self { target, flags }).ok_or(MALFORMED)
    }
}

fn parse_host(text: &str, port: u16) -> Option<RedirectTarget> {
    let mut parts = text.splitn(3, '?');
    let named = endpoint(parts.next()?)?;
    let endpoint = if port == 0 { named } else { Endpoint::new(named.host(), port) };
    let cgi = parts.next().unwrap_or_default().trim_start_matches('&').to_owned();
    let token = parts.next().unwrap_or_default().to_owned();
    Some(RedirectTarget::Host { endpoint, cgi, token })
}

/// Parses a host with all that servers put around it: a user before it, an IPv6 address without its brackets.
fn endpoint(text: &str) -> Option<Endpoint> {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let is_bare_v6 = !host.starts_with('[') && host.bytes().filter(|&byte| byte == b':').count() > 1;
    if is_bare_v6 { format!("[{host}]").parse() } else { host.parse() }.ok()
}

fn parse_url(text: &str) -> Option<RedirectTarget> {
    let (scheme, rest) = text.split_once("://")?;
    let tls = match scheme {
        "root" | "xroot" => false,
        "roots" | "xroots" => true,
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            return path.starts_with('/').then(|| RedirectTarget::LocalFile { path: path.to_owned() });
        }
        "" => return None,
        _ => return Some(RedirectTarget::Foreign { scheme: scheme.to_owned() }),
    };
    let (place, cgi) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    Some(RedirectTarget::Url {
        tls,
        endpoint: endpoint(host)?,
        path: path.to_owned(),
        cgi: cgi.trim_start_matches('&').to_owned(),
    })
}

impl ReplyTo {
    /// Appends a redirect to another server; the path stays the same. `cgi` is merged into the client's opaque data.
    pub fn redirect_to_host(self, endpoint: &Endpoint, cgi: &str, out: &mut Vec<u8>) {
        self.frame(Status::REDIRECT, out, |out| {
            let port = if endpoint.port() == 0 { XROOTD_PORT } else { endpoint.port() };
            out.extend_from_slice(&u32::from(port).to_be_bytes());
            let host = endpoint.host();
            let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
            let question_mark = if cgi.is_empty() { "" } else { "?" };
            for part in [open, host, close, question_mark, cgi] {
                out.extend_from_slice(part.as_bytes());
            }
        });
    }

    /// Appends a redirect to a URL, for clients that said at login that they accept one.
    pub fn redirect_to_url(self, url: &str, out: &mut Vec<u8>) {
        self.frame(Status::REDIRECT, out, |out| {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(url.as_bytes());
        });
    }
}
