//! The output to files: rotated by size and age, the oldest ones removed.

use crate::{
    lines::{Inbox, Lines, Message},
    options::FileOptions,
};
use forebay_telemetry::{Metrics, RecordOutput};
use forebay_types::date_of_day;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, UNIX_EPOCH},
};

/// Permissions of the files: they name users and the files that these read.
const FILE_MODE: u32 = 0o640;

/// Prefix and suffix of file names; between them are the time of the first line and a number.
const NAME: (&str, &str) = ("records-", ".jsonl");

/// The thread looks at the clock at least this often.
const TICK: Duration = Duration::from_secs(1);

/// Seconds after which a write to a failed directory is retried.
const RETRY_AFTER_S: i64 = 5;

/// Seconds between two searches for files that are too old.
const EXPIRY_INTERVAL_S: i64 = 600;

/// Writes lines to files. The time is passed in, in seconds of the Unix epoch.
pub(crate) struct FileWriter {
    options: FileOptions,
    metrics: Metrics,
    current: Option<Current>,
    /// Files begun so far.
    begun: u64,
    /// Time of the last failed write; `None` while writing works.
    failed: Option<i64>,
    expired: i64,
}

/// The file being written.
struct Current {
    file: File,
    path: PathBuf,
    len: u64,
    begun: i64,
}

/// A file on disk.
struct Found {
    path: PathBuf,
    len: u64,
    /// Seconds of the Unix epoch.
    written: i64,
}

impl FileWriter {
    pub(crate) const fn new(options: FileOptions, metrics: Metrics) -> Self {
        Self { options, metrics, current: None, begun: 0, failed: None, expired: 0 }
    }

