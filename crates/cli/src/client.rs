//! The client side: URLs, and the origin client for single commands.

use crate::{
    failure::UsageError,
    node::origins::{client_over_http, http_pool_options},
};
use anyhow::{Context, anyhow};
use forebay_config::{OriginUrl, parse_origin_url};
use forebay_http_proto::Target;
use forebay_net::{ClientTlsFiles, Credential, TlsConnector, TrustAnchors};
use forebay_origin::{DelegatedCredentials, Origin, OriginPath, RedirectTargets, Redirects};
use forebay_origin_http::PelicanServers;
use forebay_origin_root::{Options, Pool, PoolOptions, RootOrigin};
use forebay_telemetry::{LogFormat, Metrics, init_logging};
use forebay_trust::UserCredentials;
use forebay_types::{OriginId, RequestPath, Scheme};
use std::{env, future::Future, path::PathBuf, sync::Arc};

/// If set, servers may exchange keys in 512-bit groups, as XRootD 5 and dCache do.
const WEAK_GROUPS: &str = "FOREBAY_WEAK_GROUPS";

/// A URL of a file or directory of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct FileUrl {
    pub(crate) server: OriginUrl,
    pub(crate) path: OriginPath,
}

impl FileUrl {
    /// Parses `root://HOST[:PORT]//path[?cgi]` or the same with `roots://`; or `https://HOST[:PORT]/path[?query]`, percent-encoded, or the
    /// same with `http://`, `davs://` or `dav://`; or `s3://HOST[:PORT]/BUCKET/KEY`, `pelican://FEDERATION/path` or `osdf:///path`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let usage = |problem: String| {
            UsageError(format!(
                "{problem}; the form of a URL is root://HOST:PORT//path/to/file or https://HOST:PORT/path/to/file"
            ))
        };
        let authority = text.find("://").map_or(0, |at| at + 3);
        let end = text.get(authority..).and_then(|rest| rest.find(['/', '?'])).map_or(text.len(), |at| authority + at);
        let (server, path) = text.split_at(end);
        let server = parse_origin_url(server).map_err(usage)?;
        if !path.starts_with('/') {
            return Err(usage(format!("`{text}` has no path")).into());
        }
        let (server, path) = match server {
            OriginUrl::Http(server) if server.scheme == Scheme::S3 => in_bucket(&server, path)
                .ok_or_else(|| usage(format!("`{text}` has no bucket: write s3://HOST:PORT/BUCKET/KEY")))?,
            server => (server, path),
        };
        let decoded = match &server {
            OriginUrl::Root { .. } => path.to_owned(),
            OriginUrl::Http(_) => {
                let target = Target::parse(path).map_err(|refusal| usage(format!("`{text}`: {refusal}")))?;
                format!("{}?{}", target.path, target.query)
            }
        };
        let RequestPath { lfn, cgi, .. } =
            RequestPath::parse(decoded.as_bytes()).map_err(|error| usage(format!("`{text}`: {error}")))?;
        Ok(Self { server, path: OriginPath { lfn, cgi, delegation: DelegatedCredentials::default() } })
    }

    /// The last component of the path; `None` for the root directory.
    pub(crate) fn name(&self) -> Option<&str> {
        self.path.lfn.as_str().rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// A client of the server.
    pub(crate) fn connect(&self) -> anyhow::Result<Arc<dyn Origin>> {
        let username = env::var("USER").ok().filter(|user| !user.is_empty());
        let defaults = PoolOptions::default();
        let options = PoolOptions { username: username.unwrap_or(defaults.username), ..defaults };
        let is_s3 = matches!(&self.server, OriginUrl::Http(server) if server.scheme == Scheme::S3);
        let credentials = credentials_of_environment(&options.username, is_s3)?;
        let redirects = Redirects { to: RedirectTargets::Everywhere, ..Redirects::default() };
        // A person waits: a server that does not answer is not asked again, whereas a cache that serves jobs retries.
        Ok(match &self.server {
            OriginUrl::Root { server, tls } => {
                let pool = Pool::secured(options, tls_of_environment(ca_dir_of_environment())?, credentials);
                let options = Options { tls: *tls, redirects, unanswered_attempts: 1, ..Options::default() };
                Arc::new(RootOrigin::new(vec![server.clone()], options, pool, &Metrics::new()))
            }
            OriginUrl::Http(server) => {
                let tls = tls_of_environment(ca_dir_for_http())?;
                let pool = forebay_origin_http::Pool::new(http_pool_options(&options), tls, credentials);
                let defaults = forebay_origin_http::Options::default();
                let options = forebay_origin_http::Options { redirects, attempts: 1, ..defaults };
                let servers = (server.clone(), Vec::new());
                client_over_http(servers, PelicanServers::Caches, options, pool, &Metrics::new())
            }
        })
    }
}

/// The bucket that a path begins with, and the key in it.
fn in_bucket<'a>(server: &OriginId, path: &'a str) -> Option<(OriginUrl, &'a str)> {
    let path = path.strip_prefix('/')?;
    let (bucket, key) = path.split_at(path.find('/').unwrap_or(path.len()));
    let origin = format!("{server}/{bucket}").parse().ok()?;
    Some((OriginUrl::Http(origin), if key.is_empty() { "/" } else { key }))
}

