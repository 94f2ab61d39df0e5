//! Records that wait to be sent: in memory, and on disk while no server takes them.

use crate::lines::Lines;
use forebay_telemetry::{Metrics, RecordOutput};
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::Arc,
};

/// Bytes of records that are sent together at most, and of a file of the spool.
pub(super) const SEGMENT_LEN: usize = 1 << 20;

/// Bytes of records in memory. More are written to the spool, or dropped if that cannot be done.
const MEMORY_MAX: u64 = 8 << 20;

/// Permissions of the spool's files: they name users and the files that these read.
const FILE_MODE: u32 = 0o640;

/// Prefix and suffix of file names; between them is a number.
const NAME: (&str, &str) = ("spool-", ".jsonl");

/// Records in the order in which they are sent.
pub(super) struct Backlog {
    /// `None` keeps records in memory only.
    directory: Option<PathBuf>,
    /// Limit of all records that wait.
    total_max: u64,
    metrics: Metrics,
    segments: VecDeque<Segment>,
    /// Records that are being sent.
    taken: Option<Batch>,
    /// The number of the last file.
    last: u64,
    has_failed: bool,
}

/// Records that are sent together.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) text: Arc<Vec<u8>>,
    /// The file that has them, too.
    file: Option<PathBuf>,
}

enum Segment {
    Memory(Lines),
    Disk { path: PathBuf, len: u64, count: u64 },
}

impl Segment {
    /// A file with these records.
    fn on_disk(path: PathBuf, text: &[u8]) -> Self {
        Self::Disk { path, len: text.len() as u64, count: lines_in(text) }
    }

    const fn len(&self) -> u64 {
        match self {
            Self::Memory(lines) => lines.text.len() as u64,
            Self::Disk { len, .. } => *len,
        }
    }
}

impl Backlog {
    /// Finds the records that an earlier process has left in `directory`.
    pub(super) fn open(directory: Option<PathBuf>, total_max: u64, metrics: Metrics) -> Self {
        let mut backlog =
            Self { directory, total_max, metrics, segments: VecDeque::new(), taken: None, last: 0, has_failed: false };
        if let Err(error) = backlog.load() {
            backlog.note_failure(&error);
        }
        backlog
    }

