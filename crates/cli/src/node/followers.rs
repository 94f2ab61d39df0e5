//! Subscribers of file events, as configured.

use super::gate;
use anyhow::Context;
use forebay_admin::Popularity;
use forebay_config::{Config, Role};
use forebay_record_outputs::{RecordOptions, RecordServer, Records};
use forebay_telemetry::{Activity, ActivityOptions, Metrics, Observers, StreamOptions, Streams, Trace};
use std::{net::SocketAddr, sync::Arc};

/// Subscribers of the file events of a server.
pub(super) struct Followers {
    pub(super) activity: Activity,
    pub(super) popularity: Option<Popularity>,
    pub(super) trace: Option<Trace>,
    pub(super) streams: Option<Streams>,
    pub(super) records: Option<Records>,
}

impl Followers {
    /// Starts those that are configured. `is_administered` if there is an admin port; `address` is the first
    /// one that clients connect to.
    ///
    /// # Errors
    /// If the file of the trace or the socket of the streams cannot be opened.
    pub(super) fn start(
        config: &Config,
        is_administered: bool,
        address: Option<&SocketAddr>,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let trace = start_trace(config, metrics)?;
        let activity = follow_clients(config, metrics);
        let popularity = follow_reads(config, is_administered);
        let streams = start_streams(config, address, metrics)?;
        let records = start_records(config, metrics)?;
        Ok(Self { activity, popularity, trace, streams, records })
    }

    /// `events` with all of them.
    pub(super) fn observing(&self, events: Observers) -> Observers {
        let mut events = events.with(Arc::new(self.activity.clone()));
        if let Some(trace) = &self.trace {
            events = events.with(Arc::new(trace.clone()));
        }
        if let Some(popularity) = &self.popularity {
            events = events.with(Arc::new(popularity.clone()));
        }
        if let Some(streams) = &self.streams {
            events = events.with(Arc::new(streams.clone()));
        }
        if let Some(records) = &self.records {
            events = events.with(Arc::new(records.clone()));
        }
        events
    }
}

/// Counts what clients read, by groups.
fn follow_clients(config: &Config, metrics: &Metrics) -> Activity {
    let exports = config.exports.iter().map(|export| export.path.as_str().to_owned()).collect();
    let options = ActivityOptions { exports, regions: config.admin.regions.clone() };
    Activity::new(options, (forebay_net::clock::monotonic(), forebay_net::clock::now_unix()), metrics)
}

/// Follows which files are read, if this server caches files and its administration can be asked.
fn follow_reads(config: &Config, is_administered: bool) -> Option<Popularity> {
    if !(is_administered && config.is_cache()) || config.server.role == Role::Manager {
        return None;
    }
    let records = config.records.files.as_ref().map(|files| files.directory.clone());
    Some(Popularity::new((forebay_net::clock::monotonic(), forebay_net::clock::now_unix()), records))
}

/// Starts accounting streams and summary reports, if they have a collector.
fn start_streams(config: &Config, address: Option<&SocketAddr>, metrics: &Metrics) -> anyhow::Result<Option<Streams>> {
    if !config.monitoring.has_collectors() {
        return Ok(None);
    }
    let port = address.map_or(0, SocketAddr::port);
    let host = config.server.options.host_name.clone().unwrap_or_else(gate::own_host_name);
    let options = StreamOptions { port, host, ..config.monitoring.clone() };
    let clock = forebay_net::clock::now_unix;
    let streams = Streams::start(options, clock, metrics.clone()).context("starting the accounting streams")?;
    Ok(Some(streams))
}

/// Starts the records, if they have an output.
fn start_records(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Records>> {
    if !config.records.has_output() {
        return Ok(None);
    }
    let host = config.server.options.host_name.clone().unwrap_or_else(gate::own_host_name);
    let (of_records, monitoring) = (&config.records.server.site, &config.monitoring);
    let site = if of_records.is_empty() { monitoring.site.clone() } else { of_records.clone() };
    let (instance, version) = (monitoring.instance.clone(), env!("CARGO_PKG_VERSION").to_owned());
    let server = RecordServer { site, host, instance, version };
    let options = RecordOptions { server, ..config.records.clone() };
    let clock = forebay_net::clock::now_unix_micros;
    let records = Records::start(options, clock, metrics).context("starting the records of accesses")?;
    Ok(Some(records))
}

/// Starts the trace, if it is configured.
fn start_trace(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Trace>> {
    let Some(wanted) = &config.trace else { return Ok(None) };
    let now = (forebay_net::clock::monotonic(), forebay_net::clock::now_unix_micros());
    let trace = Trace::start(wanted.clone(), now, metrics.clone()).context("starting the trace")?;
    Ok(Some(trace))
}
