//! A running server: engine, fronts and admin port, wired from a configuration.

mod admin_port;
mod certificates;
mod cluster;
mod followers;
mod fronts;
pub(crate) mod gate;
pub(crate) mod origins;
mod parts;
mod probe_file;
mod unusable;

use admin_port::AdminPort;
use anyhow::anyhow;
use followers::Followers;
use forebay_admin::{Recorder, Views};
use forebay_cache::HealthLimits;
use forebay_cluster::{Cluster, Feed};
use forebay_config::{Config, DiskConfig, Role, Settings};
use forebay_engine::Engine;
use forebay_front::{Backend, DirectAccess, Front};
use forebay_index::{IndexFile, IndexOptions};
use forebay_manager::Manager;
use forebay_net::{BoundAddress, ListenError, Listener};
use forebay_origin_root::ping;
use forebay_record_outputs::Records;
use forebay_store::{Disk, DiskSet, FillerRecord, PartSet, StoreError, VolumeSpec};
use forebay_telemetry::{Activity, Metrics, Observers, Readiness, Streams, Trace};
use forebay_types::Endpoint;
use fronts::Listeners;
use origins::Origins;
use parts::OwnFiles;
use std::{io, net::SocketAddr, os::unix::net::UnixListener, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use unusable::unusable;

pub(crate) struct Node {
    backend: Backend,
    origins: Origins,
    readiness: Readiness,
    /// Client addresses, with the assigned ports.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Those for HTTP only.
    pub(crate) http_addresses: Vec<SocketAddr>,
    pub(crate) s3_addresses: Vec<SocketAddr>,
    pub(crate) dcap_addresses: Vec<SocketAddr>,
    /// Where the admin port is reached.
    pub(crate) admin: AdminPort,
    stop: watch::Sender<bool>,
    fronts: JoinSet<()>,
    /// The admin port is served until the end, so that probes see the server stop.
    admin_tasks: JoinSet<()>,
    trace: Option<Trace>,
    recorder: Recorder,
    streams: Option<Streams>,
    cluster: Option<Cluster>,
    records: Option<Records>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Departure {
    /// Its clients have to go elsewhere.
    Final,
    /// It is back in a moment, on the same sockets.
    Brief,
}

/// Addresses of a server, bound before it drops its privileges.
pub(crate) struct Bound {
    pub(crate) addresses: Vec<BoundAddress>,
    /// For HTTP only.
    pub(crate) http_addresses: Vec<BoundAddress>,
    pub(crate) s3_addresses: Vec<BoundAddress>,
    pub(crate) dcap_addresses: Vec<BoundAddress>,
    /// The socket of the admin port, if a service manager passed one.
    pub(crate) admin_socket: Option<UnixListener>,
}

/// Longest time to write the last lines of a trace when the server stops.
const TRACE_FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

/// Longest time to send the last records of the accounting streams when the server stops.
const STREAMS_FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// Longest time to keep the last records of accesses safe when the server stops.
const RECORDS_FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

impl Node {
    /// Starts a server inside a tokio runtime, on addresses from [`bind`]. It accepts connections when this returns.
    pub(crate) async fn start(settings: &Settings, bound: Bound) -> anyhow::Result<Self> {
        let config = &settings.config;
        let metrics = Metrics::new();
        let runtime = tokio::runtime::Handle::current().metrics();
        metrics.watch_tasks(move || runtime.num_alive_tasks() as u64);
        let credentials = gate::origin_credentials(settings)?;
        let origins = Origins::new(settings, bound.all_addresses(), credentials.clone(), metrics.clone())?;
        let routes = origins.routes(settings)?;
        let tls = gate::tls_towards_clients(settings)?;
        let gate = gate::open(settings, &credentials)?;
        let (parts, disk) = open_disks(settings)?;
        let bound_addresses = [bound.addresses, bound.http_addresses, bound.s3_addresses, bound.dcap_addresses];
        let listeners = listen_all(settings, bound_addresses)?;
        let [addresses, http_addresses, s3_addresses, dcap_addresses] = listeners.addresses();
        let admin_listeners = admin_port::listen(settings, bound.admin_socket).await?;
        let admin = admin_listeners.port.clone();

        let url = url_for_others(config, addresses.first());
        let own = OwnFiles::of(config, parts.as_deref(), url.as_deref())?;
        let probe = probe_file::known(config, disk.as_deref());
        let followers =
            Followers::start(config, admin.address.is_some() || admin.socket.is_some(), addresses.first(), &metrics)?;
        let events = followers.observing(config.engine.events.clone());
        let (events, feed) = cluster::observing(config, events);
        let Followers { activity, popularity, trace, streams, records } = followers;
        let backend = match config.server.role {
            Role::Manager => Backend::Manager(Manager::start(manager_options(config, events), routes, metrics)),
            Role::Cache | Role::Filler => {
                let options = engine_options(config, own.index, events);
                Backend::Cache(Engine::start(options, disk, routes, metrics))
            }
        };
        if let (Backend::Cache(engine), Some(url)) = (&backend, &url) {
            begin_to_fill(engine, config.server.role, parts, url);
        }
        let (readiness, (stop, _)) = (Readiness::new(), watch::channel(false));
        let directories = config.disks.iter().map(|disk| disk.path.clone()).collect();
        let direct = DirectAccess { probe: Arc::clone(&probe), directories, ..config.server.front.direct.clone() };
        let shared = forebay_front::Options { direct, ..config.server.front.clone() };
        let front = Arc::new(Front::new(backend.clone(), Arc::clone(&gate), shared, readiness.clone()));
        let mut fronts = fronts::serve(settings, front, tls, listeners, &stop)?;
        fronts.spawn(probe_file::look(config, probe, wait_for(stop.subscribe())));
        gate::keep_current(&gate, &credentials, &mut fronts, stop.subscribe());
        certificates::watch(config, backend.metrics());
        watch_readiness(&backend, readiness.clone());
        let recorder = Recorder::load(own.history);
        let views = views(settings, activity, recorder.clone());
        readiness.set_ready();
        // Managers send clients from now on.
        let cluster = join_cluster(settings, &backend, &readiness, (&addresses, feed)).await?;
        let locator = cluster.as_ref().map(Cluster::locator);
        let admin_tasks =
            admin_listeners.serve(backend.clone(), readiness.clone(), config, (views, popularity), locator);
        Ok(Self {
            backend,
            origins,
            readiness,
            addresses,
            http_addresses,
            s3_addresses,
            dcap_addresses,
            admin,
            stop,
            fronts,
            admin_tasks,
            trace,
            recorder,
            streams,
            cluster,
            records,
        })
    }

    /// Waits until another filler has taken over the store, possibly forever.
    pub(crate) async fn store_lost(&self) {
        match &self.backend {
            Backend::Cache(engine) => engine.store_lost().await,
            Backend::Manager(_) => std::future::pending().await,
        }
    }

    /// Applies the exports and forwarding of `settings`.
    pub(crate) fn reload(&self, settings: &Settings) -> anyhow::Result<()> {
        self.backend.reconfigure(self.origins.routes(settings)?);
        Ok(())
    }

    /// Stops accepting connections, waits for running requests for at most `patience` or until `hurry` is ready, and syncs
    /// everything to disk.
    pub(crate) async fn stop(mut self, departure: Departure, patience: Duration, hurry: impl Future<Output = ()>) {
        if departure == Departure::Final {
            if let Some(cluster) = self.cluster.take() {
                // While clients are still accepted, because managers send them until then.
                cluster.stop().await;
            }
            self.readiness.set_stopping();
        }
        self.stop.send_replace(true);
        let drained = timeout(patience, async { while self.fronts.join_next().await.is_some() {} });
        tokio::select! {
            outcome = drained => if outcome.is_err() {
                tracing::warn!(after_s = patience.as_secs(), "aborting requests that are still running");
            },
            () = hurry => tracing::warn!("second stop signal: aborting running requests"),
        }
        self.fronts.shutdown().await;
        // Without a logout: managers and members take the silence of a moment for nothing.
        drop(self.cluster.take());
        if let Backend::Cache(engine) = &self.backend {
            engine.shutdown().await;
        }
        if let Some(trace) = self.trace.take() {
            // Writing may block on a slow disk.
            let _ = tokio::task::spawn_blocking(move || trace.flush(TRACE_FLUSH_TIME_MAX)).await;
        }
        let recorder = self.recorder.clone();
        let _ = tokio::task::spawn_blocking(move || recorder.save()).await;
        if let Some(streams) = self.streams.take() {
            // Names of collectors may have to be resolved.
            let _ = tokio::task::spawn_blocking(move || streams.flush(STREAMS_FLUSH_TIME_MAX)).await;
        }
        if let Some(records) = self.records.take() {
            let _ = tokio::task::spawn_blocking(move || records.flush(RECORDS_FLUSH_TIME_MAX)).await;
        }
        self.admin_tasks.shutdown().await;
    }
}

/// Logs in to the managers of the cluster, if there are any.
async fn join_cluster(
    settings: &Settings,
    backend: &Backend,
    readiness: &Readiness,
    (addresses, feed): (&[SocketAddr], Option<Feed>),
) -> anyhow::Result<Option<Cluster>> {
    let (Backend::Cache(engine), Some(feed)) = (backend, feed) else { return Ok(None) };
    let started = cluster::start(settings, engine, readiness, addresses, feed).await;
    Ok(Some(started.map_err(|error| {
        let text =
            format_args!("cannot open the UDP port for messages between members, which is the data port: {error}");
        unusable(settings, "cluster.members", text, error.kind() == io::ErrorKind::AddrInUse)
    })?))
}

fn watch_readiness(backend: &Backend, readiness: Readiness) {
    backend.metrics().watch_readiness(move || readiness.is_ready());
}

fn views(settings: &Settings, activity: Activity, recorder: Recorder) -> Views {
    let Config { admin, engine, .. } = &settings.config;
    let text = settings.text().unwrap_or_default();
    Views::new(activity, recorder, &admin.hosts, engine.purge.rules.bytes, text)
        .with_job_efficiency(admin.job_efficiency.clone())
}

/// The parts that are shared with other fillers, and the disk of the engine, which is these parts if there are any.
type Disks = (Option<Arc<PartSet>>, Option<Arc<dyn Disk>>);

/// The disks of a server that fills a store: those of the configuration, or the parts that it shares with others.
fn open_disks(settings: &Settings) -> anyhow::Result<Disks> {
    if settings.config.server.role == Role::Manager {
        return Ok((None, None));
    }
    match parts::open(settings)? {
        Some(parts) => Ok((Some(Arc::clone(&parts)), Some(parts))),
        None => Ok((None, open_store(settings)?)),
    }
}

/// Lets managers and other fillers know that this server fills the store, or parts of it, and is reached at `url`.
fn begin_to_fill(engine: &Engine, role: Role, parts: Option<Arc<PartSet>>, url: &str) {
    match parts {
        Some(parts) => engine.share_parts(parts, url),
        None if role == Role::Filler => engine.tell_who_fills(url),
        None => {}
    }
}

/// Opens the disks, if there are any. If there are several, unusable ones are offline until they can be used.
fn open_store(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Disk>>> {
    let Config { disks, permissions, .. } = &settings.config;
    let Some(first) = disks.first() else { return Ok(None) };
    let now_ms = forebay_net::clock::now_unix().saturating_mul(1000);
    for disk in disks {
        parts::refuse_divided(settings, disk)?;
        let refused = FillerRecord::refuse_second(&disk.path, now_ms);
        refused.map_err(|error| unusable(settings, &disk.setting, error, true))?;
    }
    let is_one = disks.len() == 1;
    let spec = |disk: &DiskConfig| {
        let path = disk.path.clone();
        if is_one && !disk.is_mounted {
            VolumeSpec::local(path, disk.weight, *permissions)
        } else {
            VolumeSpec::existing(path, disk.weight, disk.is_mounted, *permissions)
        }
    };
    let specs = disks.iter().map(spec).collect();
    let opened = DiskSet::open(specs, HealthLimits::default(), forebay_net::clock::monotonic).map_err(|error| {
        let is_passing = matches!(error, StoreError::Locked { .. }) || error.is_retryable();
        let advice = if is_passing { "" } else { "; choose a directory that is writable for this user" };
        unusable(settings, &first.setting, format_args!("{:#}{advice}", anyhow!(error)), is_passing)
    })?;
    Ok(Some(Arc::new(opened)))
}

fn engine_options(config: &Config, index: Option<PathBuf>, events: Observers) -> forebay_engine::Options {
    let mut options = forebay_engine::Options { events, reads_by_ring: true, ..config.engine.clone() };
    if let Some(path) = index {
        let cache_bytes = config.index.cache_bytes;
        options.index = Arc::new(IndexFile { path, options: IndexOptions { cache_bytes } });
    }
    options
}

fn manager_options(config: &Config, events: Observers) -> forebay_manager::Options {
    let roots = config.disks.iter().map(|disk| disk.path.clone()).collect();
    let (direct_mode, filler) = (config.engine.direct_mode, config.manager_filler.clone());
    let lease = config.parts.lease;
    let parts = config.parts.count.map(|count| forebay_manager::Parts { count, lease });
    forebay_manager::Options { roots, direct_mode, filler, parts, ping, events }
}

/// URL under which clients on other machines reach the server.
fn url_for_others(config: &Config, address: Option<&SocketAddr>) -> Option<String> {
    let address = address?;
    let name = config.server.options.host_name.clone();
    let host = name.unwrap_or_else(|| match address.ip() {
        any if any.is_unspecified() => gate::own_host_name(),
        ip => ip.to_string(),
    });
    Some(format!("root://{}", Endpoint::new(&host, address.port())))
}

impl Bound {
    /// The sockets of all protocols of clients.
    pub(crate) fn of_clients(&self) -> impl Iterator<Item = &BoundAddress> {
        self.addresses.iter().chain(&self.http_addresses).chain(&self.s3_addresses).chain(&self.dcap_addresses)
    }

    fn all_addresses(&self) -> Vec<SocketAddr> {
        self.of_clients().map(BoundAddress::address).collect()
    }
}

/// Binds the client addresses, except for those whose socket `passed` has. Needs no runtime.
pub(crate) fn bind(
    settings: &Settings,
    mut passed: impl FnMut(SocketAddr) -> Option<BoundAddress>,
) -> anyhow::Result<Bound> {
    let mut bind = |&address: &SocketAddr| match passed(address) {
        Some(socket) => Ok(socket),
        None => BoundAddress::bind(address).map_err(|error| cannot_listen(settings, &error)),
    };
    let addresses = settings.config.server.listen.iter().map(&mut bind).collect::<anyhow::Result<_>>()?;
    let http_addresses = settings.config.http.listen.iter().map(&mut bind).collect::<anyhow::Result<_>>()?;
    let s3_addresses = settings.config.s3.listen.iter().map(&mut bind).collect::<anyhow::Result<_>>()?;
    let dcap_addresses = settings.config.dcap.listen.iter().map(bind).collect::<anyhow::Result<_>>()?;
    Ok(Bound { addresses, http_addresses, s3_addresses, dcap_addresses, admin_socket: None })
}

/// Listeners on the addresses of `root://`, HTTP, S3 and dCap.
fn listen_all(settings: &Settings, bound: [Vec<BoundAddress>; 4]) -> anyhow::Result<Listeners> {
    let [of_root, of_http, of_s3, of_dcap] = bound.map(|addresses| listen(settings, addresses));
    Ok(Listeners { of_root: of_root?, of_http: of_http?, of_s3: of_s3?, of_dcap: of_dcap? })
}

fn listen(settings: &Settings, bound: Vec<BoundAddress>) -> anyhow::Result<Vec<Listener>> {
    bound.into_iter().map(|bound| Listener::of(bound).map_err(|error| cannot_listen(settings, &error))).collect()
}

fn cannot_listen(settings: &Settings, error: &ListenError) -> anyhow::Error {
    unusable(settings, "server.listen", error, error.is_retryable())
}

async fn wait_for(mut stop: watch::Receiver<bool>) {
    // An error means that the node was dropped, which is a stop too.
    let _ = stop.wait_for(|&is_stopped| is_stopped).await;
}
