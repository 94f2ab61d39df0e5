//! What happens to a traced file, as it is kept until a line is made of it.

use super::{TracedAnswer, TracedRead};
use forebay_types::{ByteRange, Outcome};
use std::time::Instant;

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

/// Something that happened to a traced file. Reads are many and small; what is rare has its memory elsewhere.
#[derive(Debug)]
pub(super) enum Event {
    Open(Box<Opened>),
    Read { kind: TracedRead, range: ByteRange, answer: TracedAnswer },
    ReadVector { elements: Box<[ByteRange]>, answer: TracedAnswer },
    Close { bytes: Box<[u64; Outcome::ALL.len()]>, at: Instant },
}

/// One for each read: what a trace costs.
const _: () = assert!(size_of::<Event>() <= 64, "an event fits a cache line");

/// A [`TracedOpen`] that is kept.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) at: Instant,
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) user: String,
    pub(super) peer: String,
    pub(super) pid: u32,
    pub(super) program: String,
}

impl Opened {
    pub(super) fn new(open: &TracedOpen<'_>, at: Instant) -> Self {
        Self {
            at,
            path: open.path.to_owned(),
            size: open.size,
            user: open.user.to_owned(),
            peer: open.peer.to_owned(),
            pid: open.pid,
            program: open.program.to_owned(),
        }
    }
}

impl Event {
    /// The memory that it takes, roughly.
    pub(super) fn len(&self) -> usize {
        let elsewhere = match self {
            Self::Open(opened) => {
                opened.path.len() + opened.user.len() + opened.peer.len() + opened.program.len() + size_of::<Opened>()
            }
            Self::Read { .. } => 0,
            Self::ReadVector { elements, .. } => size_of_val::<[ByteRange]>(elements),
            Self::Close { bytes, .. } => size_of_val(bytes.as_ref()),
        };
        size_of::<Self>() + elsewhere
    }

    /// When it was asked for.
    pub(super) fn at(&self) -> Instant {
        match self {
            Self::Open(opened) => opened.at,
            Self::Read { answer, .. } | Self::ReadVector { answer, .. } => answer.received,
            Self::Close { at, .. } => *at,
        }
    }
}
