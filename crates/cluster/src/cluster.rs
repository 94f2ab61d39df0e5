//! The membership as a whole.

use crate::{
    census, health,
    locator::Locator,
    manager_link::ManagerLink,
    members::Members,
    observer::{self, Feed},
    options::Options,
    peers::{self, PeerSocket},
    shared::Shared,
};
use forebay_engine::Engine;
use forebay_telemetry::Readiness;
use forebay_types::Endpoint;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet, time::timeout};

/// Longest time to take leave of the managers.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// The parts of the node that membership depends on.
pub struct NodeParts {
    pub engine: Engine,
    pub readiness: Readiness,
    /// Servers of all origins. While none of them can be reached this node takes no new files.
    pub origins: Vec<Endpoint>,
    /// Addresses on which clients are served; they are redirected to the port of the first one.
    pub addresses: Vec<SocketAddr>,
    /// Bytes that the cache may use, if they are limited; otherwise those of its disks.
    pub budget_bytes: Option<u64>,
}

/// A running membership; it ends when this is dropped.
pub struct Cluster {
    shared: Arc<Shared>,
    links: JoinSet<()>,
    health: JoinSet<()>,
    _tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Cluster {
    /// Logs in to the managers of `options`, and stays logged in. `feed` are the file events of the engine.
    ///
    /// # Errors
    /// If the UDP port for messages between members, which has the number of the data port, is taken.
    pub async fn start(options: Options, parts: NodeParts, feed: Feed) -> io::Result<Self> {
        let has_members = !options.members.is_empty() || options.discover.is_some();
        let socket = if has_members { Some(PeerSocket::bind(&parts.addresses).await?) } else { None };
        let data_port = parts.addresses.first().map_or(0, SocketAddr::port);
        let own = Endpoint::new(&options.host, data_port).to_string();
        let weight = health::weight(&parts.engine, parts.budget_bytes);
        let members = Members::new(options.placement, weight, own);
        let managers = options.managers.clone();
        let metrics = parts.engine.metrics().clone();
        // Unpredictable: a machine that sees no question cannot answer it.
        let token = RandomState::new().build_hasher().finish();
        let data = (parts.addresses.first().copied(), socket);
        let shared = Shared::new(options, (parts.engine.clone(), metrics), members, data, token);
        let (shared, (stop, _)) = (Arc::new(shared), watch::channel(false));
        let (mut links, mut health, mut tasks) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        health.spawn(health::watch(Arc::clone(&shared), parts));
        tasks.spawn(observer::follow(Arc::clone(&shared), feed));
        if has_members {
            tasks.spawn(peers::run(Arc::clone(&shared)));
            tasks.spawn(census::run(Arc::clone(&shared)));
        } else {
            shared.is_prepared.send_replace(true);
        }
        for manager in managers {
            links.spawn(ManagerLink::new(Arc::clone(&shared), manager).run(stop.subscribe()));
        }
        Ok(Self { shared, links, health, _tasks: tasks, stop })
    }

    /// Answers where files are.
    #[must_use]
    pub fn locator(&self) -> Locator {
        Locator::new(Arc::clone(&self.shared))
    }

    /// Takes leave of the managers and the other members. Clients must be served until this returns, because managers send them.
    pub async fn stop(mut self) {
        // First, because it would resume.
        self.health.shutdown().await;
        health::suspend(&self.shared, Some("stopping"));
        self.stop.send_replace(true);
        let left = timeout(STOP_TIME_MAX, async { while self.links.join_next().await.is_some() {} });
        if left.await.is_err() {
            tracing::warn!("a manager of the cluster does not take the logout");
        }
    }
}
