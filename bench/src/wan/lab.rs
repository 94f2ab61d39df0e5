//! A lab that is up: hosts, and relays between them.

use super::device::Packets;
use super::host::{Attachment, Host};
use super::link::Link;
use super::plan::{PathPlan, Plan};
use super::preset::PathShape;
use super::probe::{RoundTrips, ping};
use super::relay::{Relay, Traffic};
use anyhow::{Context as _, Result};
use forebay_net::clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Hosts and paths. All of them go with this value, and whatever runs on a host ends.
#[derive(Debug)]
pub struct Lab {
    plan: Plan,
    // Dropped in this order: the relays move packets until no host is left to send any.
    hosts: BTreeMap<String, Host>,
    relays: Vec<Relay>,
}

/// A lab for other programs.
#[derive(Debug, Deserialize, Serialize)]
pub struct Description {
    pub hosts: BTreeMap<String, HostDescription>,
    /// In the order of the plan.
    pub paths: Vec<PathDescription>,
    /// How TCP finds its rate.
    pub congestion_control: String,
    /// Most bytes that TCP buffers for one connection, in each direction.
    pub tcp_buffer_bytes: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// A host for other programs.
#[derive(Debug, Deserialize, Serialize)]
pub struct HostDescription {
    /// A process that is there as long as the host is.
    pub pid: u32,
    /// By this, others enter its network namespace.
    pub netns: PathBuf,
}

/// A path for other programs.
#[derive(Debug, Deserialize, Serialize)]
pub struct PathDescription {
    /// The hosts at its ends.
    pub ends: [EndDescription; 2],
    /// The preset that it follows.
    pub preset: String,
    /// Delay, rate, loss and buffer.
    #[serde(flatten)]
    pub shape: PathShape,
    /// Bytes that the line carries in a second, headers and frames included.
    pub line_bytes_per_s: u64,
}

/// An end of a path.
#[derive(Debug, Deserialize, Serialize)]
pub struct EndDescription {
    /// Name of the host.
    pub host: String,
    /// Its address on this path: by it, the other end reaches the host.
    pub address: Ipv4Addr,
    /// Its interface, for counters in `/proc/PID/net/dev`.
    pub interface: String,
}

/// On longer ways it does not matter what a packet takes to get to the relay and back.
const MEASURED_RTT_MAX: Duration = Duration::from_millis(20);
const MEASURED_ROUND_TRIPS: u32 = 32;

/// Where a packet takes longer than this to get to the relay and back, something else was in its way.
const PASSAGE_MAX: Duration = Duration::from_micros(40);

impl Lab {
    /// Makes all hosts and paths.
    ///
    /// # Errors
    /// When this user may not, or a program or device is missing; the text says which.
    pub fn set_up(plan: Plan) -> Result<Self> {
        let mut hosts = BTreeMap::new();
        for name in plan.hosts() {
            hosts.insert(name.to_owned(), Host::make(&plan.tuning)?);
        }
        let mut lab = Self { plan, hosts, relays: Vec::new() };
        for index in 0..lab.plan.paths.len() {
            let relay = lab.start_relay(index)?;
            lab.relays.push(relay);
        }
        Ok(lab)
    }

    /// The description that other programs need to use it.
    #[must_use]
    pub fn description(&self) -> Description {
        let hosts = self
            .hosts
            .iter()
            .map(|(name, host)| (name.clone(), HostDescription { pid: host.pid(), netns: host.path() }));
        let paths = self.plan.paths.iter().enumerate().map(|(index, path)| PathDescription {
            ends: {
                let [near, far] = path.ends.clone();
                [(near, 0), (far, 1)].map(|(host, end)| EndDescription {
                    host,
                    address: address(index, end),
                    interface: interface(index),
                })
            },
            preset: path.preset.clone(),
            shape: path.shape,
            line_bytes_per_s: path.shape.line_bytes_per_s(),
        });
        Description {
            hosts: hosts.collect(),
            paths: paths.collect(),
            congestion_control: self.plan.tuning.congestion_control.clone(),
            tcp_buffer_bytes: self.plan.tuning.tcp_buffer_bytes,
            seed: self.plan.seed,
        }
    }

