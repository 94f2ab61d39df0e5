//! The bytes of one file: sent to clients, received from its origin, written.

use forebay_telemetry::{FileBytes, FileUse};
use forebay_types::{OriginId, Outcome};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one file that many tasks add to, from its load to its release.
#[derive(Debug, Default)]
pub(crate) struct FileAccount {
    hit: AtomicU64,
    missed: AtomicU64,
    bypassed: AtomicU64,
    fetched: AtomicU64,
    prefetched: AtomicU64,
    written: AtomicU64,
    wasted: AtomicU64,
    damaged_blocks: AtomicU64,
    servers: Mutex<Vec<OriginId>>,
}

impl FileAccount {
    /// Bytes sent to a client.
    pub(crate) fn add(&self, outcome: Outcome, bytes: u64) {
        let counter = match outcome {
            Outcome::Hit => &self.hit,
            // XCache counts them so: the bytes came from the origin and were kept.
            Outcome::Missed | Outcome::Coalesced => &self.missed,
            Outcome::Bypassed => &self.bypassed,
        };
        counter.fetch_add(bytes, Relaxed);
    }

    /// Bytes received for a fill; `is_ahead` means that no reader had requested it.
    pub(crate) fn add_fetched(&self, bytes: u64, is_ahead: bool) {
        self.fetched.fetch_add(bytes, Relaxed);
        if is_ahead {
            self.prefetched.fetch_add(bytes, Relaxed);
        }
    }

    pub(crate) fn add_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_wasted(&self, bytes: u64) {
        self.wasted.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_damaged_blocks(&self, blocks: u64) {
        self.damaged_blocks.fetch_add(blocks, Relaxed);
    }

    /// Notes a server that sends bytes of the file.
    pub(crate) fn note_server(&self, server: &OriginId) {
        let mut servers = self.servers.lock();
        if servers.len() < FileUse::SERVERS_MAX && !servers.contains(server) {
            servers.push(server.clone());
        }
    }

    /// The servers noted since the last call of [`Self::forget_servers`].
    pub(crate) fn servers(&self) -> Vec<OriginId> {
        self.servers.lock().clone()
    }

    pub(crate) fn forget_servers(&self) {
        self.servers.lock().clear();
    }

    pub(crate) fn bytes(&self) -> FileBytes {
        FileBytes {
            hit: self.hit.load(Relaxed),
            missed: self.missed.load(Relaxed),
            bypassed: self.bypassed.load(Relaxed),
            fetched: self.fetched.load(Relaxed),
            prefetched: self.prefetched.load(Relaxed),
            written: self.written.load(Relaxed),
            wasted: self.wasted.load(Relaxed),
            damaged_blocks: self.damaged_blocks.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_bytes_count_as_missed_in_the_history() {
        let account = FileAccount::default();
        for (outcome, bytes) in Outcome::ALL.into_iter().zip(1..) {
            account.add(outcome, bytes);
        }
        assert_eq!(account.bytes(), FileBytes { hit: 1, missed: 2 + 3, bypassed: 4, ..FileBytes::default() });
    }

    #[test]
    fn a_server_is_noted_once_and_there_are_few() {
        let account = FileAccount::default();
        let server = |number: usize| format!("s{number}.example:1094").parse::<OriginId>().unwrap();
        for number in (0..FileUse::SERVERS_MAX + 2).chain(0..3) {
            account.note_server(&server(number));
        }
        assert_eq!(account.servers(), (0..FileUse::SERVERS_MAX).map(server).collect::<Vec<_>>());
        account.forget_servers();
        assert!(account.servers().is_empty());
    }
}
