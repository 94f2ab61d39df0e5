//! The output to OpenSearch and Elasticsearch: bulk requests, and a spool for the time without a server.

mod backlog;
mod client;
mod secret;
mod sender;

use crate::lines::{Inbox, Message};
use backlog::Backlog;
pub use client::Authorization;
use client::Client;
use forebay_net::TlsError;
use forebay_telemetry::Metrics;
use forebay_types::OriginId;
use parking_lot::{Condvar, Mutex};
use sender::Sender;
use std::{
    io,
    path::PathBuf,
    sync::{Arc, mpsc::RecvTimeoutError},
    thread,
    time::Duration,
};

/// Longest time that records wait for others of the same request.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Time for the last requests when the server stops. The records that are left go to the spool.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

/// Servers of OpenSearch or Elasticsearch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SearchOptions {
    /// Servers, the preferred one first; at least one.
    pub urls: Vec<OriginId>,
    /// Name of the data stream, or begin of the names of daily indices.
    pub stream: String,
    pub is_daily: bool,
    pub authorization: Authorization,
    /// CAs for the certificates of the servers; `None` for those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// Directory of records that wait for a server; `None` keeps them in memory.
    pub spool: Option<PathBuf>,
    /// Bytes of records that wait; the oldest ones are dropped beyond it.
    pub spool_bytes: u64,
    pub installs_template: bool,
}

/// Records that wait, and the threads that wait for them.
struct Shared {
    state: Mutex<State>,
    /// Notified when there is work for the sender.
    work: Condvar,
    /// Notified when the sender has done some.
    done: Condvar,
}

struct State {
    backlog: Backlog,
    /// Records do not wait for others: the server stops.
    is_hurried: bool,
    /// The collecting thread has ended.
    has_ended: bool,
    /// The last request had no success: records go to the spool at once.
    is_failing: bool,
}

impl SearchOptions {
    /// Checks the files that are needed for requests.
    ///
    /// # Errors
    /// The first one that cannot be used, and why.
    pub fn check(&self) -> Result<(), String> {
        Client::new(self).map_err(|error| error.to_string())?;
        self.authorization.value().map(drop)
    }
}

/// Starts the threads of the output.
///
/// # Errors
/// If the file of authorities cannot be used, or no thread can be started.
pub(crate) fn start(options: SearchOptions, inbox: Inbox, metrics: Metrics) -> io::Result<()> {
    let client = Client::new(&options).map_err(|error: TlsError| io::Error::other(error.to_string()))?;
    let backlog = Backlog::open(options.spool.clone(), options.spool_bytes, metrics.clone());
    let state = State { backlog, is_hurried: false, has_ended: false, is_failing: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sender = Sender::new(options, client, metrics, Arc::clone(&shared));
    thread::Builder::new().name("record-sender".to_owned()).spawn(move || sender.run(&runtime))?;
    thread::Builder::new().name("record-spool".to_owned()).spawn(move || shared.collect(&inbox))?;
    Ok(())
}

impl Shared {
    /// Collects records until all senders of the inbox are gone.
    fn collect(&self, inbox: &Inbox) {
        loop {
            match inbox.recv_timeout(AGE_MAX) {
                Ok(Message::Lines(lines)) => {
                    let mut state = self.state.lock();
                    state.backlog.push(&lines);
                    if state.is_failing {
                        state.backlog.persist();
                    }
                    if state.backlog.is_full() {
                        self.work.notify_all();
                    }
                }
                Ok(Message::Flush(done)) => {
                    self.hurry();
                    drop(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.state.lock().has_ended = true;
        self.work.notify_all();
    }

    /// Sends everything, or writes it to the spool.
    fn hurry(&self) {
        let mut state = self.state.lock();
        state.is_hurried = true;
        self.work.notify_all();
        let is_busy = |state: &mut State| !state.backlog.is_empty() && !state.is_failing;
        self.done.wait_while_for(&mut state, is_busy, STOP_TIME_MAX);
        state.backlog.persist();
        state.is_hurried = false;
    }
}
