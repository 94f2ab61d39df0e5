//! A file open at an HTTP server.

mod gathering;
mod joined_read;
mod read;
mod shared;

use crate::{exchange::Client, options::BEGUN_TIME, target::Target};
use forebay_origin::{Chunks, FileIdentity, OriginFile, OriginPath};
use forebay_types::ByteRange;
use gathering::Gathering;
use parking_lot::Mutex;
use read::RangeRead;
pub(crate) use shared::Begun;
use shared::{KnownTarget, Shared};
use std::sync::Arc;
use tokio::{sync::Semaphore, time::sleep};

/// A file and what its server said about it at the open.
pub(crate) struct HttpFile {
    shared: Arc<Shared>,
    gathering: Arc<Gathering>,
    begun: Arc<Mutex<Option<Begun>>>,
}

impl HttpFile {
    pub(crate) fn new(
        client: Arc<Client>,
        turns: Arc<Semaphore>,
        path: OriginPath,
        identity: FileIdentity,
        target: Target,
        begun: Option<Begun>,
    ) -> Self {
        // dCache redirects reads only: the first read begins at the door again.
        let is_redirected = Target::new(&identity.origin, &path) != target;
        let server = (0..client.count()).find(|at| *client.server(*at) == identity.origin).unwrap_or_default();
        let target = Mutex::new(is_redirected.then_some(KnownTarget { target, server }));
        let shared = Arc::new(Shared { client, turns, path, identity, opened_at: server, target });
        let is_begun = begun.is_some();
        let begun = Arc::new(Mutex::new(begun));
        if is_begun {
            tokio::spawn(end_in_time(Arc::clone(&begun)));
        }
        Self { shared, gathering: Arc::default(), begun }
    }

    /// Begins to read `range`.
    fn start(&self, range: ByteRange) -> Chunks {
        // Kept for a reader that asks for other bytes first: the end of a ROOT file is parsed while its client reads the beginning.
        let begun = self.begun.lock().take_if(|begun| begun.range.start() == range.start());
        let Some(begun) = begun else {
            let (read, chunks) = RangeRead::new(Arc::clone(&self.shared), range);
            if read.can_be_joined() {
                self.gathering.add(read);
            } else {
                read.start();
            }
            return chunks;
        };
        let (here, rest) = (range.clipped_to(begun.range.end()), begun.range.end()..range.end());
        let (read, chunks) = RangeRead::new(Arc::clone(&self.shared), here);
        read.with(begun).start();
        if rest.is_empty() {
            return chunks;
        }
        // Requested now, and not when the first part is here.
        chunks.followed_by(here.len(), self.start(ByteRange::between(rest.start, rest.end)))
    }
}

/// Gives up the bytes that came with an open if no reader asks for them: they hold a connection.
async fn end_in_time(begun: Arc<Mutex<Option<Begun>>>) {
    sleep(BEGUN_TIME).await;
    let begun = begun.lock().take();
    if let Some(begun) = begun {
        begun.answer.body.finish().await;
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
        ranges.iter().map(|range| self.start(*range)).collect()
    }
}
