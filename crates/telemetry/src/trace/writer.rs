//! The thread that writes a trace.

use super::{Batch, Clock, Message, TraceOptions};
use crate::Metrics;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

/// Permissions of the files: who reads what is nobody else's business.
const FILE_MODE: u32 = 0o640;

/// Time after which a directory that could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What names of files begin and end with; between them are the time of their beginning and a number.
const NAME: (&str, &str) = ("trace-", ".jsonl");

/// Writes batches into files.
pub(super) struct Writer {
    options: TraceOptions,
    clock: Clock,
    metrics: Metrics,
    current: Option<Current>,
    /// Files begun so far.
    begun: u64,
    /// When writing has failed last, while it does.
    failed: Option<Instant>,
}

/// The file being written.
struct Current {
    file: File,
    len: u64,
}

impl Writer {
    pub(super) const fn new(options: TraceOptions, clock: Clock, metrics: Metrics) -> Self {
        Self { options, clock, metrics, current: None, begun: 0, failed: None }
    }

    /// Writes until nobody sends any more.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            match message {
                Message::Lines(batch) => self.take(&batch),
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// Writes a batch, or drops it.
    pub(super) fn take(&mut self, batch: &Batch) {
        let is_resting = self.failed.is_some_and(|failed| batch.at.saturating_duration_since(failed) < RETRY_AFTER);
        let written = if is_resting { None } else { Some(self.write(batch)) };
        match written {
            None => self.metrics.add_trace_dropped(batch.count),
            Some(Ok(())) => {
                self.metrics.add_trace_written(batch.count);
                if self.failed.take().is_some() {
                    tracing::info!(directory = %self.options.directory.display(), "the trace is written again");
                }
            }
            Some(Err(error)) => {
                self.metrics.add_trace_dropped(batch.count);
                if self.failed.replace(batch.at).is_none() {
                    let directory = self.options.directory.display();
                    tracing::warn!(%directory, %error, "the trace cannot be written: it has a gap until it can");
                }
            }
        }
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let current = match self.current.take() {
            Some(current) => current,
            None => self.begin(batch.at)?,
        };
        let current = self.current.insert(current);
        if let Err(error) = current.file.write_all(&batch.lines) {
            // Half a line would hide the ones behind it.
            let _ = current.file.set_len(current.len);
            self.current = None;
            return Err(error);
        }
        current.len = current.len.saturating_add(batch.lines.len() as u64);
        if current.len >= self.options.file_bytes {
            self.current = None;
        }
        Ok(())
    }

    /// Begins a file, and removes those that are too many.
    fn begin(&mut self, at: Instant) -> io::Result<Current> {
        let directory = &self.options.directory;
        fs::create_dir_all(directory)?;
        let mut old = traces(directory)?;
        let excess = old.len().saturating_add(1).saturating_sub(self.options.files_max);
        for path in old.drain(..excess.min(old.len())) {
            fs::remove_file(path)?;
        }
        let seconds = self.clock.micros(at).div_euclid(1_000_000);
        loop {
            self.begun = self.begun.saturating_add(1);
            let path = directory.join(format!("{}{seconds:012}-{:06}{}", NAME.0, self.begun, NAME.1));
            match OpenOptions::new().create_new(true).append(true).mode(FILE_MODE).open(&path) {
                Ok(file) => return Ok(Current { file, len: 0 }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Files of traces in a directory, the oldest first.
fn traces(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_trace = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(NAME.0) && name.ends_with(NAME.1)
    };
    let paths = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.retain(is_trace);
    paths.sort();
    Ok(paths)
}
