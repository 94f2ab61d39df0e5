//! A subscriber to what happens to files that tests can read.

use forebay_telemetry::{
    AdviceEvent, CloseEvent, DirectEvent, FailedEvent, FileEvents, FileUse, LoginEvent, OpenEvent, Operations,
    ReadAnswer, ReadEvents, ReadKind, RedirectedEvent, RefusedEvent,
};
use forebay_types::{ByteRange, Outcome};
use tokio::sync::watch;

/// Records each event. Clones share what they record.
///
/// Of one open, the product reports the login, the open, then the reads, then the close. Reads are reported by tasks of their own after
/// their answers, so they come in any order, and they and the close after the client has its bytes: see [`Self::when`].
#[derive(Clone, Debug, Default)]
pub struct EventRecorder {
    events: watch::Sender<Events>,
}

/// The events so far.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Each as a line of text.
    pub lines: Vec<String>,
    pub closes: Vec<Closed>,
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

impl Events {
    /// The lines of one kind.
    #[must_use]
    pub fn of(&self, kind: &str) -> Vec<&str> {
        let lines = self.lines.iter().map(String::as_str);
        lines.filter(|line| line.split(' ').next() == Some(kind)).collect()
    }
}

impl EventRecorder {
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.events.borrow().lines.clone()
    }

    /// Waits until the events so far satisfy a condition.
    pub async fn when(&self, condition: impl FnMut(&Events) -> bool) -> Events {
        let mut events = self.events.subscribe();
        // The wait fails only when all senders are gone, and this recorder is one.
        let found = events.wait_for(condition).await.map(|found| found.clone());
        found.unwrap_or_default()
    }

    fn add(&self, line: String) {
        self.events.send_modify(|events| events.lines.push(line));
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

    fn redirected(&self, event: &RedirectedEvent<'_>) {
        let RedirectedEvent { client, lfn, to, size, .. } = event;
        self.add(format!("redirect {} {lfn} {to} {size:?}", client.user));
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        let (open, operations, opens) = (event.open, event.account.operations(), event.opens);
        let bytes = Outcome::ALL.map(|outcome| format!(" {outcome}={}", event.account.bytes(outcome)));
        let line = format!("close {open}{}", bytes.concat());
        self.events.send_modify(|events| {
            events.closes.push(Closed { open, operations, opens, file: event.file.cloned() });
            events.lines.push(line);
        });
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

    fn advised(&self, event: &AdviceEvent<'_>) {
        let Self { lines, open } = self;
        lines.add(match event {
            AdviceEvent::Given { source, ranges, .. } => {
                let bytes: u64 = ranges.iter().map(|range| range.len()).sum();
                format!("advice {open} {} {bytes}", source.as_str())
            }
            AdviceEvent::GivenUp { reason, .. } => format!("giveup {open} {}", reason.as_str()),
        });
    }

    fn read_vector(&self, elements: &[ByteRange], answer: &ReadAnswer) {
        self.lines.add(format!("ReadVector {} of {} {}", self.open, elements.len(), answer.outcome));
    }

    // The close is recorded as an event of the file.
    fn closed(&self, _event: &CloseEvent<'_>) {}
}