/// The credentials of the environment: a proxy or a token in the usual places of grid tools; for S3 servers an access key.
fn credentials_of_environment(user: &str, is_for_s3: bool) -> anyhow::Result<Arc<UserCredentials>> {
    let allows_weak_groups = named(WEAK_GROUPS).is_some();
    let found = if is_for_s3 {
        UserCredentials::find_access_key(user)
    } else {
        UserCredentials::find(user, &ca_dir_of_environment(), allows_weak_groups)
    };
    Ok(Arc::new(found.map_err(|error| anyhow!("cannot use your credentials: {error}"))?))
}

fn ca_dir_of_environment() -> PathBuf {
    named("X509_CERT_DIR").unwrap_or_else(|| TrustAnchors::default().ca_dir)
}

/// HTTP servers of the grid and public ones are reached alike: without authorities of the grid, those of the system are trusted.
fn ca_dir_for_http() -> PathBuf {
    let ca_dir = ca_dir_of_environment();
    if named("X509_CERT_DIR").is_some() || ca_dir.is_dir() { ca_dir } else { SYSTEM_CA_DIR.into() }
}

/// Hashed certificates of the authorities that the system trusts.
const SYSTEM_CA_DIR: &str = "/etc/ssl/certs";

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// TLS with the authorities in `ca_dir` and the proxy of the environment; `None` without any CA.
fn tls_of_environment(ca_dir: PathBuf) -> anyhow::Result<Option<TlsConnector>> {
    let trust = TrustAnchors { ca_dir, crl: TrustAnchors::default().crl };
    let credential = named("X509_USER_PROXY").map(|proxy| Credential { certificate: proxy.clone(), key: proxy });
    if credential.is_none() && !trust.ca_dir.is_dir() {
        return Ok(None);
    }
    let tls = TlsConnector::new(ClientTlsFiles { trust, credential });
    Ok(Some(tls.context("configuring TLS from X509_CERT_DIR and X509_USER_PROXY")?))
}

/// Default filter of the log: a command reports the failure of its server itself.
const LOG_FILTER: &str = "warn,forebay_telemetry::failing_servers=error";

/// Runs a single command. Events are logged to standard error with the filter in `RUST_LOG`.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let filter = env::var("RUST_LOG").unwrap_or_else(|_| LOG_FILTER.to_owned());
    init_logging(LogFormat::Text, &filter).map_err(|error| UsageError(format!("RUST_LOG: {error}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let result = runtime.block_on(work);
    // Files are closed at their origins in the background; an unreachable server must not delay the end of the process.
    runtime.shutdown_timeout(GOODBYE_TIME_MAX);
    result
}

/// Time for closing files and connections at the end of a command.
const GOODBYE_TIME_MAX: std::time::Duration = std::time::Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_server_and_a_path() {
        for (url, server, path, cgi, name) in [
            ("root://h//store/f.root", "h:1094", "/store/f.root", "", Some("f.root")),
            ("https://h/store/a%20b+c?x=1", "https://h:443", "/store/a b+c", "x=1", Some("a b+c")),
            ("davs://h:11//f", "https://h:11", "/f", "", Some("f")),
            ("http://[::1]:80/d/", "http://[::1]:80", "/d", "", Some("d")),
            ("root://h:11/store/f?a=b", "h:11", "/store/f", "a=b", Some("f")),
            ("xroot://[::1]:11//f", "[::1]:11", "/f", "", Some("f")),
            ("root://h//", "h:1094", "/", "", None),
            ("s3://h:9000/bucket/a%20b/c", "s3://h:9000/bucket", "/a b/c", "", Some("c")),
            ("s3://h/bucket", "s3://h:443/bucket", "/", "", None),
            ("pelican://h/ns/f", "pelican://h:443", "/ns/f", "", Some("f")),
            ("osdf:///ns/f", "pelican://osg-htc.org:443", "/ns/f", "", Some("f")),
            ("root://cache//root://origin:11//f", "cache:1094", "/root:/origin:11/f", "", Some("f")),
        ] {
            let parsed = FileUrl::parse(url).unwrap();
            let parsed_server = match &parsed.server {
                OriginUrl::Root { server, .. } => server.to_string(),
                OriginUrl::Http(server) => server.to_string(),
            };
            assert_eq!(parsed_server, server, "{url}");
            assert_eq!((parsed.path.lfn.as_str(), parsed.path.cgi.as_str()), (path, cgi), "{url}");
            assert_eq!(parsed.name(), name, "{url}");
        }
    }

    #[test]
    fn mistakes_in_urls_are_explained() {
        for url in [
            "/store/f",
            "ftp://h/f",
            "s3://h",
            "s3://h//f",
            "osdf://h/f",
            "root://h",
            "root:///f",
            "root://h//../f",
            "root://h?x",
            "h:1094//f",
            "",
            "https://h",
            "https:///f",
            "https://h/%ff",
            "https://h/../f",
        ] {
            let error = FileUrl::parse(url).unwrap_err();
            assert!(error.is::<UsageError>(), "{url}");
            assert!(error.to_string().contains("root://HOST:PORT//path"), "{url}: {error}");
        }
    }
}