    fn load(&mut self) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        fs::create_dir_all(directory)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
                files.push((number, path));
            }
        }
        files.sort();
        self.last = files.last().map_or(0, |(number, _)| *number);
        for (_, path) in files {
            match fs::read(&path) {
                Ok(text) => self.segments.push_back(Segment::on_disk(path, &text)),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "a file of the spool cannot be read: its records are not sent");
                }
            }
        }
        self.make_room();
        Ok(())
    }

    /// Adds records at the end.
    pub(super) fn push(&mut self, lines: &Lines) {
        match self.segments.back_mut() {
            Some(Segment::Memory(last)) if last.text.len() + lines.text.len() <= SEGMENT_LEN => {
                last.text.extend_from_slice(&lines.text);
                last.count += lines.count;
            }
            _ => self.segments.push_back(Segment::Memory(lines.clone())),
        }
        // A server that takes its time has not failed yet.
        if self.memory_len() > MEMORY_MAX {
            self.persist();
        }
        self.make_room();
    }

    /// Bytes of records in memory, without those that are being sent.
    fn memory_len(&self) -> u64 {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Memory(_))).map(Segment::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.taken.is_none()
    }

    /// Whether there are records of a whole request.
    pub(super) fn is_full(&self) -> bool {
        self.segments.len() > 1 || self.segments.front().is_some_and(|first| first.len() >= SEGMENT_LEN as u64 / 2)
    }

    /// Takes the first records, to send them. They wait on until [`Self::sent`] or [`Self::give_back`].
    pub(super) fn take(&mut self) -> Option<Batch> {
        while let Some(segment) = self.segments.pop_front() {
            let batch = match segment {
                Segment::Memory(lines) => Batch { text: Arc::new(lines.text), file: None },
                Segment::Disk { path, count, .. } => match fs::read(&path) {
                    Ok(text) => Batch { text: Arc::new(text), file: Some(path) },
                    Err(error) => {
                        self.note_failure(&error);
                        self.metrics.add_records_dropped(RecordOutput::OpenSearch, count);
                        continue;
                    }
                },
            };
            self.taken = Some(batch.clone());
            return Some(batch);
        }
        None
    }

    /// The taken records need not be kept any more.
    pub(super) fn sent(&mut self) {
        if let Some(Batch { file: Some(path), .. }) = self.taken.take()
            && let Err(error) = fs::remove_file(path)
        {
            self.note_failure(&error);
        }
    }

    /// Of the taken records, these are to be sent again, before all others.
    pub(super) fn give_back(&mut self, text: Vec<u8>) {
        let first = match self.taken.take() {
            Some(Batch { text: all, file: Some(path) }) => self.replace(path, &all, &text),
            _ => Segment::Memory(Lines { count: lines_in(&text), text }),
        };
        self.segments.push_front(first);
        self.persist();
    }

    /// Replaces a file by one with those of its records that are to be sent again.
    fn replace(&mut self, path: PathBuf, all: &[u8], again: &[u8]) -> Segment {
        // Safe on disk before the file with all of them goes.
        match self.write(again) {
            Ok(new) => {
                if let Err(error) = fs::remove_file(path) {
                    self.note_failure(&error);
                }
                Segment::on_disk(new, again)
            }
            // Servers recognize the records that they already have by their identities.
            Err(error) => {
                self.note_failure(&error);
                Segment::on_disk(path, all)
            }
        }
    }

    /// Writes all records in memory to the spool.
    pub(super) fn persist(&mut self) {
        if self.directory.is_none() {
            return;
        }
        if let Some(Batch { file: None, text }) = &self.taken {
            let text = Arc::clone(text);
            match self.write(&text) {
                Ok(path) => self.taken = Some(Batch { text, file: Some(path) }),
                Err(error) => return self.note_failure(&error),
            }
        }
        for mut segment in std::mem::take(&mut self.segments) {
            if let Segment::Memory(lines) = &segment {
                match self.keep(lines) {
                    Ok(Some(kept)) => segment = kept,
                    Ok(None) => continue,
                    Err(error) => self.note_failure(&error),
                }
            }
            self.segments.push_back(segment);
        }
        self.make_room();
    }

    /// Writes lines to the last file, if it has room, or to a new one, which is returned.
    fn keep(&mut self, lines: &Lines) -> io::Result<Option<Segment>> {
        let more = lines.text.len() as u64;
        if let Some(Segment::Disk { path, len, count }) = self.segments.back_mut()
            && *len + more <= SEGMENT_LEN as u64
        {
            let mut file = OpenOptions::new().append(true).open(path)?;
            append(&mut file, &lines.text, *len)?;
            *len += more;
            *count += lines.count;
            return Ok(None);
        }
        let path = self.write(&lines.text)?;
        Ok(Some(Segment::Disk { path, len: more, count: lines.count }))
    }

    fn write(&mut self, text: &[u8]) -> io::Result<PathBuf> {
        let directory = self.directory.as_ref().ok_or(io::ErrorKind::NotFound)?;
        self.last += 1;
        let path = directory.join(format!("{}{:012}{}", NAME.0, self.last, NAME.1));
        let mut file = OpenOptions::new().create_new(true).append(true).mode(FILE_MODE).open(&path)?;
        if let Err(error) = append(&mut file, text, 0) {
            // An incomplete file would count as records.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.has_failed = false;
        Ok(path)
    }

    /// Drops the oldest records until the others fit.
    fn make_room(&mut self) {
        let sum = |segments: &VecDeque<Segment>| segments.iter().map(Segment::len).sum::<u64>();
        while sum(&self.segments) > self.total_max {
            let Some(oldest) = self.segments.pop_front() else { return };
            self.drop_records(oldest);
        }
        while self.memory_len() > MEMORY_MAX {
            let is_memory = |segment: &Segment| matches!(segment, Segment::Memory(_));
            let Some(oldest) = self.segments.iter().position(is_memory) else { return };
            let Some(oldest) = self.segments.remove(oldest) else { return };
            self.drop_records(oldest);
        }
    }

    fn drop_records(&mut self, segment: Segment) {
        let count = match segment {
            Segment::Memory(lines) => lines.count,
            Segment::Disk { path, count, .. } => {
                if let Err(error) = fs::remove_file(path) {
                    self.note_failure(&error);
                }
                count
            }
        };
        self.metrics.add_records_dropped(RecordOutput::OpenSearch, count);
    }

    fn note_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            let directory = self.directory.as_deref().unwrap_or_else(|| std::path::Path::new("")).display();
            tracing::warn!(%directory, %error, "the spool of records fails: records wait in memory, and the oldest are dropped");
        }
    }
}

/// Appends to a file of `len` bytes, or leaves it as it was.
fn append(file: &mut File, text: &[u8], len: u64) -> io::Result<()> {
    let written = file.write_all(text);
    if written.is_err() {
        let _ = file.set_len(len);
    }
    written
}

