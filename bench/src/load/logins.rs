//! A load of logins: clients that connect, log in and disconnect in a loop.

use super::LoadReport;
use super::connection::connect;
use super::latency::Latencies;
use super::login::{Entry, log_in};
use super::transport::Transport;
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Clients that log in repeatedly, each on a thread of its own: they compute much longer than they wait.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    /// Where they log in.
    pub(crate) server: SocketAddr,
    /// How each of them connects and logs in.
    pub(crate) entries: Vec<Entry>,
}

/// Logins that may fail for one client in one run; they are reported and not counted. XRootD 5.5.3 over TLS mistakes,
/// once in some thousand logins, the bytes of a connection for those of an earlier one.
const FAILURES_MAX: u32 = 3;

impl Logins {
    /// Logs in for `time`, or fails when `cancelled` becomes true. Logins under way at the end are completed and
    /// counted.
    pub(crate) fn run(&self, time: Duration, cancelled: &AtomicBool) -> Result<LoadReport> {
        ensure!(!self.entries.is_empty(), "nobody is to log in");
        let start = clock::monotonic();
        let latencies = std::thread::scope(|scope| {
            let clients: Vec<_> =
                self.entries.iter().map(|entry| scope.spawn(move || self.client(entry, time, cancelled))).collect();
            let done = clients.into_iter().map(|client| client.join().ok().context("a client panicked")?);
            done.collect::<Result<Vec<_>>>()
        })?;
        let wall = clock::monotonic().saturating_duration_since(start);
        let mut all = Latencies::new();
        latencies.iter().for_each(|latencies| all.add(latencies));
        Ok(LoadReport {
            operations: all.count(),
            bytes: 0,
            wall_s: wall.as_secs_f64(),
            p50_us: all.percentile_us(50),
            p99_us: all.percentile_us(99),
            max_us: all.percentile_us(100),
        })
    }

    fn client(&self, entry: &Entry, time: Duration, cancelled: &AtomicBool) -> Result<Latencies> {
        let (mut latencies, mut failures) = (Latencies::new(), 0);
        let (mut now, end) = (clock::monotonic(), clock::monotonic() + time);
        while now < end {
            ensure!(!cancelled.load(Ordering::Relaxed), "interrupted");
            let done = log_in(connect(self.server)?, entry).map(Transport::close);
            let after = clock::monotonic();
            match done {
                Ok(()) => latencies.record(after.saturating_duration_since(now)),
                Err(error) if failures < FAILURES_MAX => {
                    failures += 1;
                    eprintln!("a login failed: {error:#}");
                }
                Err(error) => return Err(error),
            }
            now = after;
        }
        Ok(latencies)
    }
}