    /// The traffic of each path, there and back.
    #[must_use]
    pub fn traffic(&self) -> Vec<[Traffic; 2]> {
        self.relays.iter().map(Relay::traffic).collect()
    }

    #[must_use]
    pub fn paths(&self) -> &[PathPlan] {
        &self.plan.paths
    }

    /// Addresses of the ends of path `index`, which counts from 0.
    #[must_use]
    pub const fn addresses(index: usize) -> [Ipv4Addr; 2] {
        [address(index, 0), address(index, 1)]
    }

    /// Does something with this thread, and what it starts, on a host.
    ///
    /// # Errors
    /// When there is no such host, or the work fails.
    pub fn within<T>(&self, host: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.host(host)?.within(work)
    }

    fn host(&self, name: &str) -> Result<&Host> {
        self.hosts.get(name).with_context(|| {
            let names: Vec<_> = self.hosts.keys().map(String::as_str).collect();
            format!("there is no host {name}, but {}", names.join(", "))
        })
    }

    fn start_relay(&self, index: usize) -> Result<Relay> {
        let PathPlan { ends: [near, far], shape, .. } = self.plan.paths.get(index).context("a path has a plan")?;
        // Where packets are lost, each is lost by itself and not with all of its piece.
        let packets = if shape.loss > 0.0 { Packets::Single } else { Packets::Pieces };
        let network = format!("{}/30", address_of(index, 0));
        let name = interface(index);
        let attach = |host: &str, end| {
            let attachment = Attachment { interface: &name, address: address(index, end), network: &network };
            self.host(host)?.attach(attachment, packets, &self.plan.tuning).with_context(|| format!("on {host}"))
        };
        let devices = [attach(near, 0)?, attach(far, 1)?].map(Arc::new);
        let seed = self.plan.seed.wrapping_mul(2 * 64).wrapping_add(2 * index as u64);
        let links = |shape| [0, 1].map(|way| Link::new(shape, seed.wrapping_add(way), clock::monotonic()));
        let rtt = 2 * shape.link().delay;
        if rtt > MEASURED_RTT_MAX {
            return Relay::start(&devices, links(shape.link()), Duration::ZERO);
        }
        // The time of the quickest round trip beyond the path's delay is subtracted from that delay.
        let measured = Relay::start(&devices, links(shape.link().delay_only()), Duration::ZERO)?;
        let round_trips = ping(self.host(near)?, Self::addresses(index), rtt, MEASURED_ROUND_TRIPS)?;
        drop(measured);
        let passage = Duration::from_secs_f64(round_trips.min_ms / 1e3).saturating_sub(rtt) / 2;
        Relay::start(&devices, links(shape.link()), passage.min(PASSAGE_MAX))
    }

    /// Round trips of small packets over a path.
    pub(super) fn ping(&self, index: usize, count: u32) -> Result<RoundTrips> {
        let PathPlan { ends: [near, _], shape, .. } = self.plan.paths.get(index).context("there is no such path")?;
        ping(self.host(near)?, Self::addresses(index), 2 * shape.link().delay, count)
    }
}

/// The interface of path `index` at both of its hosts.
fn interface(index: usize) -> String {
    format!("wan{index}")
}

/// The address of an end, 0 or 1, of path `index`.
const fn address(index: usize, end: u8) -> Ipv4Addr {
    address_of(index, 1 + end)
}

/// An address of the network of path `index`: 10.77.0.0/30 and on.
const fn address_of(index: usize, host: u8) -> Ipv4Addr {
    #[expect(clippy::cast_possible_truncation, reason = "a lab has few paths")]
    let index = index as u32;
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 77, 0, 0]) + 4 * index + host as u32)
}