/// The number of lines.
fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lines(text: &str) -> Lines {
        Lines { text: text.as_bytes().to_vec(), count: lines_in(text.as_bytes()) }
    }

    fn taken(backlog: &mut Backlog) -> Option<String> {
        backlog.take().map(|batch| String::from_utf8(batch.text.to_vec()).unwrap())
    }

    fn files(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn records_survive_the_process_in_order_until_they_are_sent() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("spool");
        let open = || Backlog::open(Some(directory.clone()), 1 << 20, Metrics::new());
        let mut backlog = open();
        backlog.push(&lines("1\n2\n"));
        assert_eq!(taken(&mut backlog).as_deref(), Some("1\n2\n"));
        backlog.push(&lines("3\n"));
        backlog.persist();
        drop(backlog);
        let mut backlog = open();
        assert_eq!(taken(&mut backlog).as_deref(), Some("1\n2\n"), "taken is not sent");
        backlog.sent();
        assert_eq!(taken(&mut backlog).as_deref(), Some("3\n"));
        backlog.give_back(b"3\n".to_vec());
        drop(backlog);
        let mut backlog = open();
        assert_eq!(taken(&mut backlog).as_deref(), Some("3\n"));
        backlog.sent();
        assert!(backlog.is_empty());
        assert_eq!(files(&directory), 0);
    }

    #[test]
    fn small_parts_share_a_file() {
        let root = tempfile::tempdir().unwrap();
        let mut backlog = Backlog::open(Some(root.path().to_owned()), 1 << 20, Metrics::new());
        for number in 0..10 {
            backlog.push(&lines(&format!("{number}\n")));
            backlog.persist();
        }
        assert_eq!(files(root.path()), 1);
        assert_eq!(taken(&mut backlog).map(|text| text.len()), Some(20));
    }

    #[test]
    fn the_oldest_are_dropped_and_counted() {
        let root = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let mut backlog = Backlog::open(Some(root.path().to_owned()), 2 << 20, metrics.clone());
        let block = format!("{}\n", "x".repeat(SEGMENT_LEN - 1));
        for _ in 0..5 {
            backlog.push(&lines(&block));
            backlog.persist();
        }
        assert_eq!((metrics.records_dropped(RecordOutput::OpenSearch), files(root.path())), (3, 2));
        let mut memory = Backlog::open(None, 1 << 30, metrics.clone());
        (0..10).for_each(|_| memory.push(&lines(&block)));
        assert_eq!(metrics.records_dropped(RecordOutput::OpenSearch), 3 + 2, "8 MiB are kept without a directory");
    }

    #[test]
    fn the_spool_takes_what_memory_has_no_room_for() {
        let root = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let mut backlog = Backlog::open(Some(root.path().to_owned()), 1 << 30, metrics.clone());
        let block = format!("{}\n", "x".repeat(SEGMENT_LEN - 1));
        (0..12).for_each(|_| backlog.push(&lines(&block)));
        assert_eq!((metrics.records_dropped(RecordOutput::OpenSearch), files(root.path())), (0, 9));
        let sent = std::iter::from_fn(|| taken(&mut backlog).inspect(|_| backlog.sent())).count();
        assert_eq!((sent, files(root.path())), (12, 0));
    }

    #[test]
    fn a_spool_that_fails_leaves_records_in_memory() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("spool");
        fs::write(&directory, "a file").unwrap();
        let mut backlog = Backlog::open(Some(directory), 1 << 20, Metrics::new());
        backlog.push(&lines("1\n"));
        backlog.persist();
        assert_eq!(taken(&mut backlog).as_deref(), Some("1\n"));
    }

    #[test]
    fn records_that_come_back_stay_in_their_file_until_another_has_them() {
        let root = tempfile::tempdir().unwrap();
        let open = || Backlog::open(Some(root.path().to_owned()), 1 << 20, Metrics::new());
        let mut backlog = open();
        backlog.push(&lines("1\n2\n"));
        backlog.persist();
        assert_eq!(taken(&mut backlog).as_deref(), Some("1\n2\n"));
        // The name of the next file is taken: it cannot be written.
        fs::create_dir(root.path().join("spool-000000000002.jsonl")).unwrap();
        backlog.give_back(b"2\n".to_vec());
        drop(backlog);
        let mut backlog = open();
        assert_eq!(taken(&mut backlog).as_deref(), Some("1\n2\n"));
        backlog.give_back(b"2\n".to_vec());
        drop(backlog);
        assert_eq!(taken(&mut open()).as_deref(), Some("2\n"));
    }

    #[test]
    fn a_file_that_cannot_be_read_hides_no_others() {
        let root = tempfile::tempdir().unwrap();
        let name = |number: u64| root.path().join(format!("{}{number:012}{}", NAME.0, NAME.1));
        fs::create_dir(name(1)).unwrap();
        fs::write(name(2), "2\n").unwrap();
        fs::create_dir(name(3)).unwrap();
        let mut backlog = Backlog::open(Some(root.path().to_owned()), 1 << 20, Metrics::new());
        assert_eq!(taken(&mut backlog).as_deref(), Some("2\n"));
        backlog.sent();
        backlog.push(&lines("4\n"));
        backlog.persist();
        assert_eq!(fs::read_to_string(name(4)).unwrap(), "4\n");
    }

    #[test]
    fn records_come_back_before_newer_ones() {
        let mut backlog = Backlog::open(None, 1 << 20, Metrics::new());
        backlog.push(&lines("1\n2\n3\n"));
        backlog.take();
        backlog.push(&lines("4\n"));
        backlog.give_back(b"1\n3\n".to_vec());
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut backlog)).collect();
        assert_eq!(all, ["1\n3\n", "4\n"]);
    }
}
