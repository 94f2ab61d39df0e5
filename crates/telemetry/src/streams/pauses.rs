//! Files of HTTP clients between two opens. A connection opens a file again for later ranges; in the accounting these opens are one.

use super::{intervals::is_due, reads::Reads};
use crate::{FileUse, file_events::Client};
use forebay_monitoring::Transferred;
use std::collections::{HashMap, VecDeque};

/// Seconds after a close in which an open of the same file on the same connection continues its record. The HTTP front closes a file
/// that is not used for five seconds, and earlier if the connection has used eight others since.
const PAUSE_S: i64 = 10;

/// Files that wait at most; further ones end without a wait. 10,000 closes per second come for the length of a pause.
const PAUSES_MAX: usize = 100_000;

/// A connection and a file of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Key {
    session: u64,
    lfn: String,
}

/// A file that was closed, and may be opened again.
#[derive(Debug)]
pub(super) struct Pause {
    /// Number of the file.
    pub(super) id: u32,
    pub(super) key: Key,
    pub(super) size: u64,
    pub(super) reads: Reads,
    pub(super) reported: Transferred,
    /// When it was closed.
    pub(super) at: i64,
    /// Its use, if a close was the last one of all clients.
    pub(super) used: Option<FileUse>,
}

/// All such files, the one that was closed first at the front.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    files: HashMap<Key, Pause>,
    /// With entries of files that were opened again.
    order: VecDeque<(i64, Key)>,
}

impl Key {
    /// `None` of clients whose opens are records of their own.
    pub(super) fn of(client: &Client, lfn: &str) -> Option<Self> {
        client.protocol.is_http().then(|| Self { session: client.session, lfn: lfn.to_owned() })
    }

    pub(super) const fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn lfn(&self) -> &str {
        &self.lfn
    }
}

impl Pauses {
    /// Returns the file if it has to end at once: there are too many.
    pub(super) fn begin(&mut self, pause: Pause) -> Option<Pause> {
        if self.order.len() >= PAUSES_MAX {
            return Some(pause);
        }
        self.order.push_back((pause.at, pause.key.clone()));
        // A second open of the file on the connection, at the same time as the first.
        self.files.insert(pause.key.clone(), pause)
    }

    /// The file, if it is opened in time.
    pub(super) fn end(&mut self, key: &Key) -> Option<Pause> {
        self.files.remove(key)
    }

    /// The next file that was not opened again until `now`.
    pub(super) fn poll_ended(&mut self, now: i64) -> Option<Pause> {
        while self.order.front().is_some_and(|(at, _)| is_due(*at, PAUSE_S, now)) {
            let (at, key) = self.order.pop_front()?;
            if self.files.get(&key).is_some_and(|pause| pause.at == at) {
                return self.files.remove(&key);
            }
        }
        None
    }

    /// All files: the server stops.
    pub(super) fn take_all(&mut self) -> Vec<Pause> {
        self.order.clear();
        self.files.drain().map(|(_, pause)| pause).collect()
    }
}

/// The use of a file in two periods. `earlier` is `None` in the first.
pub(super) fn joined(earlier: Option<FileUse>, later: Option<FileUse>) -> Option<FileUse> {
    let (mut earlier, later) = match (earlier, later) {
        (Some(earlier), Some(later)) => (earlier, later),
        (earlier, later) => return earlier.or(later),
    };
    for server in later.servers {
        if !earlier.servers.contains(&server) && earlier.servers.len() < FileUse::SERVERS_MAX {
            earlier.servers.push(server);
        }
    }
    let (attached, last_use, servers) = (earlier.attached, earlier.last_use, earlier.servers);
    Some(FileUse { attached, last_use, servers, bytes: earlier.bytes.with(&later.bytes), ..later })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(lfn: &str, id: u32, at: i64) -> Pause {
        let key = Key { session: 1, lfn: lfn.to_owned() };
        Pause { id, key, size: 1, reads: Reads::default(), reported: Transferred::default(), at, used: None }
    }

    #[test]
    fn files_end_that_are_not_opened_again() {
        let mut pauses = Pauses::default();
        for (lfn, id) in [("/a", 1), ("/b", 2)] {
            assert!(pauses.begin(pause(lfn, id, 100)).is_none());
        }
        assert_eq!(pauses.end(&pause("/a", 1, 0).key).map(|pause| pause.id), Some(1));
        assert!(pauses.begin(pause("/a", 1, 105)).is_none());
        assert!(pauses.poll_ended(109).is_none());
        assert_eq!(pauses.poll_ended(110).map(|pause| pause.id), Some(2));
        assert!(pauses.poll_ended(114).is_none(), "the one that was opened again waits from its last close on");
        assert_eq!(pauses.poll_ended(115).map(|pause| pause.id), Some(1));
        assert!(pauses.begin(pause("/c", 3, 120)).is_none());
        assert_eq!(pauses.take_all().len(), 1);
        assert!(pauses.poll_ended(1000).is_none());
    }

    #[test]
    fn the_number_of_files_is_limited() {
        let mut pauses = Pauses::default();
        for id in 0..u32::try_from(PAUSES_MAX).unwrap() {
            assert!(pauses.begin(pause(&id.to_string(), id, 100)).is_none());
        }
        assert_eq!(pauses.begin(pause("/x", 7, 100)).map(|pause| pause.id), Some(7));
    }

    #[test]
    fn the_use_in_two_periods_is_one() {
        let part = |attached, hit, servers: &[&str]| {
            let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
            let bytes = crate::FileBytes { hit, ..Default::default() };
            Some(FileUse { attached, bytes, servers, ..FileUse::default() })
        };
        let both = joined(part(5, 10, &["a:1", "b:1"]), part(9, 7, &["b:1", "c:1"]));
        assert_eq!(both, part(5, 17, &["a:1", "b:1", "c:1"]));
        assert_eq!(joined(None, part(9, 7, &[])), part(9, 7, &[]));
        assert_eq!(joined(part(9, 7, &[]), None), part(9, 7, &[]));
    }
}
