//! A file open at an HTTP server.

mod read;

use crate::{exchange::Client, target::Target};
use forebay_origin::{Chunks, FileIdentity, OriginFile, OriginPath};
use forebay_types::ByteRange;
use parking_lot::Mutex;
use read::RangeRead;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A file and what its server said about it at the open.
pub(crate) struct HttpFile {
    shared: Arc<Shared>,
}

/// Parts that reads under way keep.
struct Shared {
    client: Arc<Client>,
    turns: Arc<Semaphore>,
    path: OriginPath,
    /// As of the open; reads go to the same server while it answers.
    identity: FileIdentity,
    /// The position of that server in the list of the client.
    opened_at: usize,
    /// The URL that answered last, after redirects.
    target: Mutex<Option<KnownTarget>>,
}

/// A URL behind redirects.
#[derive(Clone)]
struct KnownTarget {
    target: Target,
    /// The position of the server that has redirected to it.
    server: usize,
}

impl HttpFile {
    pub(crate) fn new(
        client: Arc<Client>,
        turns: Arc<Semaphore>,
        path: OriginPath,
        identity: FileIdentity,
        target: Target,
    ) -> Self {
        // dCache redirects reads only: the first read begins at the door again.
        let is_redirected = Target::new(&identity.origin, &path) != target;
        let server = (0..client.count()).find(|at| *client.server(*at) == identity.origin).unwrap_or_default();
        let target = Mutex::new(is_redirected.then_some(KnownTarget { target, server }));
        Self { shared: Arc::new(Shared { client, turns, path, identity, opened_at: server, target }) }
    }
}

impl OriginFile for HttpFile {
    fn identity(&self) -> FileIdentity {
        self.shared.identity.clone()
    }

    fn verifies_pages(&self) -> bool {
        false
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        ranges.iter().map(|range| RangeRead::start(Arc::clone(&self.shared), *range)).collect()
    }
}
