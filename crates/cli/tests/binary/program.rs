//! Running the binary.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio},
};

/// Runs a subcommand to its end.
pub(crate) fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command(args).output().unwrap()
}

/// A subcommand, not started yet.
pub(crate) fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// What a command printed.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The complaints of a command.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A running `forebay serve`, killed when dropped.
pub(crate) struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<BufReader<ChildStderr>>,
    /// `root://HOST:PORT`.
    pub(crate) url: String,
    /// `http://HOST:PORT`, when there is an admin listener.
    pub(crate) admin: Option<String>,
}

impl Served {
    /// Starts a server and waits until it says that it is ready.
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut command = command(["serve"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = child.stderr.take().map(BufReader::new);
        let mut line = next_line(&mut stdout);
        let admin = line.strip_prefix("admin ").map(str::to_owned);
        if admin.is_some() {
            line = next_line(&mut stdout);
        }
        let url = line.strip_prefix("ready ").unwrap_or_else(|| panic!("not ready: `{line}`")).to_owned();
        Self { child, stdout, stderr, url, admin }
    }

    /// A read-only server of a directory.
    pub(crate) fn export(directory: &Path) -> Self {
        Self::start([
            OsStr::new("--listen"),
            OsStr::new("127.0.0.1:0"),
            OsStr::new("--export-dir"),
            directory.as_os_str(),
        ])
    }

    /// Number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads the log until a line holds `text`, and returns that line.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        let log = self.stderr.as_mut().unwrap();
        loop {
            let line = next_line(log);
            assert!(!line.is_empty(), "the log ended without `{text}`");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for the end of a server that was asked to stop.
    pub(crate) fn stop_status(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Stops the server; returns how it ended and what it still printed.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let mut rest = String::new();
        // Else a full pipe could keep it from ending.
        std::io::copy(&mut self.stderr.take().unwrap(), &mut std::io::sink()).unwrap();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
