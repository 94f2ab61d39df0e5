//! The lines of a trace: one JSON object for each event, described in `docs/trace.md`.

use super::{
    event::{Event, Opened},
    micros,
};
use crate::{NotReadAhead, ReadAheadSource, ReadAnswer, ReadKind};
use forebay_types::{ByteRange, Outcome};
use std::io::Write as _;

/// Appends one line to a buffer.
pub(super) struct Line<'b> {
    out: &'b mut Vec<u8>,
    file: u64,
    micros: i64,
}

impl<'b> Line<'b> {
    /// A line about open number `file`, of an event at `micros` microseconds of the Unix epoch.
    pub(super) const fn new(out: &'b mut Vec<u8>, file: u64, micros: i64) -> Self {
        Self { out, file, micros }
    }

    pub(super) fn write(&mut self, event: &Event) {
        match event {
            Event::Open(opened) => self.open(opened),
            Event::Read { kind, range, answer } => self.read(*kind, *range, answer),
            Event::ReadVector { elements, answer } => self.read_vector(elements, answer),
            Event::Advice { source, ranges, .. } => self.advice(*source, ranges),
            Event::GivenUp { reason, .. } => self.given_up(*reason),
            Event::Close { bytes, .. } => self.close(bytes),
        }
        self.out.extend_from_slice(b"}\n");
    }

    fn open(&mut self, open: &Opened) {
        self.begin("open");
        self.text("path", &open.path);
        self.number("size", open.size);
        self.text("user", &open.client.user);
        self.text("peer", &open.client.peer.map_or_else(String::new, |peer| peer.to_string()));
        self.number("pid", u64::from(open.client.pid));
        self.text("app", &open.client.program);
    }

    fn read(&mut self, kind: ReadKind, range: ByteRange, answer: &ReadAnswer) {
        self.begin(match kind {
            ReadKind::Read => "read",
            ReadKind::PageRead => "pgread",
        });
        self.number("o", range.start());
        self.number("n", range.len());
        self.answer(answer);
    }

    fn read_vector(&mut self, elements: &[ByteRange], answer: &ReadAnswer) {
        self.begin("readv");
        self.ranges(elements);
        self.answer(answer);
    }

    fn advice(&mut self, source: ReadAheadSource, ranges: &[ByteRange]) {
        self.begin("advice");
        self.text("by", source.as_str());
        self.ranges(ranges);
    }

    fn given_up(&mut self, reason: NotReadAhead) {
        self.begin("giveup");
        self.text("why", reason.as_str());
    }

    fn close(&mut self, bytes: &[u64; Outcome::ALL.len()]) {
        self.begin("close");
        for (outcome, bytes) in Outcome::ALL.iter().zip(bytes) {
            self.number(outcome.as_str(), *bytes);
        }
    }

    fn begin(&mut self, event: &str) {
        self.out.extend_from_slice(br#"{"e":""#);
        self.out.extend_from_slice(event.as_bytes());
        // Times before 1970 are those of a clock that was never set.
        self.out.extend_from_slice(br#"","t":"#);
        self.digits(u64::try_from(self.micros).unwrap_or(0));
        self.number("f", self.file);
    }

    fn answer(&mut self, answer: &ReadAnswer) {
        let took = answer.done.saturating_duration_since(answer.received);
        let is_hit = answer.outcome == Outcome::Hit;
        self.out.extend_from_slice(if is_hit { br#","r":"hit""#.as_slice() } else { br#","r":"missed""# });
        self.number("us", micros(took));
    }

    fn ranges(&mut self, ranges: &[ByteRange]) {
        self.out.extend_from_slice(br#","v":["#);
        for (position, range) in ranges.iter().enumerate() {
            self.out.extend_from_slice(if position == 0 { b"[" } else { b",[" });
            self.digits(range.start());
            self.out.push(b',');
            self.digits(range.len());
            self.out.push(b']');
        }
        self.out.push(b']');
    }

    fn number(&mut self, name: &str, value: u64) {
        self.out.extend_from_slice(br#",""#);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(br#"":"#);
        self.digits(value);
    }

    fn digits(&mut self, value: u64) {
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn text(&mut self, name: &str, value: &str) {
        self.formatted(format_args!(r#","{name}":""#));
        for character in value.chars() {
            match character {
                '"' | '\\' => self.formatted(format_args!("\\{character}")),
                '\0'..='\u{1f}' | '\u{7f}' => self.formatted(format_args!("\\u{:04x}", u32::from(character))),
                _ => self.formatted(format_args!("{character}")),
            }
        }
        self.out.push(b'"');
    }

    fn formatted(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        let _ = self.out.write_fmt(arguments);
    }
}
