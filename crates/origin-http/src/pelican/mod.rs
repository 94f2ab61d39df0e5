//! Federations of Pelican: a director names the servers of each path.

mod direction;
mod directions;
mod federation;
mod links;

use crate::{options::Options, pool::Pool};
use directions::Directed;
use federation::Federation;
use forebay_origin::{Checksum, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind};
use forebay_telemetry::Metrics;
use forebay_types::{ByteRange, DirEntry, FileStat, OriginId, Validator};
use std::sync::Arc;

/// A federation as one origin. Its files are read from the servers that its director names, in their order of preference.
pub struct PelicanOrigin {
    federation: Federation,
    label: String,
}

/// The servers of a federation that a client reads from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PelicanServers {
    /// As a cache does.
    Origins,
    /// As other clients do.
    Caches,
}

impl PelicanServers {
    /// The path of the director's service, before that of the file.
    const fn api(self) -> &'static str {
        match self {
            Self::Origins => "/api/v1.0/director/origin",
            Self::Caches => "/api/v1.0/director/object",
        }
    }
}

impl PelicanOrigin {
    /// An origin of the federation `id`, whose services and servers are reached through `pool`.
    #[must_use]
    pub fn new(id: OriginId, servers: PelicanServers, options: Options, pool: Arc<Pool>, metrics: &Metrics) -> Self {
        let (label, metrics) = (id.to_string(), metrics.origin(&id));
        Self { federation: Federation::new(id, servers, options, pool, metrics), label }
    }

    /// Runs `ask` with the servers of a path. If those known from before fail, the director is asked again.
    async fn with_servers<T, F>(&self, path: &OriginPath, ask: impl Fn(Arc<Directed>) -> F) -> Result<T, OriginError>
    where
        F: Future<Output = Result<T, OriginError>>,
    {
        loop {
            let (directed, is_fresh) = self.federation.direct(path).await?;
            match ask(Arc::clone(&directed)).await {
                Err(error) if is_fresh || is_final(&error) => return Err(directed.explain(error)),
                Err(_) => self.federation.forget(path),
                answered => return answered,
            }
        }
    }
}

/// Whether other servers would not answer differently. A file may be missing at the servers of its neighbours only.
fn is_final(error: &OriginError) -> bool {
    error.refusal().is_some_and(|kind| kind != RefusalKind::NotFound && !kind.is_retryable())
}

impl Origin for PelicanOrigin {
    fn label(&self) -> &str {
        &self.label
    }

    fn acts_for_clients(&self) -> bool {
        self.federation.pool().shown.are_of_clients(&self.federation.id)
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(self.with_servers(path, move |directed| async move { directed.files.open(path).await }))
    }

    fn open_to_read<'a>(&'a self, path: &'a OriginPath, first: ByteRange) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(self.with_servers(path, move |directed| async move { directed.files.open_to_read(path, first).await }))
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(self.with_servers(path, move |directed| async move { directed.files.stat(path).await }))
    }

    fn stat_with_validator<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, (FileStat, Validator)> {
        Box::pin(self.with_servers(path, move |directed| async move { directed.files.stat_with_validator(path).await }))
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(self.with_servers(path, move |directed| async move {
            directed.listings.as_ref().unwrap_or(&directed.files).list(path, detail).await
        }))
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(self.with_servers(path, move |directed| async move { directed.files.checksum(path, algorithm).await }))
    }
}
