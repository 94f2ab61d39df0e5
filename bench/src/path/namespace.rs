//! Network namespaces: two hosts on one machine.

use crate::process::wait_for;
use anyhow::{Context as _, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A network namespace that goes with this value.
#[derive(Debug)]
pub(crate) struct Namespace {
    namespace: File,
    /// Keeps a process number by which interfaces are moved here.
    keeper: Child,
}

/// How a host is tuned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Most bytes that TCP buffers for one connection, in each direction.
    pub(crate) tcp_buffer_len_max: u64,
}

const OWN: &str = "/proc/thread-self/ns/net";

const MAKE_TIMEOUT: Duration = Duration::from_secs(5);

impl Namespace {
    /// Makes a namespace whose only interface is loopback.
    pub(crate) fn make(tuning: Tuning) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "sleep", "infinity"]).stdin(Stdio::null());
        let keeper = command.spawn().context("cannot run setpriv and unshare, which are part of util-linux")?;
        let path = format!("/proc/{}/ns/net", keeper.id());
        let own = std::fs::read_link(OWN)?;
        let is_made = || Ok(std::fs::read_link(&path).ok().filter(|link| *link != own));
        let made = wait_for(MAKE_TIMEOUT, is_made).context("cannot make a network namespace; that takes root");
        // Opened in any case, so that the keeper is stopped on every way out.
        let namespace = Self { namespace: File::open(&path)?, keeper };
        made?;
        namespace.within(|| {
            ip(&["link", "set", "lo", "up"])?;
            tune(tuning)
        })?;
        Ok(namespace)
    }

    /// Moves the interface `name` here, with `address` in `network`. On that way, TCP finds its rate by `congestion_control`, a name
    /// of `net.ipv4.tcp_available_congestion_control`.
    pub(crate) fn adopt(&self, name: &str, address: Ipv4Addr, network: &str, congestion_control: &str) -> Result<()> {
        ip(&["link", "set", "dev", name, "netns", &self.keeper.id().to_string()])?;
        self.within(|| {
            ip(&["address", "add", &format!("{address}/32"), "dev", name])?;
            ip(&["link", "set", "dev", name, "up"])?;
            // The choice goes with the route: outside of the first namespace the system's default cannot be changed to all.
            ip(&["route", "add", network, "dev", name, "congctl", congestion_control])
        })
    }

    /// Does something with this thread, and what it starts, in the namespace.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = File::open(OWN)?;
        enter(&self.namespace)?;
        let done = work();
        enter(&before)?;
        done
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Killing can only fail when the process is gone, which is what is wanted.
        self.keeper.kill().ok();
        self.keeper.wait().ok();
    }
}

fn enter(namespace: &File) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).context("cannot enter a namespace")
}

/// Hosts of a long path let TCP buffer what the path holds; nothing learnt from one connection is used for the next one.
fn tune(tuning: Tuning) -> Result<()> {
    let set = |name: &str, value: &str| {
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        std::fs::write(&path, value).with_context(|| format!("cannot set {}", path.display()))
    };
    set("tcp_rmem", &format!("4096 131072 {}", tuning.tcp_buffer_len_max))?;
    set("tcp_wmem", &format!("4096 16384 {}", tuning.tcp_buffer_len_max))?;
    set("tcp_no_metrics_save", "1")
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output().context("cannot run ip (iproute2)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {} failed: {}", args.join(" "), said.trim());
    Ok(())
}
