//! Discovers the director of a federation and asks it for servers.

use super::{
    PelicanServers,
    direction::Direction,
    directions::{Directed, Directions},
};
use crate::{
    exchange::{Client, Failure, NamedBy, ShownTokens, protocol},
    http_origin::HttpOrigin,
    options::{DISCOVERY_LEN_MAX, DISCOVERY_TIME, Options},
    pool::Pool,
    request::Question,
    target::{Target, server_of},
};
use forebay_http_proto::encode_path;
use forebay_origin::{OriginError, OriginPath, RedirectTargets, Redirects, SharedValue};
use forebay_telemetry::OriginMetrics;
use forebay_types::{Endpoint, OriginId, Scheme};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize},
};
use tokio::time::Instant;

/// Where a federation describes itself.
const DISCOVERY_PATH: &str = "/.well-known/pelican-configuration";

/// A federation, with the answers of its services that still hold.
pub(super) struct Federation {
    /// As in the configuration, with the base of the paths.
    pub(super) id: OriginId,
    servers: PelicanServers,
    options: Options,
    pool: Arc<Pool>,
    metrics: OriginMetrics,
    discovered: Arc<SharedValue<Discovered, OriginError>>,
    /// When a director did not answer: it may have another URL by now.
    director_failed: Mutex<Option<Instant>>,
    directions: Directions,
}

/// The services of a federation.
#[derive(Clone)]
struct Discovered {
    director: OriginId,
    at: Instant,
}

impl Federation {
    pub(super) fn new(
        id: OriginId,
        servers: PelicanServers,
        options: Options,
        pool: Arc<Pool>,
        metrics: OriginMetrics,
    ) -> Self {
        let (discovered, director_failed, directions) = Default::default();
        Self { id, servers, options, pool, metrics, discovered, director_failed, directions }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The servers of a path, and whether the director was asked just now.
    pub(super) async fn direct(&self, path: &OriginPath) -> Result<(Arc<Directed>, bool), OriginError> {
        let full = self.full_path(path);
        if let Some(known) = self.directions.known(&full) {
            return Ok((known, false));
        }
        let director = self.director(path).await?;
        let path_and_query = format!("{}{}{}", director.base(), self.servers.api(), encode_path(&full));
        let target = Target { server: server_of(&director), path_and_query };
        let client = self.client(director, Vec::new(), ShownTokens::None);
        let attempt = |_, deadline| ask_director(&client, &target, path, self.id.base(), deadline);
        let direction = match client.with_servers(attempt).await {
            Ok((direction, _)) => direction,
            Err(error) => {
                if error.is_retryable() {
                    *self.director_failed.lock() = Some(Instant::now());
                }
                return Err(error);
            }
        };
        let depth = direction.depth;
        let directed = Arc::new(self.directed(direction, target.endpoint())?);
        self.directions.keep(full, depth, Arc::clone(&directed));
        Ok((directed, true))
    }

    /// Forgets the servers of a path.
    pub(super) fn forget(&self, path: &OriginPath) {
        self.directions.forget(&self.full_path(path));
    }

    fn full_path(&self, path: &OriginPath) -> String {
        format!("{}{}", self.id.base(), path.lfn.as_str())
    }

    /// The director, from the document of the federation. The last known one serves while the document cannot be had.
    async fn director(&self, path: &OriginPath) -> Result<OriginId, OriginError> {
        let failed = *self.director_failed.lock();
        let is_usable = |discovered: &Discovered| {
            discovered.at.elapsed() < DISCOVERY_TIME && failed.is_none_or(|failed| failed < discovered.at)
        };
        let federation = OriginId::of(Scheme::Https, self.id.endpoint.clone());
        let client = self.client(federation, Vec::new(), ShownTokens::None);
        let discovered = self.discovered.get_or_make(is_usable, || discover(client, path.clone())).await;
        let stopped = || protocol(&self.id.endpoint, "its discovery was interrupted");
        match discovered.unwrap_or_else(|| Err(stopped())) {
            Ok(discovered) => Ok(discovered.director),
            Err(error) => self.discovered.get().map(|known| known.director).ok_or(error),
        }
    }

    /// A client of servers that the federation has named.
    fn client(&self, first: OriginId, others: Vec<OriginId>, tokens: ShownTokens) -> Client {
        let named_by = NamedBy { federation: self.id.endpoint.clone(), tokens, preferred: AtomicUsize::new(0) };
        Client {
            first,
            others,
            options: self.options.clone(),
            pool: Arc::clone(&self.pool),
            metrics: self.metrics.clone(),
            named_by: Some(named_by),
            failed_joins: AtomicU32::new(0),
        }
    }

    /// Clients of the servers of an answer.
    fn directed(&self, mut direction: Direction, director: &Endpoint) -> Result<Directed, OriginError> {
        let redirects = self.permitted();
        let federation = std::slice::from_ref(&self.id.endpoint);
        direction.exclude(|server| redirects.permit(federation, &[], &server.endpoint).err());
        if !direction.unusable.is_empty() {
            tracing::debug!(%director, unusable = ?direction.unusable, "a director names servers that cannot be used");
        }
        let mut servers = direction.servers.into_iter();
        let Some(first) = servers.next() else {
            let reasons = direction.unusable.join("; ");
            return Err(protocol(director, format!("it names no server that can be used: {reasons}")));
        };
        let others: Vec<_> = servers.collect();
        let (namespace, requires_token, issuers) = (direction.namespace, direction.requires_token, direction.issuers);
        let tokens = if requires_token { ShownTokens::Of(issuers.clone()) } else { ShownTokens::None };
        let origin = |first, others| HttpOrigin::of(self.client(first, others, tokens.clone()), self.id.to_string());
        // Servers of files may list directories, too.
        let listings = direction.listings.map(|listings| {
            let files = std::iter::once(&first).chain(&others).filter(|server| **server != listings);
            origin(listings.clone(), files.cloned().collect())
        });
        let files = origin(first, others);
        Ok(Directed { files, listings, namespace, requires_token, issuers })
    }

    /// The servers that a director may name. A federation has them in all domains.
    fn permitted(&self) -> Redirects {
        let to = match &self.options.redirects.to {
            RedirectTargets::SameDomain => RedirectTargets::Any,
            to => to.clone(),
        };
        Redirects { to, ..self.options.redirects }
    }
}

/// Reads the document of a federation.
async fn discover(client: Client, path: OriginPath) -> Result<Discovered, OriginError> {
    let target = Target { server: client.first.clone(), path_and_query: DISCOVERY_PATH.to_owned() };
    let attempt = |_, deadline| read_document(&client, &target, &path, deadline);
    let (director, _) = client.with_servers(attempt).await?;
    Ok(Discovered { director, at: Instant::now() })
}

async fn read_document(
    client: &Client,
    target: &Target,
    path: &OriginPath,
    deadline: Instant,
) -> Result<OriginId, Failure> {
    let answer = client.ask(target, path, &Question::Federation, deadline).await?;
    if !answer.status.is_success() {
        return Err(answer.refuse(&client.options).await);
    }
    let endpoint = answer.endpoint().clone();
    let json = answer.body.whole(DISCOVERY_LEN_MAX).await?;
    director_in(&json).map_err(|what| protocol(&endpoint, format!("its {DISCOVERY_PATH}: {what}")).into())
}

/// The director that a document names.
fn director_in(json: &[u8]) -> Result<OriginId, &'static str> {
    let document: serde_json::Value = serde_json::from_slice(json).map_err(|_| "it is not a JSON document")?;
    let director = document.get("director_endpoint").and_then(serde_json::Value::as_str);
    let director = director.filter(|url| !url.is_empty()).ok_or("it names no director_endpoint")?;
    let target = Target::absolute(director)?;
    let text = format!("{}{}", target.server, target.path_and_query.trim_end_matches('/'));
    text.parse().map_err(|_| "its director_endpoint is not a URL of a server")
}

