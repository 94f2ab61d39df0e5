//! Clients of origins, made from a configuration.

use super::gate;
use forebay_config::{Config, ExportConfig, ExportFiles, Settings};
use forebay_engine::{Export, ExportSource, OriginFactory, RouteError, Routes};
use forebay_origin::{Alternatives, Origin, OwnAddresses, Redirects};
use forebay_origin_http::{HttpOrigin, PelicanOrigin, PelicanServers, Pool as HttpPool};
use forebay_origin_root::{Pool as RootPool, PoolOptions, RootOrigin};
use forebay_proto::TlsUse;
use forebay_telemetry::Metrics;
use forebay_trust::OriginCredentials;
use forebay_types::{Endpoint, OriginId, Scheme};
use std::{net::SocketAddr, sync::Arc};

/// Creates the clients of origins.
#[derive(Clone)]
pub(crate) struct Origins {
    options: forebay_origin_root::Options,
    root: Arc<RootPool>,
    http: Arc<HttpPool>,
    metrics: Metrics,
}

impl Origins {
    /// Clients of origins that authenticate as `credentials` says. `own` are the addresses of this server itself.
    ///
    /// # Errors
    /// If the trusted authorities or the certificate cannot be used.
    pub(crate) fn new(
        settings: &Settings,
        own: Vec<SocketAddr>,
        credentials: Arc<OriginCredentials>,
        metrics: Metrics,
    ) -> anyhow::Result<Self> {
        let config = &settings.config;
        let tls = gate::tls_towards_origins(settings)?;
        let options = pool_options(config, own);
        let http =
            HttpPool::new(http_pool_options(&options), tls.clone(), Arc::<OriginCredentials>::clone(&credentials));
        let root = RootPool::secured(options, tls, credentials);
        Ok(Self { options: config.origin.options.clone(), root, http, metrics })
    }

    fn root_client(&self, servers: Vec<Endpoint>, tls: TlsUse, redirects: Redirects) -> Arc<dyn Origin> {
        let options = forebay_origin_root::Options { tls, redirects, ..self.options.clone() };
        Arc::new(RootOrigin::new(servers, options, Arc::clone(&self.root), &self.metrics))
    }

    fn http_client(&self, first: OriginId, others: Vec<OriginId>, redirects: Redirects) -> Arc<dyn Origin> {
        let options = http_options(&self.options, redirects);
        client_over_http((first, others), PelicanServers::Origins, options, Arc::clone(&self.http), &self.metrics)
    }

    /// The name space of the configuration.
    ///
    /// # Errors
    /// If two exports have one path, or an exported directory cannot be used.
    pub(crate) fn routes(&self, settings: &Settings) -> anyhow::Result<Routes> {
        let Config { exports, forwarding, forwarding_redirects, decisions, .. } = &settings.config;
        let origins = self.clone();
        let redirects = Redirects { to: forwarding_redirects.clone(), setting: "forwarding.redirects" };
        let factory: OriginFactory = Arc::new(move |server| {
            if server.scheme.is_xrootd() {
                origins.root_client(vec![server.endpoint.clone()], TlsUse::WhenDemanded, redirects.clone())
            } else {
                origins.http_client(server.clone(), Vec::new(), redirects.clone())
            }
        });
        let routes = exports.iter().map(|export| self.export(export)).collect();
        let routes = Routes::new(routes, forwarding.clone(), factory).map_err(|error| match &error {
            RouteError::Overlap { prefix } => blame(settings, |export| export.path == *prefix, "path", &error),
            RouteError::Directory { directory, .. } => {
                let is_it =
                    |export: &ExportConfig| matches!(&export.files, ExportFiles::Directory(it) if it == directory);
                blame(settings, is_it, "directory", &error)
            }
        })?;
        Ok(routes.with_decisions(decisions.clone()))
    }

