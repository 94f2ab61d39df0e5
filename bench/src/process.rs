//! Server processes: started, awaited, and stopped whatever happens.

use anyhow::{Context as _, Result, bail};
use forebay_bench::wan::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take until it answers. Within valgrind, on a machine with other work, it takes more than half a minute.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a server may take to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The user of the reference server when we are root, which it refuses to be: `daemon`, on every Linux.
const DAEMON_ID: u32 = 1;

/// A program with its arguments and environment.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Found as the shell does.
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether it must run as another user when we are root.
    pub(crate) refuses_root: bool,
}

/// A running server. It is stopped when this value goes, and the kernel kills it if this process is killed.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
    address: SocketAddr,
}

impl Server {
    /// Starts `program`, which logs to `log`, and waits until it is ready. `ready` looks at the log so far and returns
    /// the address once there is an answer from it.
    pub(crate) fn start(
        name: &'static str,
        program: &Program,
        log: &Path,
        mut ready: impl FnMut(&str) -> Option<SocketAddr>,
    ) -> Result<Self> {
        let child = spawn(program, log).with_context(|| format!("cannot start {name}"))?;
        // From here on the child is stopped on every way out.
        let mut server = Self { name, child, log: log.to_owned(), address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let address = wait_for(START_TIMEOUT, || {
            server.check_alive()?;
            Ok(ready(&server.log_text()))
        });
        server.address = address.with_context(|| server.failure("does not get ready"))?;
        Ok(server)
    }

    /// The address that it listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails when the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{}", self.failure(&format!("has ended ({status})"))),
        }
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn failure(&self, what: &str) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default().join("\n  ");
        format!("{} {what}; the end of its log:\n  {tail}", self.name)
    }

    fn stop(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        }
        wait_for(STOP_TIMEOUT, || Ok(self.child.try_wait()?)).map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // Killing can only fail when the process is gone, which is what is wanted.
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// The address after `prefix` on the first whole line of a server's `log` that begins with it.
pub(crate) fn ready_address(log: &str, prefix: &str) -> Option<SocketAddr> {
    let (lines, _) = log.rsplit_once('\n')?;
    lines.lines().find_map(|line| line.strip_prefix(prefix)?.trim_end_matches('/').parse().ok())
}

/// Whether we are root, and so must start the reference server as another user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes a directory that a program which refuses root may write to.
pub(crate) fn make_server_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    give_to_server(path)
}

/// Gives a file or directory to a program that refuses root.
pub(crate) fn give_to_server(path: &Path) -> Result<()> {
    if is_root() {
        std::os::unix::fs::chown(path, Some(DAEMON_ID), Some(DAEMON_ID))?;
    }
    Ok(())
}

/// Spawns in a process group of its own, so that Ctrl-C reaches us alone and we stop the servers in order; through
/// `setpriv`, so that the kernel kills the server if we are killed.
fn spawn(program: &Program, log: &Path) -> Result<Child> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(&program.path).args(&program.args).envs(program.env.clone());
    if program.refuses_root && is_root() {
        command.uid(DAEMON_ID).gid(DAEMON_ID);
    }
    if let Some(dir) = log.parent() {
        // Where a crash leaves its core, and nothing else does.
        command.current_dir(dir);
    }
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    command.spawn().context("cannot run setpriv, which is part of util-linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_counts_once_it_is_whole() {
        let expected = Some(SocketAddr::from(([127, 0, 0, 1], 4711)));
        assert_eq!(ready_address("admin x\nready root://127.0.0.1:4711\n", "ready root://"), expected);
        assert_eq!(ready_address("ready root://127.0.0.1:47", "ready root://"), None);
        assert_eq!(ready_address("nothing\n", "ready root://"), None);
    }
}
