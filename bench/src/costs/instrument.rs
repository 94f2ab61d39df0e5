//! The programs that count what a server does: callgrind its instructions, strace its system calls.

use super::profile::Profile;
use crate::process::Program;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Counts what a server does.
pub(crate) trait Instrument {
    type Count: Count;

    /// Ends a slice and begins the next one: what server `pid` did since the last call. It must not be doing anything.
    fn cut(&mut self, pid: u32) -> Result<Self::Count>;
}

/// Events in a slice of a server's life.
pub(crate) trait Count {
    /// Events of the threads that wait for sockets. They serve requests; others run on timers, such as index and syncs, and
    /// a request that has to go to another thread shows in the calls that wake it.
    fn served(&self) -> u64;

    /// Events of all threads.
    fn total(&self) -> u64;
}

/// The call by which a thread is known that waits for sockets.
const WAIT_CALL: &str = "epoll_wait";

/// Counts instructions in user space.
#[derive(Debug)]
pub(crate) struct Callgrind {
    out: PathBuf,
    cuts: u32,
}

impl Callgrind {
    /// Callgrind, and `program` as it runs within it; files go to `dir`.
    pub(crate) fn wrap(program: Program, dir: &Path) -> (Self, Program) {
        let out = dir.join("callgrind.out");
        let option = |name: &str, path: &Path| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        let args =
            vec!["--tool=callgrind".into(), "--separate-threads=yes".into(), option("--callgrind-out-file=", &out)];
        (Self { out, cuts: 0 }, within("valgrind", args, program))
    }
}

impl Instrument for Callgrind {
    type Count = Instructions;

    fn cut(&mut self, pid: u32) -> Result<Instructions> {
        run_quietly(Command::new("vgdb").arg(format!("--pid={pid}")).arg("dump"))?;
        self.cuts += 1;
        let mut slice = Instructions::default();
        for thread in 1.. {
            let mut path = self.out.clone().into_os_string();
            path.push(format!(".{}-{thread:02}", self.cuts));
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error).context("cannot read what callgrind has written"),
            };
            std::fs::remove_file(&path)?;
            let profile = Profile::parse(&text)?;
            if profile.has_function(WAIT_CALL) {
                slice.serving.add(profile);
            } else {
                slice.elsewhere += profile.total();
            }
        }
        Ok(slice)
    }
}

/// Instructions of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instructions {
    /// Those of the threads that wait for sockets.
    pub(crate) serving: Profile,
    elsewhere: u64,
}

impl Count for Instructions {
    fn served(&self) -> u64 {
        self.serving.total()
    }

    fn total(&self) -> u64 {
        self.serving.total() + self.elsewhere
    }
}

#[derive(Debug)]
pub(crate) struct Strace {
    out: PathBuf,
    seen: u64,
}

impl Strace {
    /// Strace, and `program` as it runs within it; files go to `dir`.
    pub(crate) fn wrap(program: Program, dir: &Path) -> (Self, Program) {
        let out = dir.join("strace.out");
        // As a process next to the server (-D), which so keeps the number that it was started with.
        let args = ["-D", "-f", "-qq", "-s", "0", "-e", "signal=none", "-o"];
        let args = args.map(Into::into).into_iter().chain([out.clone().into_os_string()]);
        let program = within("strace", args.collect(), program);
        (Self { out, seen: 0 }, program)
    }
}

impl Instrument for Strace {
    type Count = SystemCalls;

    fn cut(&mut self, _pid: u32) -> Result<SystemCalls> {
        let mut file = File::open(&self.out).context("strace has written nothing")?;
        file.seek(SeekFrom::Start(self.seen))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        self.seen += u64::try_from(whole.len())? + u64::from(!whole.is_empty());
        Ok(SystemCalls::of(whole))
    }
}

/// System calls of a slice.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SystemCalls {
    /// How often each was made by the threads that wait for sockets.
    pub(crate) serving: BTreeMap<String, u64>,
    elsewhere: u64,
}

impl SystemCalls {
    /// Counts the calls that begin in strace's lines.
    fn of(lines: &str) -> Self {
        let mut threads: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
        for (thread, call) in lines.lines().filter_map(begun_call) {
            *threads.entry(thread).or_default().entry(call.to_owned()).or_insert(0) += 1;
        }
        let mut slice = Self::default();
        for calls in threads.into_values() {
            if !calls.contains_key(WAIT_CALL) {
                slice.elsewhere += calls.values().sum::<u64>();
                continue;
            }
            for (call, count) in calls {
                *slice.serving.entry(call).or_insert(0) += count;
            }
        }
        slice
    }
}

impl Count for SystemCalls {
    fn served(&self) -> u64 {
        self.serving.values().sum()
    }

    fn total(&self) -> u64 {
        self.served() + self.elsewhere
    }
}

/// Thread and system call that begins on a line of strace's: `THREAD call(arguments…`; another line reports the end of
/// one.
fn begun_call(line: &str) -> Option<(&str, &str)> {
    let (thread, call) = line.split_once(' ')?;
    let (name, _) = call.trim_start().split_once('(')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_name).then_some((thread, name))
}

fn within(tool: &str, mut args: Vec<OsString>, program: Program) -> Program {
    args.push(program.path.into_os_string());
    args.extend(program.args);
    Program { path: tool.into(), args, ..program }
}

fn run_quietly(command: &mut Command) -> Result<()> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// The first line that `program --version` prints.
pub(crate) fn version(program: &str) -> Result<String> {
    let done = Command::new(program).arg("--version").output();
    let done =
        done.with_context(|| format!("cannot run {program}; tests/install-tools.sh installs what is missing"))?;
    match String::from_utf8_lossy(&done.stdout).lines().next() {
        Some(line) => Ok(line.trim().to_owned()),
        None => bail!("{program} does not tell its version"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_they_begin_by_what_their_thread_waits_for() {
        let lines = "\
            7   epoll_wait(3, [], 1024, 5) = 0\n\
            7   preadv2(21, <unfinished ...>\n\
            12  fdatasync(9) = 0\n\
            7   <... preadv2 resumed>[{iov_base=\"\"...}], 1) = 4096\n\
            7   --- SIGCHLD {si_signo=SIGCHLD} ---\n\
            7   epoll_wait(3, <unfinished ...>\n\
            12  +++ exited with 0 +++\n";
        let slice = SystemCalls::of(lines);
        assert_eq!(slice.serving, [("epoll_wait".to_owned(), 2), ("preadv2".to_owned(), 1)].into());
        assert_eq!((slice.served(), slice.total()), (3, 4));
    }
}