    fn source(&self, export: &ExportConfig, files: &ExportFiles) -> ExportSource {
        let redirects = Redirects { to: export.redirects.clone(), setting: "export.redirects" };
        match files {
            ExportFiles::HttpOrigins { first, others } => {
                let origin = self.http_client(first.clone(), others.clone(), redirects);
                ExportSource::Origin { origin, server: first.clone() }
            }
            ExportFiles::Directory(directory) => ExportSource::Directory(directory.clone()),
            ExportFiles::Origins { first, others, tls } => {
                let servers = std::iter::once(first).chain(others).cloned().collect();
                ExportSource::Origin {
                    origin: self.root_client(servers, *tls, redirects),
                    server: first.clone().into(),
                }
            }
            ExportFiles::Alternatives(groups) => {
                let last = groups.len().saturating_sub(1);
                let sources = groups.iter().enumerate().map(|(number, files)| {
                    // Where another protocol is left, each server is asked once.
                    let origins = if number < last { self.asking_once() } else { self.clone() };
                    origins.source(export, files)
                });
                let mut origins = Vec::new();
                let mut first = None;
                for source in sources {
                    if let ExportSource::Origin { origin, server } = source {
                        first.get_or_insert(server);
                        origins.push(origin);
                    }
                }
                let server = first.expect("the configuration has origins only in groups of at least one");
                ExportSource::Origin { origin: Arc::new(Alternatives::new(origins)), server }
            }
        }
    }

    fn asking_once(&self) -> Self {
        let options = forebay_origin_root::Options { attempts: 1, read_attempts: 2, ..self.options.clone() };
        Self { options, ..self.clone() }
    }

    fn export(&self, export: &ExportConfig) -> Export {
        Export {
            prefix: export.path.clone(),
            source: self.source(export, &export.files),
            writes: export.writes,
            validity: export.validity,
            authorizes_at_origin: export.checks_origin,
            service: export.service,
        }
    }
}

/// An error of the export selected by `is_it`.
fn blame(settings: &Settings, is_it: impl Fn(&ExportConfig) -> bool, key: &str, error: &RouteError) -> anyhow::Error {
    let index = settings.config.exports.iter().position(is_it).unwrap_or_default();
    settings.error_at(&format!("export[{index}].{key}"), error).into()
}

/// Options of connections to origins. None is made to this server itself.
fn pool_options(config: &Config, addresses: Vec<SocketAddr>) -> PoolOptions {
    // The machine's own name is known by its addresses; this one may be that of a load balancer.
    let name = config.server.options.host_name.as_deref();
    let named = |address: &SocketAddr| Endpoint::new(name?, address.port()).canonical();
    let names = addresses.iter().filter_map(named).collect();
    PoolOptions { own: OwnAddresses { addresses, names }, ..config.origin.pool.clone() }
}

/// A client of HTTP servers, of a bucket, or of a federation, of whose `servers` it reads.
pub(crate) fn client_over_http(
    (first, others): (OriginId, Vec<OriginId>),
    servers: PelicanServers,
    options: forebay_origin_http::Options,
    pool: Arc<HttpPool>,
    metrics: &Metrics,
) -> Arc<dyn Origin> {
    if first.scheme == Scheme::Pelican {
        return Arc::new(PelicanOrigin::new(first, servers, options, pool, metrics));
    }
    Arc::new(HttpOrigin::new(first, others, options, pool, metrics))
}

/// Options of an origin over HTTP: patience is the same for all protocols.
pub(crate) fn http_options(
    options: &forebay_origin_root::Options,
    redirects: Redirects,
) -> forebay_origin_http::Options {
    forebay_origin_http::Options {
        first_byte_timeout: options.first_byte_timeout,
        stall_timeout: options.stall_timeout,
        deadline: options.deadline,
        wait_max: options.wait_max,
        attempts: options.attempts,
        read_attempts: options.read_attempts,
        back_off_min: options.back_off_min,
        back_off_max: options.back_off_max,
        redirect_limit: options.redirect_limit,
        redirects,
    }
}

/// Options of connections over HTTP. Unused ones are kept for less time than those of `root://`, whose servers keep them open.
pub(crate) fn http_pool_options(options: &PoolOptions) -> forebay_origin_http::PoolOptions {
    let defaults = forebay_origin_http::PoolOptions::default();
    forebay_origin_http::PoolOptions {
        connect_timeout: options.connect_timeout,
        idle_timeout: options.idle_timeout.min(defaults.idle_timeout),
        circuit_time: options.circuit_time,
        username: options.username.clone(),
        own: options.own.clone(),
    }
}
