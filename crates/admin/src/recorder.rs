//! Records the history of the server, and keeps it across restarts in a file.

use forebay_front::Backend;
use forebay_telemetry::{
    FileResult, HISTORY_LEN_MAX, History, HistoryError, HistoryValues, Metrics, Point, Range, SERIES_COUNT, Series,
};
use forebay_types::{Outcome, PurgeReason, Side};
use parking_lot::Mutex;
use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::MissedTickBehavior};

/// Time between samples: the step of the finest range.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(Range::Hour.step_s());

/// Samples between two writes of the file: a crash loses so many.
const SAMPLES_PER_SAVE: u32 = 60;

/// The history of a server. Cheap to clone; clones are one.
#[derive(Clone, Debug)]
pub struct Recorder {
    history: Arc<Mutex<History>>,
    newest: watch::Sender<Option<Point>>,
    /// `None` if nothing is kept on disk.
    path: Option<PathBuf>,
}

/// Counters at the last sample.
#[derive(Clone, Copy)]
struct Counters([u64; COUNTERS.len()]);

/// The series that are rates of counters.
const COUNTERS: [Series; 7] = [
    Series::ClientBytes,
    Series::HitBytes,
    Series::OriginBytes,
    Series::Files,
    Series::FileHits,
    Series::Errors,
    Series::PurgedBytes,
];

impl Recorder {
    /// Continues the history in the file at `path`. A damaged one is moved aside, reported, and begun again. Blocks.
    #[must_use]
    pub fn load(path: Option<PathBuf>) -> Self {
        let history = path.as_deref().map(read).unwrap_or_default();
        Self { history: Arc::new(Mutex::new(history)), newest: watch::Sender::new(None), path }
    }

    /// Takes samples until the future is dropped.
    pub async fn run(&self, backend: Backend) {
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut before, mut sampled) = (None, forebay_net::clock::monotonic());
        for count in 1_u32.. {
            ticks.tick().await;
            let (now, counters) = (forebay_net::clock::monotonic(), Counters::read(backend.metrics()));
            // Rates need two samples.
            if let Some(before) = before {
                let seconds = now.saturating_duration_since(sampled).as_secs_f32().max(f32::MIN_POSITIVE);
                let at = u64::try_from(forebay_net::clock::now_unix()).unwrap_or(0);
                let values = values(&backend, &before, &counters, seconds);
                self.history.lock().add(at, values);
                self.newest.send_replace(Some(Point { at, samples: 1, values }));
            }
            (before, sampled) = (Some(counters), now);
            if count.is_multiple_of(SAMPLES_PER_SAVE) {
                let recorder = self.clone();
                // A slow disk must not delay the samples.
                drop(tokio::task::spawn_blocking(move || recorder.save()));
            }
        }
    }

    /// Writes the file. Blocks.
    pub fn save(&self) {
        let Some(path) = &self.path else { return };
        let bytes = self.history.lock().encode();
        if let Err(error) = write(path, &bytes) {
            tracing::warn!(path = %path.display(), %error, "cannot write the history; it is kept in memory");
        }
    }

    /// The points of a range, oldest first.
    pub(crate) fn points(&self, range: Range) -> Vec<Point> {
        let now = u64::try_from(forebay_net::clock::now_unix()).unwrap_or(0);
        self.history.lock().points(range, now).copied().collect()
    }

    /// Yields each new sample.
    pub(crate) fn follow(&self) -> watch::Receiver<Option<Point>> {
        self.newest.subscribe()
    }
}

