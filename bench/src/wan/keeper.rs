//! The process that keeps a network namespace, and clears it when its maker is gone.

use super::waiting::wait_for;
use anyhow::{Context as _, Result, ensure};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The command that programs with a lab answer by [`keep`]. Its argument is the namespace that is not to be cleared.
const KEEP_COMMAND: &str = "keep";

/// How long processes may take to end by themselves.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the system may take to end those that are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of this program that make it a keeper.
pub(super) fn arguments(outside: &Path) -> [OsString; 2] {
    [KEEP_COMMAND.into(), outside.into()]
}

/// Waits for the end of the standard input, then ends all other processes in this network namespace, which is not `outside`.
///
/// # Errors
/// When the namespace is not one of ours to clear, or a process does not end.
pub fn keep(outside: &Path) -> Result<()> {
    let own = std::fs::read_link("/proc/self/ns/net")?;
    ensure!(own != outside, "this is no namespace of its own");
    let mut input = std::io::stdin().lock();
    let mut buffer = [0; 64];
    while input.read(&mut buffer).context("cannot wait for the end of the input")? > 0 {}
    clear(&own, Signal::TERM, END_TIMEOUT)
        .or_else(|_| clear(&own, Signal::KILL, KILL_TIMEOUT))
        .context("processes are left")
}

/// Sends `signal` to the processes of a namespace until there is none.
fn clear(namespace: &Path, signal: Signal, limit: Duration) -> Result<()> {
    let mut told = Vec::new();
    wait_for(limit, || {
        let mut is_empty = true;
        for (pid, process) in processes_in(namespace)? {
            is_empty = false;
            if !told.contains(&pid) {
                // It may have ended meanwhile.
                pidfd_send_signal(&process, signal).ok();
                told.push(pid);
            }
        }
        Ok(is_empty.then_some(()))
    })
}

/// All processes of a namespace but this one.
fn processes_in(namespace: &Path) -> Result<Vec<(Pid, OwnedFd)>> {
    let own_pid = rustix::process::getpid();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|pid| *pid != own_pid) else { continue };
        let link = PathBuf::from(format!("/proc/{}/ns/net", pid.as_raw_nonzero()));
        let is_there = || std::fs::read_link(&link).is_ok_and(|link| link == namespace);
        if !is_there() {
            continue;
        }
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Looked at again: the number may have gone to another process before the descriptor was there.
            Ok(process) if is_there() => found.push((pid, process)),
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).context("cannot watch a process"),
        }
    }
    Ok(found)
}
