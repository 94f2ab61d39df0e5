//! Resources that a process has used since its start, from /proc.

use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// Resources that a process had used at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Nanoseconds that each of its threads has run.
    threads: BTreeMap<u32, u64>,
    /// Time of all its threads, also of those that have ended, in the kernel's ticks of 10 ms.
    process: Duration,
    /// Bytes read by any system call, `sendfile` included.
    read_bytes: u64,
}

/// Ticks per second in /proc/PID/stat: an ABI constant on Linux.
const TICKS_PER_SECOND: u32 = 100;

impl Usage {
    /// Looks at process `pid`.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        Ok(Self {
            threads: threads(pid)?,
            process: process_time(&read("stat")?).context("/proc/PID/stat makes no sense")?,
            read_bytes: read_bytes(&read("io")?).context("/proc/PID/io makes no sense")?,
        })
    }

    /// Processor time from `earlier` to this look: to the nanosecond, unless a thread has ended in between and taken its
    /// account with it; then in ticks.
    pub(crate) fn cpu_since(&self, earlier: &Self) -> Duration {
        if earlier.threads.keys().any(|thread| !self.threads.contains_key(thread)) {
            return self.process.saturating_sub(earlier.process);
        }
        let spent = self
            .threads
            .iter()
            .map(|(thread, nanoseconds)| nanoseconds.saturating_sub(earlier.threads.get(thread).copied().unwrap_or(0)));
        Duration::from_nanos(spent.sum())
    }

    /// Bytes read from `earlier` to this look.
    pub(crate) const fn read_bytes_since(&self, earlier: &Self) -> u64 {
        self.read_bytes.saturating_sub(earlier.read_bytes)
    }
}

fn threads(pid: u32) -> Result<BTreeMap<u32, u64>> {
    let path = format!("/proc/{pid}/task");
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(&path).with_context(|| format!("cannot list {path}"))? {
        let entry = entry?;
        let thread = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // A thread that ends while we look is one that has ended.
        let Ok(account) = std::fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let nanoseconds = account.split_whitespace().next().and_then(|field| field.parse().ok());
        let (thread, nanoseconds) = thread.zip(nanoseconds).context("schedstat makes no sense")?;
        threads.insert(thread, nanoseconds);
    }
    Ok(threads)
}

/// User and system time from the text of /proc/PID/stat. Fields are counted after the program's name, which may hold
/// anything.
fn process_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u32>().ok());
    let total = ticks.next()?.checked_add(ticks.next()?)?;
    Some(Duration::from_secs(1) * total / TICKS_PER_SECOND)
}

fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_time_is_found_behind_any_program_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0";
        assert_eq!(process_time(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(process_time("42 (a) S 1 2"), None);
    }

    #[test]
    fn work_of_our_own_is_seen() {
        let before = Usage::of(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while Usage::of(std::process::id()).unwrap().cpu_since(&before) < Duration::from_millis(20) {
            sum = std::hint::black_box(sum + std::fs::read("/proc/self/stat").unwrap().len() as u64);
        }
        assert!(Usage::of(std::process::id()).unwrap().read_bytes_since(&before) >= sum);
    }

    #[test]
    fn time_of_threads_that_have_ended_is_taken_from_the_process() {
        let usage = |threads: &[(u32, u64)], ticks: u64| Usage {
            threads: threads.iter().copied().collect(),
            process: Duration::from_millis(10 * ticks),
            read_bytes: 0,
        };
        let earlier = usage(&[(1, 100), (2, 200)], 5);
        assert_eq!(usage(&[(1, 150), (2, 200), (3, 7)], 6).cpu_since(&earlier), Duration::from_nanos(57));
        assert_eq!(usage(&[(1, 150)], 8).cpu_since(&earlier), Duration::from_millis(30));
    }
}