impl Counters {
    fn read(metrics: &Metrics) -> Self {
        let files = |results: &[FileResult]| results.iter().map(|result| metrics.files_read(*result)).sum();
        Self(COUNTERS.map(|series| match series {
            Series::ClientBytes => Outcome::ALL.map(|outcome| metrics.client_bytes(outcome)).iter().sum(),
            Series::HitBytes => metrics.client_bytes(Outcome::Hit),
            Series::OriginBytes => metrics.origin_bytes(),
            Series::Files => files(&[FileResult::Hit, FileResult::Partial, FileResult::Missed]),
            Series::FileHits => files(&[FileResult::Hit]),
            Series::Errors => Side::ALL.map(|side| metrics.client_errors(side)).iter().sum(),
            _ => PurgeReason::ALL.map(|reason| metrics.purged_bytes(reason)).iter().sum(),
        }))
    }

    fn rate(&self, before: &Self, series: Series, seconds: f32) -> Option<f32> {
        let position = COUNTERS.iter().position(|it| *it == series)?;
        let (now, before) = (self.0.get(position)?, before.0.get(position)?);
        Some(float(now.saturating_sub(*before)) / seconds)
    }
}

fn values(backend: &Backend, before: &Counters, now: &Counters, seconds: f32) -> HistoryValues {
    let metrics = backend.metrics();
    let mut values = [0.0; SERIES_COUNT];
    for (value, series) in values.iter_mut().zip(Series::ALL) {
        *value = now.rate(before, series, seconds).unwrap_or_else(|| match series {
            Series::UsedBytes => float(metrics.cache_used_bytes()),
            Series::EvictionAge => metrics.eviction_age().map_or(0.0, |age| age.as_secs_f32()),
            Series::OpenFiles => float(metrics.open_handles()),
            Series::Connections => float(metrics.connections()),
            Series::MemoryBytes => float(metrics.budget().1),
            _ => 0.0,
        });
    }
    values
}

#[expect(clippy::cast_precision_loss, reason = "charts show a few digits")]
const fn float(value: u64) -> f32 {
    value as f32
}

fn read(path: &Path) -> History {
    let mut bytes = Vec::new();
    let limit = HISTORY_LEN_MAX as u64 + 1;
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => History::decode(&bytes).unwrap_or_else(|error| begin_again(path, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => History::default(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the history; it begins again");
            History::default()
        }
    }
}

fn begin_again(path: &Path, error: HistoryError) -> History {
    let aside = path.with_extension("damaged");
    tracing::warn!(path = %path.display(), %error, aside = %aside.display(), "the history is unusable; it is moved aside and begins again");
    if let Err(error) = fs::rename(path, &aside) {
        tracing::warn!(path = %path.display(), %error, "cannot move the damaged history aside");
    }
    History::default()
}

/// Writes a file such that a crash leaves the old or the new content.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_survives_a_restart_and_a_damaged_one_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history");
        let recorder = Recorder::load(Some(path.clone()));
        let now = u64::try_from(forebay_net::clock::now_unix()).unwrap();
        recorder.history.lock().add(now, [3.0; SERIES_COUNT]);
        recorder.save();
        let again = Recorder::load(Some(path.clone()));
        assert_eq!(again.points(Range::Day), recorder.points(Range::Day));
        assert_eq!(again.points(Range::Day).len(), 1);

        let mut bytes = fs::read(&path).unwrap();
        bytes[20] ^= 1;
        fs::write(&path, bytes).unwrap();
        let begun = Recorder::load(Some(path.clone()));
        assert_eq!(begun.points(Range::Day), []);
        assert!(!path.exists() && path.with_extension("damaged").exists());
        begun.save();
        assert!(path.exists());
    }

    #[test]
    fn rates_are_differences_of_counters_per_second() {
        let metrics = Metrics::new();
        let handle = metrics.open_handle();
        let before = Counters::read(&metrics);
        handle.account(Outcome::Hit, 500);
        handle.account(Outcome::Missed, 250);
        let now = Counters::read(&metrics);
        assert_eq!(now.rate(&before, Series::ClientBytes, 5.0), Some(150.0));
        assert_eq!(now.rate(&before, Series::HitBytes, 5.0), Some(100.0));
        assert_eq!(now.rate(&before, Series::OpenFiles, 5.0), None);
    }
}
