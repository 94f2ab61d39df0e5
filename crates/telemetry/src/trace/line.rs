//! The lines of a trace: one JSON object for each event, described in `docs/trace.md`.

use super::{TracedAnswer, TracedRead};
use forebay_types::{ByteRange, Outcome};
use std::io::Write as _;

/// What is told of an open.
#[derive(Clone, Copy, Debug)]
pub struct TracedOpen<'a> {
    /// The path, as the client has asked for it.
    pub path: &'a str,
    /// Size of the file.
    pub size: u64,
    /// The user: a proven name, or what the client calls itself.
    pub user: &'a str,
    /// Address and port of the connection.
    pub peer: &'a str,
    /// The client's process number, as it says.
    pub pid: u32,
    /// The client's program, as it says.
    pub program: &'a str,
}

/// A line on its way into a buffer.
pub(crate) struct Line<'b> {
    out: &'b mut Vec<u8>,
    file: u64,
    micros: i64,
}

impl<'b> Line<'b> {
    /// A line about file number `file`, of something at `micros` microseconds of the Unix epoch.
    pub(crate) const fn new(out: &'b mut Vec<u8>, file: u64, micros: i64) -> Self {
        Self { out, file, micros }
    }

    pub(crate) fn open(&mut self, open: &TracedOpen<'_>) {
        self.begin("open");
        self.text("path", open.path);
        self.number("size", open.size);
        self.text("user", open.user);
        self.text("peer", open.peer);
        self.number("pid", u64::from(open.pid));
        self.text("app", open.program);
        self.end();
    }

    pub(crate) fn read(&mut self, kind: TracedRead, range: ByteRange, answer: &TracedAnswer) {
        self.begin(match kind {
            TracedRead::Read => "read",
            TracedRead::PageRead => "pgread",
        });
        self.number("o", range.start());
        self.number("n", range.len());
        self.answer(answer);
        self.end();
    }

    pub(crate) fn read_vector(&mut self, elements: impl Iterator<Item = ByteRange>, answer: &TracedAnswer) {
        self.begin("readv");
        self.out.extend_from_slice(br#","v":"#);
        let mut before = b'[';
        for element in elements {
            self.out.extend_from_slice(&[before, b'[']);
            self.digits(element.start());
            self.out.push(b',');
            self.digits(element.len());
            self.out.push(b']');
            before = b',';
        }
        self.out.extend_from_slice(if before == b'[' { b"[]" } else { b"]" });
        self.answer(answer);
        self.end();
    }

    pub(crate) fn close(&mut self, bytes: impl Fn(Outcome) -> u64) {
        self.begin("close");
        for outcome in Outcome::ALL {
            self.number(outcome.as_str(), bytes(outcome));
        }
        self.end();
    }

    fn begin(&mut self, event: &str) {
        self.out.extend_from_slice(br#"{"e":""#);
        self.out.extend_from_slice(event.as_bytes());
        // Times before 1970 are those of a clock that was never set.
        self.out.extend_from_slice(br#"","t":"#);
        self.digits(u64::try_from(self.micros).unwrap_or(0));
        self.number("f", self.file);
    }

    fn answer(&mut self, answer: &TracedAnswer) {
        let took = answer.done.saturating_duration_since(answer.received);
        let is_hit = answer.outcome == Outcome::Hit;
        self.out.extend_from_slice(if is_hit { br#","r":"hit""#.as_slice() } else { br#","r":"missed""# });
        self.number("us", u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn number(&mut self, name: &str, value: u64) {
        self.out.extend_from_slice(br#",""#);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(br#"":"#);
        self.digits(value);
    }

    /// Writes a number: two times as fast as the standard library formats one, and most of a line is numbers.
    fn digits(&mut self, mut value: u64) {
        const LEN_MAX: usize = 20;
        let mut digits = [b'0'; LEN_MAX];
        let mut begin = LEN_MAX;
        for (position, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
            (value, begin) = (value / 10, position);
            if value == 0 {
                break;
            }
        }
        self.out.extend_from_slice(digits.get(begin..).unwrap_or_default());
    }

    fn text(&mut self, name: &str, value: &str) {
        self.write(format_args!(r#","{name}":""#));
        for character in value.chars() {
            match character {
                '"' | '\\' => self.write(format_args!("\\{character}")),
                '\0'..='\u{1f}' | '\u{7f}' => self.write(format_args!("\\u{:04x}", u32::from(character))),
                _ => self.write(format_args!("{character}")),
            }
        }
        self.out.push(b'"');
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        let _ = self.out.write_fmt(arguments);
    }
}
