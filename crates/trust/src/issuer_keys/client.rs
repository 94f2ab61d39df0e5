//! Fetching the keys of an issuer by the documents that lead to them.

use super::IssuerDiscovery;
use bytes::Bytes;
use forebay_auth::{DISCOVERY_LEN_MAX, DiscoveryError, KeySet, KeySetError, discovery_urls, max_age, parse_discovery};
use forebay_net::{ConnectError, Stream, TlsConnector, TlsError, connect};
use forebay_types::{Endpoint, Side};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, Uri,
    client::conn::http1,
    header::{ACCEPT, CACHE_CONTROL, DATE, HOST, HeaderName, LOCATION, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use std::{error::Error, net::IpAddr, time::Duration, time::UNIX_EPOCH};
use tokio::{task::JoinSet, time::timeout};

/// Time in which all documents of an issuer must have come.
pub const FETCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest head of an answer in bytes, and most headers in it.
const HEAD_LEN_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 100;

/// Fetches the keys of one issuer over HTTPS. Follows no redirect.
#[derive(Clone, Debug)]
pub struct IssuerClient {
    issuer: String,
    allows_plain_http: bool,
    connector: TlsConnector,
}

/// Keys as an issuer gives them.
#[derive(Clone, Debug)]
pub struct FetchedKeys {
    pub keys: KeySet,
    /// The document that they were read from.
    pub json: Bytes,
    /// How long they may be kept, as the issuer says, seconds.
    pub max_age: Option<u64>,
    /// The time at the issuer, seconds of the Unix epoch.
    pub issuer_time: Option<i64>,
}

/// Why no keys were fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nothing is fetched from such an address.
    #[error("nothing is fetched from `{url}`: {reason}")]
    Url {
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no safe connection.
    #[error("{url}: {source}")]
    Tls {
        /// What was asked for.
        url: String,
        source: TlsError,
    },
    /// What came is no HTTP, or came in part.
    #[error("{url}: {source}")]
    Http {
        /// What was asked for.
        url: String,
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is no document.
    #[error("{url} answers with status {status}")]
    Status {
        /// What was asked for.
        url: String,
        status: u16,
    },
    /// The document is said to be elsewhere.
    #[error("{url} leads to `{to}`, which is not followed: is the issuer's URL right?")]
    Redirect {
        /// What was asked for.
        url: String,
        to: String,
    },
    /// The document is longer than any.
    #[error("{url} has more than {DISCOVERY_LEN_MAX} bytes")]
    TooLong {
        /// What was asked for.
        url: String,
    },
    /// The issuer's document is not good.
    #[error("{url}: {source}")]
    Discovery { url: String, source: DiscoveryError },
    /// The key set is not good.
    #[error("{url}: {source}")]
    Keys { url: String, source: KeySetError },
    /// It takes too long.
    #[error("the documents of {issuer} have not come within {FETCH_TIME_MAX:?}")]
    TimedOut { issuer: String },
}

impl FetchError {
    /// Whose side the error is on: without keys nobody's proof can be judged.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Authorization
    }

    /// Whether trying again can help. Issuers mend their documents, so only an address that is none stays what it is.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        !matches!(self, Self::Url { .. })
    }
}

/// Where a document is.
struct Target {
    endpoint: Endpoint,
    is_tls: bool,
    authority: String,
    path: String,
}

/// Whether keys can be fetched from the issuer named `url`. HTTP without TLS is good for this machine only, and if `allows_plain_http`.
///
/// # Errors
/// [`FetchError::Url`].
pub fn check_issuer_url(url: &str, allows_plain_http: bool) -> Result<(), FetchError> {
    Target::parse(url, allows_plain_http).map(drop)
}

impl IssuerClient {
    /// A client for the keys of an issuer. Reads the file of CAs, if there is one.
    ///
    /// # Errors
    /// When that file or directory cannot be used.
    pub fn new(discovery: &IssuerDiscovery) -> Result<Self, TlsError> {
        Ok(Self {
            issuer: discovery.url.clone(),
            allows_plain_http: discovery.allows_plain_http,
            connector: discovery.authorities.connector()?,
        })
    }

    /// Fetches the keys.
    ///
    /// # Errors
    /// Says what failed, within [`FETCH_TIME_MAX`].
    pub async fn fetch(&self) -> Result<FetchedKeys, FetchError> {
        let timed_out = |_| FetchError::TimedOut { issuer: self.issuer.clone() };
        timeout(FETCH_TIME_MAX, self.fetch_unbounded()).await.map_err(timed_out)?
    }

