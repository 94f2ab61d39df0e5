//! Follows which files are read, for the LRU curve of the cache.

use forebay_sizing::{REUSE_FILES_MAX, Reuse, ReuseCurve, Use};
use forebay_telemetry::{CloseEvent, FileEvents, OpenPurpose};
use forebay_types::Outcome;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval};

/// Accesses that wait for the curve at most; further ones are not counted.
pub const POPULARITY_WAITING_MAX: usize = 16_384;

/// How often accesses are added to the curve.
const EVERY: Duration = Duration::from_secs(1);

/// An observer of closes. Cheap to clone; clones are one.
///
/// A close only appends to a list; [`Self::run`] adds the list to the curve, away from the requests.
#[derive(Clone)]
pub struct Popularity(Arc<Inner>);

struct Inner {
    /// The start, on the monotonic clock and in seconds of the Unix epoch.
    start: (Instant, i64),
    waiting: Mutex<Vec<Note>>,
    curve: Mutex<ReuseCurve>,
    lost: AtomicU64,
}

struct Note {
    path: String,
    size: u64,
    read: u64,
    at: Instant,
}

impl Popularity {
    /// Begins to follow reads; `start` is this moment on the monotonic clock and in seconds of the Unix epoch.
    #[must_use]
    pub fn new(start: (Instant, i64)) -> Self {
        let curve = Mutex::new(ReuseCurve::new(REUSE_FILES_MAX, start.1));
        Self(Arc::new(Inner { start, waiting: Mutex::default(), curve, lost: AtomicU64::new(0) }))
    }

    /// Adds accesses to the curve every second, until it is dropped.
    pub async fn run(self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.0.waiting.lock().is_empty() {
                let popularity = self.clone();
                // Thousands of accesses take milliseconds.
                let _ = tokio::task::spawn_blocking(move || popularity.catch_up()).await;
            }
        }
    }

    /// The curve at `now`, in seconds of the Unix epoch, and the number of accesses that it does not have. Takes milliseconds.
    pub(crate) fn report(&self, now: i64) -> (Reuse, u64) {
        self.catch_up();
        (self.0.curve.lock().report(now), self.0.lost.load(Relaxed))
    }

    fn catch_up(&self) {
        // Under this lock the order of accesses is kept.
        let mut curve = self.0.curve.lock();
        let notes = std::mem::take(&mut *self.0.waiting.lock());
        for note in notes {
            let since = note.at.saturating_duration_since(self.0.start.0).as_secs();
            let at = self.0.start.1.saturating_add_unsigned(since);
            curve.add(&Use { path: &note.path, size: note.size, read: note.read, at });
        }
    }
}

impl FileEvents for Popularity {
    fn closed(&self, event: &CloseEvent<'_>) {
        let read = Outcome::ALL.map(|outcome| event.account.bytes(outcome)).iter().sum();
        // A file of a local export is not cached, and one that was not read needs no room.
        if event.origin.is_none() || event.purpose != OpenPurpose::Read || read == 0 {
            return;
        }
        let note = Note { path: event.lfn.as_str().to_owned(), size: event.size, read, at: event.at };
        let mut waiting = self.0.waiting.lock();
        if waiting.len() < POPULARITY_WAITING_MAX {
            waiting.push(note);
        } else {
            self.0.lost.fetch_add(1, Relaxed);
        }
    }
}

impl fmt::Debug for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Popularity").finish_non_exhaustive()
    }
}
