//! Where the filler is, and whether it answers.

use forebay_origin::BoxFuture;
use forebay_store::FillerRecord;
use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{Instant, sleep_until, timeout_at},
};

/// Connects to a server within a time limit and checks that it answers; `None` when it does not. Reading from the connection
/// ends when the server stops. The crate of the server's protocol provides it.
pub type Ping = fn(Endpoint, Duration) -> BoxFuture<'static, Option<TcpStream>>;

/// Knowledge of a manager about its filler.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FillerState {
    /// Its address, once it is known.
    pub endpoint: Option<Endpoint>,
    pub is_alive: bool,
    /// Its machine, by its record.
    pub node: Option<String>,
    /// Last renewal of its record, in seconds of the Unix epoch.
    pub renewed: Option<i64>,
}

/// The filler as a manager sees it.
pub(crate) struct Filler {
    /// Its address in the configuration.
    configured: Option<Endpoint>,
    state: Mutex<FillerState>,
}

/// How often it is asked whether it is there.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long it may take to answer. A machine with much work may stop a process for seconds; its clients would all read at the origin.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Least time between two questions: a server that hangs up at once is not to be asked without end.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

impl Filler {
    pub(crate) fn new(configured: Option<Endpoint>) -> Self {
        let state = FillerState { endpoint: configured.clone(), ..FillerState::default() };
        Self { configured, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> FillerState {
        self.state.lock().clone()
    }

    /// Where it is, if it answers.
    pub(crate) fn alive(&self) -> Option<Endpoint> {
        let state = self.state.lock();
        if state.is_alive { state.endpoint.clone() } else { None }
    }

    /// Takes note of the record in the store. It says where the filler is, unless the configuration does, as long as it is fresh.
    fn note_record(&self, record: Option<&FillerRecord>, now: i64) {
        let is_fresh = |record: &&FillerRecord| record.is_fresh(now.saturating_mul(1000));
        let told = record.filter(is_fresh).and_then(|record| record.url.strip_prefix("root://")?.parse().ok());
        let mut state = self.state.lock();
        state.node = record.map(|record| record.node.clone());
        state.renewed = record.map(|record| record.renewed_ms / 1000);
        let endpoint = self.configured.clone().or(told);
        if state.endpoint != endpoint {
            state.endpoint = endpoint;
            state.is_alive = false;
        }
    }

    fn note_answer(&self, endpoint: &Endpoint, is_alive: bool) {
        let mut state = self.state.lock();
        if state.endpoint.as_ref() != Some(endpoint) || state.is_alive == is_alive {
            return;
        }
        state.is_alive = is_alive;
        drop(state);
        if is_alive {
            tracing::info!(%endpoint, "the filler answers");
        } else {
            tracing::warn!(%endpoint, "the filler does not answer: clients are sent to the origin");
        }
    }
}

/// Watches the filler of the store in `roots` for ever.
pub(crate) async fn watch(filler: Arc<Filler>, roots: Vec<PathBuf>, ping: Ping) {
    tokio::join!(watch_record(&filler, roots), watch_answers(&filler, ping));
}

/// Reads the record by time. A file system that does not answer holds up this alone.
async fn watch_record(filler: &Filler, roots: Vec<PathBuf>) {
    let roots = Arc::new(roots);
    loop {
        let next = Instant::now() + INTERVAL;
        let roots = Arc::clone(&roots);
        let read = tokio::task::spawn_blocking(move || {
            let records = roots.iter().filter_map(|root| FillerRecord::read(root).ok().flatten());
            records.max_by_key(|record| record.renewed_ms)
        });
        let record = read.await.ok().flatten();
        filler.note_record(record.as_ref(), forebay_net::clock::now_unix());
        sleep_until(next).await;
    }
}

/// Pings the filler by time, and at once when it closes the connection.
pub(crate) async fn watch_answers(filler: &Filler, ping: Ping) {
    loop {
        let began = Instant::now();
        let endpoint = filler.state().endpoint;
        let stream = match &endpoint {
            Some(endpoint) => {
                let stream = ping(endpoint.clone(), ANSWER_TIME_MAX).await;
                filler.note_answer(endpoint, stream.is_some());
                stream
            }
            None => None,
        };
        match stream {
            Some(stream) => until_end_of(stream, began + INTERVAL).await,
            None if endpoint.is_some() => sleep_until(began + INTERVAL).await,
            // The record of a filler that starts later is seen soon.
            None => {}
        }
        sleep_until(began + INTERVAL_MIN).await;
    }
}

/// Waits until the server ends the connection, or for `deadline`.
async fn until_end_of(mut stream: TcpStream, deadline: Instant) {
    // Further bytes from it are of no interest; the next ping notices that it has ended.
    let _ = timeout_at(deadline, stream.read(&mut [0; 1])).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(url: &str, renewed_ms: i64) -> FillerRecord {
        FillerRecord { renewed_ms, ..FillerRecord::of_this_process(url.to_owned()) }
    }

    #[test]
    fn the_record_tells_where_the_filler_is_as_long_as_it_is_fresh() {
        let filler = Filler::new(None);
        let endpoint = Endpoint::new("h", 1094);
        filler.note_record(Some(&record("root://h:1094", 100_000)), 120);
        assert_eq!(filler.alive(), None, "it has not answered yet");
        filler.note_answer(&endpoint, true);
        assert_eq!(filler.alive(), Some(endpoint.clone()));
        filler.note_record(Some(&record("root://h:1094", 100_000)), 129);
        assert_eq!(filler.alive(), Some(endpoint.clone()));
        filler.note_record(Some(&record("root://h:1094", 100_000)), 130);
        assert_eq!((filler.alive(), filler.state().renewed), (None, Some(100)));
        filler.note_answer(&endpoint, true);
        assert_eq!(filler.alive(), None, "an answer to an old question");
        filler.note_record(Some(&record("root://h:1094", i64::MIN)), 130);
        assert_eq!(filler.state().endpoint, None, "times that no filler has written");
    }

    #[test]
    fn the_configuration_goes_before_the_record() {
        let there = Endpoint::new("there", 1);
        let filler = Filler::new(Some(there.clone()));
        filler.note_answer(&there, true);
        filler.note_record(Some(&record("root://h:1094", 0)), 1_000);
        assert_eq!(filler.alive(), Some(there.clone()));
        filler.note_answer(&there, false);
        assert_eq!(filler.alive(), None);
    }
}
