//! Membership of a cluster, if it is configured.

use super::gate;
use forebay_cluster::{Cluster, Feed, NodeParts, Observer, observe};
use forebay_config::{Config, Settings};
use forebay_engine::Engine;
use forebay_telemetry::{Observers, Readiness};
use std::{io, net::SocketAddr, sync::Arc};

/// Adds the observer of the membership to `events`, if there are managers.
pub(super) fn observing(config: &Config, events: Observers) -> (Observers, Option<Feed>) {
    if config.cluster.managers.is_empty() {
        return (events, None);
    }
    let (observer, feed): (Observer, Feed) = observe();
    (events.with(Arc::new(observer)), Some(feed))
}

/// Logs in to the managers.
///
/// # Errors
/// See [`Cluster::start`].
pub(super) async fn start(
    settings: &Settings,
    engine: &Engine,
    readiness: &Readiness,
    addresses: &[SocketAddr],
    feed: Feed,
) -> io::Result<Cluster> {
    let config = &settings.config;
    let mut options = config.cluster.clone();
    if options.host.is_empty() {
        options.host = gate::host_name(settings);
    }
    let parts = NodeParts {
        engine: engine.clone(),
        readiness: readiness.clone(),
        origins: config.origin_servers(),
        addresses: addresses.to_vec(),
        budget_bytes: config.engine.purge.rules.bytes.total,
    };
    Cluster::start(options, parts, feed).await
}
