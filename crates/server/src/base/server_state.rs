//! The state that all connections of a server share.

use crate::base::{options::Options, sessions::Sessions};
use forebay_front::Front;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The state that all connections of a server share.
pub(crate) struct ServerState {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
    pub(crate) sessions: Arc<Sessions>,
    /// Start of the server, in seconds of the Unix epoch.
    pub(crate) started: i64,
    prepare_requests: AtomicU64,
}

impl ServerState {
    pub(crate) fn new(front: Arc<Front>, options: Options) -> Self {
        let started = forebay_net::clock::now_unix();
        Self { front, options, sessions: Arc::default(), started, prepare_requests: AtomicU64::new(0) }
    }

    /// The id of a new prepare request.
    pub(crate) fn next_prepare_id(&self) -> String {
        // Ids stay unique over restarts, because the start time is part of them.
        format!("{}.{}", self.started, self.prepare_requests.fetch_add(1, Ordering::Relaxed))
    }
}