    /// Writes until all senders are gone. `clock` returns the microseconds of the Unix epoch.
    pub(crate) fn run(mut self, inbox: &Inbox, clock: fn() -> i64) {
        loop {
            let message = inbox.recv_timeout(TICK);
            let now = clock().div_euclid(1_000_000);
            match message {
                Ok(Message::Lines(lines)) => self.put(&lines, now),
                // All lines before it are written; the drop is the answer.
                Ok(Message::Flush(done)) => drop(done),
                Err(RecvTimeoutError::Timeout) => self.handle_time(now),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Ends a file that is old enough, and removes files that are too old.
    pub(crate) fn handle_time(&mut self, now: i64) {
        if self.current.as_ref().is_some_and(|current| self.is_old(current, now)) {
            self.current = None;
        }
        if !is_within(self.expired, EXPIRY_INTERVAL_S, now) {
            self.expired = now;
            // The next look tries again.
            if let Err(error) = self.remove_surplus(now) {
                tracing::debug!(directory = %self.options.directory.display(), %error, "cannot look for old files of records");
            }
        }
    }

    /// Writes lines, or drops them.
    pub(crate) fn put(&mut self, lines: &Lines, now: i64) {
        let is_resting = self.failed.is_some_and(|failed| is_within(failed, RETRY_AFTER_S, now));
        if is_resting {
            return self.metrics.add_records_dropped(RecordOutput::File, lines.count);
        }
        let written = self.write(lines, now);
        let directory = self.options.directory.display();
        match written {
            Ok(()) => {
                self.metrics.add_records_sent(RecordOutput::File, lines.count);
                if self.failed.take().is_some() {
                    tracing::info!(%directory, "records are written again");
                }
            }
            Err(error) => {
                self.metrics.add_records_dropped(RecordOutput::File, lines.count);
                if self.failed.is_none() {
                    tracing::warn!(%directory, %error, "records cannot be written: they have a gap until they can");
                }
                self.failed = Some(now);
            }
        }
    }

    /// Whether a file is to end. One that was begun later than `now` is: the clock was set back.
    fn is_old(&self, current: &Current, now: i64) -> bool {
        now < current.begun || is_due(current.begun, self.options.file_age, now)
    }

    fn write(&mut self, lines: &Lines, now: i64) -> io::Result<()> {
        let current = match self.current.take() {
            Some(current) if !self.is_old(&current, now) => current,
            _ => self.begin(now)?,
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

    /// Begins a file, and makes room for it.
    fn begin(&mut self, now: i64) -> io::Result<Current> {
        fs::create_dir_all(&self.options.directory)?;
        self.remove_surplus(now)?;
        loop {
            self.begun = self.begun.saturating_add(1);
            let name = format!("{}{}-{:06}{}", NAME.0, date_and_time(now), self.begun, NAME.1);
            let path = self.options.directory.join(name);
            match OpenOptions::new().create_new(true).append(true).mode(FILE_MODE).open(&path) {
                Ok(file) => return Ok(Current { file, path, len: 0, begun: now }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes files that are too old, then the oldest ones until a file of full size fits the total.
    fn remove_surplus(&self, now: i64) -> io::Result<()> {
        let mut files = self.files()?;
        files.retain(|file| self.current.as_ref().is_none_or(|current| current.path != file.path));
        let mut total = files.iter().fold(self.options.file_bytes, |sum, file| sum.saturating_add(file.len));
        for file in files {
            let is_expired = self.options.age_max.is_some_and(|age| is_due(file.written, age, now));
            if !is_expired && total <= self.options.total_bytes {
                continue;
            }
            match fs::remove_file(&file.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            total = total.saturating_sub(file.len);
        }
        Ok(())
    }

    /// The files in the directory, the oldest first. One that vanishes meanwhile is left out.
    fn files(&self) -> io::Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.options.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !(name.starts_with(NAME.0) && name.ends_with(NAME.1)) {
                continue;
            }
            let Ok(metadata) = path.metadata() else { continue };
            let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let written = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            files.push(Found { path, len: metadata.len(), written });
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }
}

fn is_due(since: i64, age: Duration, now: i64) -> bool {
    u64::try_from(now.saturating_sub(since)).is_ok_and(|seconds| seconds >= age.as_secs())
}

/// Whether less than `seconds` have passed; not if the clock was set back.
fn is_within(since: i64, seconds: i64, now: i64) -> bool {
    (0..seconds).contains(&now.saturating_sub(since))
}

/// A time as `20261121T210500Z`: names in the order of the alphabet are in that of time.
fn date_and_time(unix: i64) -> String {
    let (day, seconds) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = date_of_day(day);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    const NOW: i64 = 1_795_603_500;

    fn lines(text: &str) -> Lines {
        Lines { text: text.as_bytes().to_vec(), count: text.lines().count() as u64 }
    }

    fn writer(directory: &Path, change: impl FnOnce(&mut FileOptions)) -> (FileWriter, Metrics) {
        let mut options = FileOptions { directory: directory.to_owned(), ..FileOptions::default() };
        change(&mut options);
        let metrics = Metrics::new();
        (FileWriter::new(options, metrics.clone()), metrics)
    }

    fn contents(directory: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files: Vec<_> = entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect();
        files.sort();
        files
    }

    #[test]
    fn a_new_file_begins_at_a_size_and_at_an_age() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("new/records");
        let (mut writer, metrics) = writer(&directory, |options| {
            options.file_bytes = 8;
            options.file_age = Duration::from_secs(60);
        });
        for (text, at) in [("1\n2\n", 0), ("3\n4\n", 1), ("5\n", 2), ("6\n", 61), ("7\n", 62)] {
            writer.put(&lines(text), NOW + at);
        }
        writer.handle_time(NOW + 121);
        assert!(writer.current.is_some(), "not old enough");
        writer.handle_time(NOW + 122);
        assert!(writer.current.is_none(), "ended without a line after it");
        writer.put(&lines("8\n"), NOW + 122);
        let text: Vec<_> = contents(&directory).into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, ["1\n2\n3\n4\n", "5\n6\n", "7\n", "8\n"]);
        let (first, _) = contents(&directory).remove(0);
        assert_eq!(first, "records-20261125T104500Z-000001.jsonl");
        let mode = fs::metadata(directory.join(first)).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "others cannot read it");
        assert_eq!((metrics.records_sent(RecordOutput::File), metrics.records_dropped(RecordOutput::File)), (8, 0));
    }

    #[test]
    fn the_oldest_files_make_room_and_others_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("other.jsonl"), "0123456789").unwrap();
        let (mut writer, _) = writer(root.path(), |options| {
            options.file_bytes = 4;
            options.total_bytes = 12;
        });
        for number in 0..5 {
            writer.put(&lines(&format!("{number}..\n")), NOW + number);
        }
        let text: Vec<_> = contents(root.path()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, ["0123456789", "2..\n", "3..\n", "4..\n"]);
    }

    #[test]
    fn files_are_removed_at_their_age() {
        let root = tempfile::tempdir().unwrap();
        let (mut writer, _) = writer(root.path(), |options| {
            options.file_bytes = 1;
            options.age_max = Some(Duration::from_secs(100));
        });
        writer.put(&lines("1\n"), NOW);
        writer.put(&lines("2\n"), NOW);
        for (name, _) in contents(root.path()) {
            let age = if name.contains("000001") { 100 } else { 99 };
            let file = OpenOptions::new().append(true).open(root.path().join(name)).unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(u64::try_from(NOW - age).unwrap());
            file.set_times(fs::FileTimes::new().set_modified(at)).unwrap();
        }
        writer.handle_time(NOW);
        assert_eq!(contents(root.path()).len(), 1);
    }

    #[test]
    fn a_directory_that_fails_costs_counted_records_and_is_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("records");
        fs::write(&directory, "a file").unwrap();
        let (mut writer, metrics) = writer(&directory, |_| {});
        writer.put(&lines("1\n2\n"), NOW);
        fs::remove_file(&directory).unwrap();
        writer.put(&lines("3\n"), NOW + RETRY_AFTER_S - 1);
        writer.put(&lines("4\n"), NOW + RETRY_AFTER_S);
        assert_eq!((metrics.records_sent(RecordOutput::File), metrics.records_dropped(RecordOutput::File)), (1, 3));
        assert_eq!(contents(&directory)[0].1, "4\n");
    }

    #[test]
    fn a_clock_that_is_set_back_prolongs_no_rest() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("records");
        fs::write(&directory, "a file").unwrap();
        let (mut writer, metrics) = writer(&directory, |_| {});
        writer.put(&lines("1\n"), NOW);
        fs::remove_file(&directory).unwrap();
        writer.put(&lines("2\n"), NOW - 3600);
        assert_eq!((metrics.records_sent(RecordOutput::File), metrics.records_dropped(RecordOutput::File)), (1, 1));
    }

    #[test]
    fn a_full_disk_leaves_whole_lines() {
        // Every write to this device fails as on a full disk.
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let root = tempfile::tempdir().unwrap();
        let (mut writer, metrics) = writer(root.path(), |_| {});
        writer.current = Some(Current { file, path: PathBuf::from("/dev/full"), len: 0, begun: NOW });
        writer.put(&lines("1\n"), NOW);
        assert_eq!((metrics.records_sent(RecordOutput::File), metrics.records_dropped(RecordOutput::File)), (0, 1));
        writer.put(&lines("2\n"), NOW + RETRY_AFTER_S);
        assert_eq!(contents(root.path())[0].1, "2\n", "in a new file");
    }
}
