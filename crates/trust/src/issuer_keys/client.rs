//! Fetching of the keys of an issuer through its discovery documents.

use super::IssuerDiscovery;
use bytes::Bytes;
use forebay_auth::{DISCOVERY_LEN_MAX, DiscoveryError, KeySet, KeySetError, discovery_urls, max_age, parse_discovery};
use forebay_net::{ConnectError, Stream, TlsConnector, TlsError, connect};
use forebay_types::Endpoint;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Request, Uri,
    client::conn::http1,
    header::{ACCEPT, CACHE_CONTROL, DATE, HOST, HeaderName, LOCATION, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use std::{error::Error, net::IpAddr, time::Duration, time::UNIX_EPOCH};
use tokio::{task::JoinSet, time::timeout};

/// Time limit for all documents of an issuer.
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

/// Fetched keys of an issuer.
#[derive(Clone, Debug)]
pub struct FetchedKeys {
    pub keys: KeySet,
    /// The key document.
    pub json: Bytes,
    /// Cache time given by the issuer, in seconds.
    pub max_age: Option<u64>,
    /// Clock of the issuer in seconds of the Unix epoch.
    pub issuer_time: Option<i64>,
}

/// Why no keys were fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot fetch from `{url}`: {reason}")]
    Url { url: String, reason: &'static str },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{url}: {source}")]
    Tls { url: String, source: TlsError },
    #[error("{url}: {source}")]
    Http { url: String, source: Box<dyn Error + Send + Sync> },
    #[error("{url} returned status {status}")]
    Status { url: String, status: u16 },
    #[error("{url} redirects to `{to}`, which is not followed: check the issuer's URL")]
    Redirect { url: String, to: String },
    #[error("{url} has more than {DISCOVERY_LEN_MAX} bytes")]
    TooLong { url: String },
    #[error("{url}: {source}")]
    Discovery { url: String, source: DiscoveryError },
    #[error("{url}: {source}")]
    Keys { url: String, source: KeySetError },
    #[error("the documents of {issuer} were not received within {FETCH_TIME_MAX:?}")]
    TimedOut { issuer: String },
}

/// Where a document is.
struct Target {
    endpoint: Endpoint,
    is_tls: bool,
    authority: String,
    path: String,
}

/// Whether keys can be fetched from the issuer `url`. HTTP without TLS is accepted for this machine only, with `allows_plain_http`.
///
/// # Errors
/// [`FetchError::Url`].
pub fn check_issuer_url(url: &str, allows_plain_http: bool) -> Result<(), FetchError> {
    Target::parse(url, allows_plain_http).map(drop)
}

impl IssuerClient {
    /// A client for the keys of an issuer. Reads the CA file, if there is one.
    ///
    /// # Errors
    /// If that file or directory cannot be used.
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
    /// If the keys cannot be fetched within [`FETCH_TIME_MAX`].
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

    /// The address of the keys, from the issuer's document at one of two places.
    async fn find_key_set(&self) -> Result<String, FetchError> {
        let mut absent = FetchError::Url { url: self.issuer.clone(), reason: "not an https:// URL" };
        for url in discovery_urls(&self.issuer) {
            match self.get(&url).await {
                Ok((_, document)) => {
                    return parse_discovery(&document, &self.issuer)
                        .map_err(|source| FetchError::Discovery { url, source });
                }
                // The first place is the standard one: its error is reported.
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
        // The connection ends with this request.
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
        let uri: Uri = url.parse().map_err(|_| refused("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| refused("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(refused("user names are not allowed"));
        }
        let host = authority.host().trim_matches(['[', ']']);
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if allows_plain_http && is_this_machine(host) => false,
            Some("http") => return Err(refused("only https:// is allowed")),
            _ => return Err(refused("the scheme is not https://")),
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

/// The date of an answer.
fn time_of(headers: &HeaderMap) -> Option<i64> {
    let time = httpdate::parse_http_date(text(headers, &DATE)?).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_over_https_or_if_allowed_from_this_machine() {
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
        let target = Target::parse("https://[2001:db8::1]/keys?x=1", false).unwrap();
        assert_eq!(target.endpoint, Endpoint::new("2001:db8::1", 443));
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("[2001:db8::1]", "/keys?x=1"));
    }
}
