//! The thread that writes a trace.

use super::{Batch, Clock, Message, TraceOptions, line::Line};
use crate::Metrics;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::mpsc::Receiver,
    thread,
    time::{Duration, Instant},
};

/// Permissions of the files: they name users and the files that these read.
const FILE_MODE: u32 = 0o640;

/// Bytes of lines that are collected before a write.
const WRITE_LEN: usize = 16 << 10;

/// The thread's rest after it has written everything, unless many batches arrive. While it rests, a request that hands over a
/// batch does not wake it: waking a thread costs more than everything else a trace does in a request.
const REST: Duration = Duration::from_millis(20);

/// Time after which a write to a failed directory is retried.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Prefix and suffix of file names; between them are the time of the first line and a number.
const NAME: (&str, &str) = ("trace-", ".jsonl");

/// Writes lines to files.
pub(super) struct Writer {
    options: TraceOptions,
    clock: Clock,
    metrics: Metrics,
    gathered: Option<Lines>,
    current: Option<Current>,
    /// Files begun so far.
    begun: u64,
    /// Time of the last failed write; `None` while writing works.
    failed: Option<Instant>,
}

/// Lines that are written together. `at` is when the first of them was handed over.
pub(super) struct Lines {
    pub(super) text: Vec<u8>,
    pub(super) count: u64,
    pub(super) at: Instant,
}

/// The file being written.
struct Current {
    file: File,
    len: u64,
}

impl Writer {
    pub(super) const fn new(options: TraceOptions, clock: Clock, metrics: Metrics) -> Self {
        Self { options, clock, metrics, gathered: None, current: None, begun: 0, failed: None }
    }

    /// Writes until all senders are gone.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            self.follow(message);
            while let Ok(message) = messages.try_recv() {
                self.follow(message);
            }
            self.put_gathered();
            thread::park_timeout(REST);
        }
    }

    fn follow(&mut self, message: Message) {
        match message {
            Message::Events(batch) => self.gather(&batch),
            Message::Flush(done) => {
                self.put_gathered();
                let _ = done.send(());
            }
        }
    }

    /// Formats the lines of a batch.
    fn gather(&mut self, batch: &Batch) {
        let new = || Lines { text: Vec::with_capacity(WRITE_LEN), count: 0, at: batch.at };
        let lines = self.gathered.get_or_insert_with(new);
        for event in &batch.events {
            Line::new(&mut lines.text, batch.number, self.clock.micros(event.at())).write(event);
        }
        lines.count += batch.events.len() as u64;
        if lines.text.len() >= WRITE_LEN {
            self.put_gathered();
        }
    }

    fn put_gathered(&mut self) {
        if let Some(lines) = self.gathered.take() {
            self.put(&lines);
        }
    }

    /// Writes lines, or drops them.
    pub(super) fn put(&mut self, lines: &Lines) {
        let is_resting = self.failed.is_some_and(|failed| lines.at.saturating_duration_since(failed) < RETRY_AFTER);
        let written = if is_resting { None } else { Some(self.write(lines)) };
        match written {
            None => self.metrics.add_trace_dropped(lines.count),
            Some(Ok(())) => {
                self.metrics.add_trace_written(lines.count);
                if self.failed.take().is_some() {
                    tracing::info!(directory = %self.options.directory.display(), "the trace is written again");
                }
            }
            Some(Err(error)) => {
                self.metrics.add_trace_dropped(lines.count);
                if self.failed.replace(lines.at).is_none() {
                    let directory = self.options.directory.display();
                    tracing::warn!(%directory, %error, "the trace cannot be written: it has a gap until it can");
                }
            }
        }
    }

    fn write(&mut self, lines: &Lines) -> io::Result<()> {
        let current = match self.current.take() {
            Some(current) => current,
            None => self.begin(lines.at)?,
        };
        let current = self.current.insert(current);
        if let Err(error) = current.file.write_all(&lines.text) {
            // The lines after an incomplete one could not be parsed.
            let _ = current.file.set_len(current.len);
            self.current = None;
            return Err(error);
        }
        current.len = current.len.saturating_add(lines.text.len() as u64);
        if current.len >= self.options.file_bytes {
            self.current = None;
        }
        Ok(())
    }

    /// Begins a file, and removes the oldest ones beyond `files_max`.
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
