//! The state that all fronts of one server share.

use crate::{
    answer_memory::MemoryPool, backend::Backend, client_limits::ClientLimits, direct::DirectAccess,
    refusal_log::RefusalLog,
};
use forebay_engine::Handle;
use forebay_telemetry::Readiness;
use forebay_trust::Gate;
use std::{sync::Arc, time::Duration};

/// The state that all fronts of one server share.
pub struct Front {
    pub backend: Backend,
    /// Authenticates clients, and holds the rules.
    pub gate: Arc<Gate>,
    /// While it is draining, fronts open no files.
    pub readiness: Readiness,
    pub answer_memory: MemoryPool,
    pub limits: ClientLimits,
    pub refusal_log: RefusalLog,
    pub direct: DirectAccess,
    pub first_request_time_max: Duration,
}

/// Configuration that all fronts share. The defaults suit a cache node that serves a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Client connections served at the same time, bound streams included; more are closed at once. Each costs a
    /// descriptor and a few KiB of memory while it is idle.
    pub connections_max: usize,
    /// Of these, connections of one client address (IPv6: one network of 64 bits); `None` for three quarters.
    pub connections_per_address_max: Option<usize>,
    /// Of these, connections of one client address that are not logged in yet; `None` for half.
    pub logins_per_address_max: Option<usize>,
    /// Sessions of one proven identity; `None` for three quarters of the connections.
    pub sessions_per_identity_max: Option<usize>,
    /// Different files that can be open at the same time: each costs a descriptor.
    pub open_files_max: usize,
    /// Open files of all sessions of one client address; `None` for a quarter of `open_files_max`.
    pub handles_per_address_max: Option<usize>,
    /// The same, of one proven identity.
    pub handles_per_identity_max: Option<usize>,
    /// Size of the memory budget; answers that are assembled and long requests take a part on
    /// top of it.
    pub memory_budget_bytes: u64,
    pub direct: DirectAccess,
    /// Time that a client has for its login or first request if it has connected just before the server stops. Clients take a
    /// connection that is closed before for an address that does not work: those of XRootD wait for two minutes, curl fails.
    pub first_request_time_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_address_max: None,
            logins_per_address_max: None,
            sessions_per_identity_max: None,
            open_files_max: 65_536,
            handles_per_address_max: None,
            handles_per_identity_max: None,
            memory_budget_bytes: 1 << 30,
            direct: DirectAccess::default(),
            first_request_time_max: Duration::from_secs(1),
        }
    }
}

impl Front {
    /// A front of `backend` for the clients that `gate` admits.
    pub fn new(backend: impl Into<Backend>, gate: Arc<Gate>, options: Options, readiness: Readiness) -> Self {
        // Fronts share the limits: a client must not multiply them by using several protocols.
        let limits = ClientLimits::new(&options);
        Self {
            backend: backend.into(),
            gate,
            readiness,
            answer_memory: MemoryPool::new(options.memory_budget_bytes),
            limits,
            refusal_log: RefusalLog::default(),
            direct: options.direct,
            first_request_time_max: options.first_request_time_max,
        }
    }

    /// Ends the serving of an open file to a client that can read it itself, and returns the file's URL. `None` when the
    /// file has to be served.
    pub async fn switch_to_file(&self, handle: &Handle) -> Option<String> {
        handle.switch().await.and_then(|path| self.direct.url_of(&path))
    }
}
