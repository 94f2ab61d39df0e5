//! The state of a control connection that its tasks share.

use crate::{
    options::{FAILING_MAX, OPENS_MAX},
    state::State,
};
use forebay_dcap_proto::{Errno, Refusal};
use forebay_engine::Caller;
use forebay_front::{ConnectionMemory, HandleShare};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::sync::{Semaphore, mpsc};

/// A control connection after its hello, as its tasks see it.
pub(crate) struct ControlLine {
    pub(crate) state: Arc<State>,
    pub(crate) peer: SocketAddr,
    /// The address to which the client has connected.
    pub(crate) local: SocketAddr,
    pub(crate) caller: Arc<Caller>,
    /// Whether the client may do anything here.
    pub(crate) is_proven: bool,
    pub(crate) handle_share: HandleShare,
    /// Memory of the answers on all data connections.
    pub(crate) memory: ConnectionMemory,
    pub(crate) requests: Arc<Semaphore>,
    answers: mpsc::Sender<String>,
    sessions: Mutex<BTreeSet<u32>>,
    failing: Mutex<BTreeSet<String>>,
}

/// The session of an open. Its number is free when this is dropped.
pub(crate) struct Session {
    number: u32,
    line: Arc<ControlLine>,
}

/// The parts of a [`ControlLine`] that the hello has shown.
pub(crate) struct Login {
    pub(crate) caller: Arc<Caller>,
    pub(crate) is_proven: bool,
}

impl ControlLine {
    pub(crate) fn new(
        state: Arc<State>,
        (peer, local): (SocketAddr, SocketAddr),
        login: Login,
        handle_share: HandleShare,
        answers: mpsc::Sender<String>,
    ) -> Self {
        let memory = ConnectionMemory::new(&state.front.answer_memory);
        let requests = Arc::new(Semaphore::new(crate::options::REQUESTS_MAX));
        let Login { caller, is_proven } = login;
        let (sessions, failing) = (Mutex::default(), Mutex::default());
        Self { state, peer, local, caller, is_proven, handle_share, memory, requests, answers, sessions, failing }
    }

    /// Hands an answer to the task of the connection.
    pub(crate) async fn answer(&self, line: String) {
        // An error means that the connection has ended.
        let _ = self.answers.send(line).await;
    }

    /// The host and port for data connections.
    pub(crate) fn data_address(&self) -> (String, u16) {
        let host = match (&self.state.options.host_name, self.local.ip().to_canonical()) {
            (Some(name), _) => name.clone(),
            (None, IpAddr::V4(address)) => address.to_string(),
            (None, IpAddr::V6(address)) => address.to_string(),
        };
        (host, self.local.port())
    }

    /// Begins the session of an open.
    pub(crate) fn begin_session(self: &Arc<Self>, number: u32) -> Result<Session, Refusal> {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= OPENS_MAX {
            let text = "this program has too many files open: close some";
            return Err(Refusal::new(Refusal::INTERNAL, Errno::Busy, text));
        }
        if !sessions.insert(number) {
            return Err(Refusal::new(Refusal::DUPLICATE_SESSION, Errno::Invalid, "the session number is in use"));
        }
        Ok(Session { number, line: Arc::clone(self) })
    }

    /// Has the next open of a name refused. libdcap 2.47 opens a file again after a read that failed, and would repeat the read for ever.
    pub(crate) fn note_failing(&self, name: &str) {
        let mut failing = self.failing.lock();
        if failing.len() >= FAILING_MAX {
            // Clients open a file again at once: the others were given up.
            failing.clear();
        }
        failing.insert(name.to_owned());
    }

    /// Whether this open is the one that is refused after a failed read.
    pub(crate) fn takes_failing(&self, name: &str) -> bool {
        self.failing.lock().remove(name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.line.sessions.lock().remove(&self.number);
    }
}
