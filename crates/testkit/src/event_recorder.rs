//! A subscriber to what happens to files that tests can read.

use forebay_telemetry::{
    CloseEvent, DirectEvent, FailedEvent, FileEvents, FileUse, LoginEvent, OpenEvent, Operations, ReadAnswer,
    ReadEvents, ReadKind, RefusedEvent,
};
use forebay_types::{ByteRange, Outcome};
use parking_lot::Mutex;
use std::sync::Arc;

/// Records each event as a line of text. Clones share their lines.
#[derive(Clone, Debug, Default)]
pub struct EventRecorder {
    lines: Arc<Mutex<Vec<String>>>,
    closes: Arc<Mutex<Vec<Closed>>>,
}

/// The operations and the use of a file, from the event of its close.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Closed {
    pub open: u64,
    pub operations: Operations,
    pub opens: u64,
    pub file: Option<FileUse>,
}

/// Records the reads of one open.
struct ReadRecorder {
    lines: EventRecorder,
    open: u64,
}

impl EventRecorder {
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// All closes so far.
    #[must_use]
    pub fn closes(&self) -> Vec<Closed> {
        self.closes.lock().clone()
    }

    fn add(&self, line: String) {
        self.lines.lock().push(line);
    }
}

impl FileEvents for EventRecorder {
    fn login(&self, event: &LoginEvent<'_>) {
        self.add(format!("login {} {}", event.client.session, event.client.user));
    }

    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        let OpenEvent { open, client, lfn, size, .. } = *event;
        self.add(format!("open {open} {} {lfn} {size}", client.user));
        Some(Box::new(ReadRecorder { lines: self.clone(), open }))
    }

    fn direct(&self, event: &DirectEvent<'_>) {
        let kind = if event.open.is_some() { "switch" } else { "direct" };
        self.add(format!("{kind} {} {} {}", event.client.user, event.lfn, event.path.display()));
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        let (open, operations, opens) = (event.open, event.account.operations(), event.opens);
        self.closes.lock().push(Closed { open, operations, opens, file: event.file.cloned() });
        let bytes = Outcome::ALL.map(|outcome| format!(" {outcome}={}", event.account.bytes(outcome)));
        self.add(format!("close {}{}", event.open, bytes.concat()));
    }

    fn refused(&self, event: &RefusedEvent<'_>) {
        self.add(format!("refused {} {} {}", event.client.user, event.lfn, event.kind));
    }

    fn failed(&self, event: &FailedEvent<'_>) {
        let request = if event.open.is_some() { "read" } else { "open" };
        self.add(format!("failed {request} {} {} {} {}", event.client.user, event.lfn, event.side, event.kind));
    }
}

impl ReadEvents for ReadRecorder {
    fn read(&self, kind: ReadKind, range: ByteRange, answer: &ReadAnswer) {
        let Self { lines, open } = self;
        let outcome = answer.outcome;
        lines.add(format!("{kind:?} {open} {}+{} {outcome}", range.start(), range.len()));
    }

    fn read_vector(&self, elements: &[ByteRange], answer: &ReadAnswer) {
        self.lines.add(format!("ReadVector {} of {} {}", self.open, elements.len(), answer.outcome));
    }

    // The close is recorded as an event of the file.
    fn closed(&self, _event: &CloseEvent<'_>) {}
}
