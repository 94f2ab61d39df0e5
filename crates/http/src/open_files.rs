//! The files that a connection keeps open between its requests.

use forebay_engine::Handle;
use forebay_front::HandlePlace;
use forebay_http_proto::etag_of;
use std::time::{Duration, Instant};

/// The files that a connection keeps open between its requests: each range would otherwise be an open of its own.
#[derive(Default)]
pub(crate) struct OpenFiles {
    /// The one that was used last is at the end.
    files: Vec<OpenFile>,
}

/// An open file, as one request has found it.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) handle: Handle,
    pub(crate) etag: Option<String>,
    /// Time of its change at its origin, if that has one.
    pub(crate) mtime: Option<i64>,
}

struct OpenFile {
    key: Key,
    file: File,
    /// The permission and the freshness that the open has found count until then.
    valid_until: Instant,
    _place: HandlePlace,
}

/// The parts of a request that name a file and its client.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Key {
    /// As it was sent, with tokens in its query.
    pub(crate) target: String,
    /// The value of `Authorization`.
    pub(crate) authorization: Option<String>,
}

/// Most files that a connection keeps open.
const FILES_MAX: usize = 8;

/// How long an open counts: a change at the origin, or the end of a permission, shows in a new one.
pub(crate) const KEPT_TIME_MAX: Duration = Duration::from_secs(5);

impl OpenFiles {
    /// The open file of a request.
    pub(crate) fn find(&mut self, target: &str, authorization: Option<&str>, now: Instant) -> Option<File> {
        let is_it = |open: &OpenFile| open.key.target == target && open.key.authorization.as_deref() == authorization;
        let place = self.files.iter().rposition(is_it)?;
        if self.files.get(place)?.valid_until <= now {
            self.files.remove(place);
            return None;
        }
        let last = self.files.len() - 1;
        self.files.swap(place, last);
        self.files.last().map(|open| open.file.clone())
    }

    /// Keeps a file open that was opened at `now`, for `time_max` at most. The one that was not used for the longest time is closed for it.
    pub(crate) fn keep(&mut self, key: Key, file: File, place: HandlePlace, now: Instant, time_max: Duration) {
        if self.files.len() >= FILES_MAX {
            self.files.remove(0);
        }
        self.files.push(OpenFile { key, file, valid_until: now + time_max.min(KEPT_TIME_MAX), _place: place });
    }

    /// Closes the files whose time has ended.
    pub(crate) fn close_old(&mut self, now: Instant) {
        self.files.retain(|open| open.valid_until > now);
        if self.files.is_empty() {
            self.files = Vec::new();
        }
    }

    /// The time at which the next file is to be closed.
    pub(crate) fn next_close(&self) -> Option<Instant> {
        self.files.iter().map(|open| open.valid_until).min()
    }
}

impl File {
    pub(crate) fn of(handle: Handle) -> Self {
        let stat = handle.stat();
        let validator = stat.validator();
        Self { etag: etag_of(stat.size, &validator), mtime: validator.mtime(), handle }
    }
}