    async fn fetch_unbounded(&self) -> Result<FetchedKeys, FetchError> {
        let url = self.find_key_set().await?;
        let (headers, json) = self.get(&url).await?;
        let keys = KeySet::parse(&json).map_err(|source| FetchError::Keys { url, source })?;
        let max_age = text(&headers, &CACHE_CONTROL).and_then(max_age);
        Ok(FetchedKeys { keys, json, max_age, issuer_time: time_of(&headers) })
    }

    /// The address of the keys, from the issuer's document, which is at one of two places.
    async fn find_key_set(&self) -> Result<String, FetchError> {
        let mut absent = FetchError::Url { url: self.issuer.clone(), reason: "it is no https:// URL" };
        for url in discovery_urls(&self.issuer) {
            match self.get(&url).await {
                Ok((_, document)) => {
                    return parse_discovery(&document, &self.issuer)
                        .map_err(|source| FetchError::Discovery { url, source });
                }
                // The first place is where it should be: what is wrong there is told.
                Err(error @ FetchError::Status { status: 404, .. }) => {
                    if !matches!(absent, FetchError::Status { .. }) {
                        absent = error;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(absent)
    }

    /// The document at `url`.
    async fn get(&self, url: &str) -> Result<(HeaderMap, Bytes), FetchError> {
        let target = Target::parse(url, self.allows_plain_http)?;
        let mut stream = Stream::from(connect(&target.endpoint, FETCH_TIME_MAX).await?);
        if target.is_tls {
            let shaken = stream.connect_tls(&self.connector, target.endpoint.host()).await;
            shaken.map_err(|source| FetchError::Tls { url: url.to_owned(), source })?;
        }
        let broken = |error: hyper::Error| FetchError::Http { url: url.to_owned(), source: error.into() };
        let request = Request::get(target.path)
            .header(HOST, target.authority)
            .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json")
            .body(Empty::<Bytes>::new())
            .map_err(|error| FetchError::Http { url: url.to_owned(), source: error.into() })?;
        let mut http = http1::Builder::new();
        http.max_headers(HEADERS_MAX).max_buf_size(HEAD_LEN_MAX);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // Ends with this question, however that ends.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        if head.status.is_redirection() {
            let to = text(&head.headers, &LOCATION).unwrap_or_default().escape_default().to_string();
            return Err(FetchError::Redirect { url: url.to_owned(), to });
        }
        if head.status.as_u16() != 200 {
            return Err(FetchError::Status { url: url.to_owned(), status: head.status.as_u16() });
        }
        let collected = Limited::new(body, DISCOVERY_LEN_MAX).collect().await;
        let body = collected.map_err(|source| match source.downcast::<LengthLimitError>() {
            Ok(_) => FetchError::TooLong { url: url.to_owned() },
            Err(source) => FetchError::Http { url: url.to_owned(), source },
        })?;
        Ok((head.headers, body.to_bytes()))
    }
}

impl Target {
    fn parse(url: &str, allows_plain_http: bool) -> Result<Self, FetchError> {
        let refused = |reason| FetchError::Url { url: url.escape_default().to_string(), reason };
        let uri: Uri = url.parse().map_err(|_| refused("it is no URL"))?;
        let authority = uri.authority().ok_or_else(|| refused("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it names a user"));
        }
        let host = authority.host().trim_matches(['[', ']']);
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if allows_plain_http && is_this_machine(host) => false,
            Some("http") => return Err(refused("only https:// is trusted")),
            _ => return Err(refused("it does not begin with https://")),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { endpoint: Endpoint::new(host, port), is_tls, authority: authority.to_string(), path })
    }
}

/// Whether packets to `host` stay on this machine.
fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The time at which an answer was made.
fn time_of(headers: &HeaderMap) -> Option<i64> {
    let time = httpdate::parse_http_date(text(headers, &DATE)?).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_https_or_from_this_machine_when_that_is_allowed() {
        for (url, allows_plain_http, is_good) in [
            ("https://issuer.example/", false, true),
            ("https://issuer.example:8443/realms/a", false, true),
            ("https://[::1]:8443", false, true),
            ("http://127.0.0.1:8080", false, false),
            ("http://127.0.0.1:8080", true, true),
            ("http://localhost/x", true, true),
            ("http://[::1]/x", true, true),
            ("http://issuer.example/", true, false),
            ("http://127.0.0.1.evil.example/", true, false),
            ("https://user@issuer.example/", false, false),
            ("file:///etc/passwd", true, false),
            ("ftp://issuer.example", true, false),
            ("issuer.example", true, false),
            ("", true, false),
        ] {
            assert_eq!(check_issuer_url(url, allows_plain_http).is_ok(), is_good, "{url}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let target = Target::parse("https://[2001:db8::1]/keys?x=1", false).unwrap();
        assert_eq!(target.endpoint, Endpoint::new("2001:db8::1", 443));
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("[2001:db8::1]", "/keys?x=1"));
    }
}
