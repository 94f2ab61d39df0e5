//! A file open at an origin, through lost connections and failing servers.

mod assembly;
mod job;
mod open_handle;
mod plan;
mod read;
mod repair;
mod round;
mod state;

use crate::{route::call::CallLimits, servers::Servers};
use forebay_origin::{Chunks, FileIdentity, OriginError, OriginFile, OriginPath};
use forebay_types::ByteRange;
use job::Job;
use open_handle::OpenHandle;
use read::Reading;
use state::FileState;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// A file open at a `root://` origin.
pub(crate) struct RootFile {
    state: Arc<FileState>,
}

impl RootFile {
    /// Opens `path` at one of `servers`.
    pub(crate) async fn open(servers: &Servers, path: &OriginPath) -> Result<Self, OriginError> {
        let limits = CallLimits::from_now(&servers.router.options);
        let opened = OpenHandle::open(servers, path, servers.attempts_of_request(limits), limits).await?;
        let state = FileState::new(servers.clone(), path.clone(), opened);
        Ok(Self { state: Arc::new(state) })
    }
}

impl OriginFile for RootFile {
    fn identity(&self) -> FileIdentity {
        self.state.current().identity.clone()
    }

    fn verifies_pages(&self) -> bool {
        !self.state.has_unverified.load(Relaxed)
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        let (senders, chunks): (Vec<_>, Vec<_>) = ranges.iter().map(|_| Chunks::channel()).unzip();
        let jobs = ranges.iter().zip(senders).map(|(&range, sender)| Job::new(range, sender)).collect();
        let reading = Reading::new(Arc::clone(&self.state), jobs);
        match <[Chunks; 1]>::try_from(chunks) {
            // No task for a single range: its reader drives it, which saves a change of tasks for each piece.
            Ok([only]) => vec![only.driven_by(reading.run_at_hand())],
            Err(chunks) => {
                tokio::spawn(reading.run());
                chunks
            }
        }
    }
}
