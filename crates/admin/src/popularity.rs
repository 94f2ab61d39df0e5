//! Follows which files are read, for the LRU curve of the cache.

use crate::earlier_reads::read_records;
use forebay_cache::name_for_rules;
use forebay_sizing::{REUSE_DAYS, REUSE_FILES_MAX, Reuse, ReuseCurve, Use};
use forebay_telemetry::{CloseEvent, FileEvents, OpenPurpose};
use forebay_types::{Lfn, Outcome};
use parking_lot::Mutex;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval};

/// Accesses that wait for the curve at most; further ones are not counted.
pub const POPULARITY_WAITING_MAX: usize = 16_384;

const DAY_S: i64 = 86_400;

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
    /// The directory of the records of accesses, if the server writes any.
    records: Option<PathBuf>,
    /// Until these were read, accesses wait.
    is_behind: AtomicBool,
    waiting: Mutex<Vec<Note>>,
    curve: Mutex<ReuseCurve>,
    lost: AtomicU64,
}

struct Note {
    lfn: Lfn,
    size: u64,
    read: u64,
    at: Instant,
}

impl Popularity {
    /// Begins to follow reads; `start` is this moment on the monotonic clock and in seconds of the Unix epoch. The curve continues with
    /// the `records` of accesses in a directory, if there are any.
    #[must_use]
    pub fn new(start: (Instant, i64), records: Option<PathBuf>) -> Self {
        let curve = Mutex::new(ReuseCurve::new(REUSE_FILES_MAX, start.1));
        let is_behind = AtomicBool::new(records.is_some());
        let (waiting, lost) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { start, records, is_behind, waiting, curve, lost }))
    }

    /// Reads the records of the time before the start, then adds accesses to the curve every second, until it is dropped.
    pub async fn run(self) {
        if self.0.records.is_some() {
            let popularity = self.clone();
            let _ = tokio::task::spawn_blocking(move || popularity.take_up_records()).await;
        }
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

    /// Begins the curve with the accesses before the start.
    fn take_up_records(&self) {
        let Some(directory) = &self.0.records else { return };
        match self.curve_of(directory) {
            Ok(Some(curve)) => *self.0.curve.lock() = curve,
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "cannot read the records of accesses: the popularity of files begins again");
            }
        }
        self.0.is_behind.store(false, Relaxed);
    }

    /// The curve of the recorded accesses that it covers; `None` if there are none.
    fn curve_of(&self, directory: &Path) -> io::Result<Option<ReuseCurve>> {
        let accesses = read_records(directory)?;
        let end = self.0.start.1;
        let begin = end.saturating_sub(REUSE_DAYS as i64 * DAY_S);
        let mut curve = None;
        for access in accesses.list() {
            let at = access.at_ms.div_euclid(1000);
            let Some(file) = accesses.files().get(access.file as usize) else { continue };
            if (begin..=end).contains(&at) && access.read > 0 {
                let path = file.key.as_str();
                let curve = curve.get_or_insert_with(|| ReuseCurve::new(REUSE_FILES_MAX, at));
                curve.add(&Use { path, size: file.size, read: access.read, at });
            }
        }
        Ok(curve)
    }

    fn catch_up(&self) {
        if self.0.is_behind.load(Relaxed) {
            return;
        }
        // Under this lock the order of accesses is kept.
        let mut curve = self.0.curve.lock();
        let notes = std::mem::take(&mut *self.0.waiting.lock());
        for note in notes {
            let since = note.at.saturating_duration_since(self.0.start.0).as_secs();
            let at = self.0.start.1.saturating_add_unsigned(since);
            // As the keys of records.
            let Some(path) = name_for_rules(&note.lfn) else { continue };
            curve.add(&Use { path: path.as_str(), size: note.size, read: note.read, at });
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
        let note = Note { lfn: event.lfn.clone(), size: event.size, read, at: event.at };
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