/// Asks a director for the servers of a path of the federation, with the base `base` before it.
async fn ask_director(
    client: &Client,
    target: &Target,
    path: &OriginPath,
    base: &str,
    deadline: Instant,
) -> Result<Direction, Failure> {
    let answer = client.ask_once(target, path, &Question::Federation, deadline).await?;
    if !answer.status.is_success() && !answer.is_of_directory() {
        return Err(answer.refuse(&client.options).await);
    }
    let direction = Direction::read(&answer.headers, base, path.lfn.as_str());
    answer.body.finish().await;
    Ok(direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_a_director() {
        for (json, director) in [
            (
                r#"{"director_endpoint": "https://director.example", "jwks_uri": "x"}"#,
                Ok("https://director.example:443"),
            ),
            (r#"{"director_endpoint": "https://h:8444/base/"}"#, Ok("https://h:8444/base")),
            (r#"{"director_endpoint": ""}"#, Err("names no")),
            (r#"{"director_endpoint": "director.example"}"#, Err("neither")),
            (r#"{"director_endpoint": "https://h/?x"}"#, Err("not a URL")),
            ("[]", Err("names no")),
            ("<html>", Err("not a JSON")),
        ] {
            match (director_in(json.as_bytes()), director) {
                (Ok(found), Ok(director)) => assert_eq!(found.to_string(), director),
                (Err(found), Err(reason)) => assert!(found.contains(reason), "{json}: {found}"),
                (found, _) => panic!("{json}: {found:?}"),
            }
        }
    }
}
