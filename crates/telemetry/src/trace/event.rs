//! Events of a traced file, as they are kept until they are written.

use crate::{Client, NotReadAhead, ReadAheadSource, ReadAnswer, ReadKind};
use forebay_types::{ByteRange, Outcome};
use std::{sync::Arc, time::Instant};

/// An event of a traced file. Reads are many and small; the contents of rare events are boxed.
#[derive(Debug)]
pub(super) enum Event {
    Open(Box<Opened>),
    Read { kind: ReadKind, range: ByteRange, answer: ReadAnswer },
    ReadVector { elements: Box<[ByteRange]>, answer: ReadAnswer },
    Advice { at: Instant, source: ReadAheadSource, ranges: Box<[ByteRange]> },
    GivenUp { at: Instant, reason: NotReadAhead },
    Close { bytes: Box<[u64; Outcome::ALL.len()]>, at: Instant },
}

/// There is one for each read: its size is what a trace costs.
const _: () = assert!(size_of::<Event>() <= 64, "an event fits a cache line");

/// The facts of an open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) at: Instant,
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) client: Arc<Client>,
}

impl Event {
    /// The approximate memory that it takes.
    pub(super) fn len(&self) -> usize {
        let boxed = match self {
            Self::Open(opened) => {
                opened.path.len() + opened.client.user.len() + opened.client.program.len() + size_of::<Opened>()
            }
            Self::Read { .. } | Self::GivenUp { .. } => 0,
            Self::ReadVector { elements, .. } | Self::Advice { ranges: elements, .. } => {
                size_of_val::<[ByteRange]>(elements)
            }
            Self::Close { bytes, .. } => size_of_val(bytes.as_ref()),
        };
        size_of::<Self>() + boxed
    }

    /// The time of its request.
    pub(super) fn at(&self) -> Instant {
        match self {
            Self::Open(opened) => opened.at,
            Self::Read { answer, .. } | Self::ReadVector { answer, .. } => answer.received,
            Self::Advice { at, .. } | Self::GivenUp { at, .. } | Self::Close { at, .. } => *at,
        }
    }
}
