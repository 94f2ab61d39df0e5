//! Hosts: network namespaces on one machine.

use super::device::{Device, Packets};
use super::keeper;
use super::waiting::wait_for;
use anyhow::{Context as _, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A network namespace. When this value goes, so does the namespace, and all processes in it end.
#[derive(Debug)]
pub(super) struct Host {
    namespace: File,
    /// Lives in the namespace, and clears it when we are gone, however that came.
    keeper: Child,
}

/// How hosts are tuned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Most bytes that TCP buffers for one connection, in each direction.
    pub tcp_buffer_bytes: u64,
    /// How TCP finds its rate: a name of `net.ipv4.tcp_available_congestion_control`.
    pub congestion_control: String,
}

/// An address on a way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Attachment<'a> {
    pub(super) interface: &'a str,
    pub(super) address: Ipv4Addr,
    /// With its length, as in `10.77.0.0/30`.
    pub(super) network: &'a str,
}

const OWN: &str = "/proc/thread-self/ns/net";

const PERMISSION: &str = "making hosts takes root, or `unshare --user --map-root-user --net` before the command";

const MAKE_TIMEOUT: Duration = Duration::from_secs(30);

impl Host {
    /// Makes a namespace whose only interface is loopback.
    pub(super) fn make(tuning: &Tuning) -> Result<Self> {
        let outside = std::fs::read_link(OWN).context("cannot tell the network namespace of this process")?;
        // A thread that could not return to its namespace must not leave it.
        enter(&File::open(OWN)?).context(PERMISSION)?;
        let mut command = Command::new("unshare");
        command.arg("--net").arg(std::env::current_exe()?).args(keeper::arguments(&outside));
        // In a group of its own, so that Ctrl-C does not reach it: it has to see to the others.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut keeper = command.spawn().context("cannot run unshare, which is part of util-linux")?;
        let path = namespace_path(keeper.id());
        let made = wait_for(MAKE_TIMEOUT, || {
            ensure!(keeper.try_wait()?.is_none(), "{PERMISSION}");
            Ok(std::fs::read_link(&path).ok().filter(|link| *link != outside).map(drop))
        });
        let opened = made.and_then(|()| Ok(File::open(&path)?)).context("cannot make a network namespace");
        let namespace = opened.inspect_err(|_| {
            // Killing can only fail when the process is gone, which is what is wanted.
            keeper.kill().ok();
            keeper.wait().ok();
        })?;
        let host = Self { namespace, keeper };
        host.within(|| {
            ip(&["link", "set", "lo", "up"])?;
            tune(tuning)
        })?;
        Ok(host)
    }

    /// A process that is in the namespace as long as this value lives.
    pub(super) fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// The file by which other programs enter the namespace.
    pub(super) fn path(&self) -> PathBuf {
        namespace_path(self.keeper.id())
    }

    /// Makes an interface here that leads to a network.
    pub(super) fn attach(&self, attachment: Attachment<'_>, packets: Packets, tuning: &Tuning) -> Result<Device> {
        let Attachment { interface, address, network } = attachment;
        self.within(|| {
            let device = Device::make(interface, packets)?;
            ip(&["address", "add", &format!("{address}/32"), "dev", interface])?;
            ip(&["link", "set", "dev", interface, "up"])?;
            // The choice goes with the route: outside of the first namespace the system's default cannot be changed to all.
            ip(&["route", "add", network, "dev", interface, "congctl", &tuning.congestion_control])?;
            Ok(device)
        })
    }

    /// Does something with this thread, and what it starts, in the namespace.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _return = Return { to: File::open(OWN)? };
        enter(&self.namespace)?;
        work()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The end of its input is the sign to clear the namespace, and to end.
        drop(self.keeper.stdin.take());
        self.keeper.wait().ok();
    }
}

/// Goes back to a namespace, also on the way of a panic.
struct Return {
    to: File,
}

impl Drop for Return {
    fn drop(&mut self) {
        enter(&self.to).expect("who was in a namespace may go back to it");
    }
}

/// Moves this thread into the namespace at `path`, for good.
///
/// # Errors
/// When there is none, or this user may not.
pub fn enter_namespace(path: &Path) -> Result<()> {
    enter(&File::open(path).with_context(|| format!("cannot open {}: its lab has ended", path.display()))?)
}

fn enter(namespace: &File) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).context("cannot enter a namespace")
}

fn namespace_path(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// Hosts of a long path let TCP buffer what the path holds; nothing learnt from one connection is used for the next one.
fn tune(tuning: &Tuning) -> Result<()> {
    let set = |name: &str, value: &str| {
        let path = Path::new("/proc/sys/net/ipv4").join(name);
        std::fs::write(&path, value).with_context(|| format!("cannot set {}", path.display()))
    };
    set("tcp_rmem", &format!("4096 131072 {}", tuning.tcp_buffer_bytes))?;
    set("tcp_wmem", &format!("4096 16384 {}", tuning.tcp_buffer_bytes))?;
    set("tcp_no_metrics_save", "1")
}

fn ip(args: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output().context("cannot run ip (iproute2)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {} failed: {}", args.join(" "), said.trim());
    Ok(())
}
