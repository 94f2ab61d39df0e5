//! Messages to a connection's task, the only one that writes to its socket.

use crate::base::{handles::HandlePlaces, options::ASSEMBLY_LEN};
use forebay_engine::{Handle, Segment};
use forebay_proto::{OpenOptions, ReplyTo, StreamId};
use forebay_trust::Step;
use tokio::sync::mpsc;

/// A message to a connection's task.
pub(crate) enum Event {
    /// Send this frame, or these whole frames.
    Frame(Frame),
    /// Keep an open file, and answer the client.
    Opened(Opened),
    /// Answer a login.
    Examined(Examined),
    /// Finish the requests in progress and close.
    Drain,
}

/// A file that has been opened. The connection's task puts it into the table of its session.
pub(crate) struct Opened {
    pub(crate) reply: ReplyTo,
    pub(crate) options: OpenOptions,
    pub(crate) handle: Handle,
    pub(crate) places: HandlePlaces,
}

/// Credentials that have been examined.
pub(crate) struct Examined {
    pub(crate) stream_id: StreamId,
    pub(crate) step: Step,
}

/// One or more whole frames: bytes that begin with a header, and the body that follows them.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Header, and whatever of the body is small.
    pub(crate) head: Vec<u8>,
    /// The rest of the body, in order. File segments are very likely in the page cache.
    pub(crate) body: Vec<Segment>,
}

/// Sends messages to a connection's task. It waits while the client takes answers more slowly than they are made.
pub(crate) type Events = mpsc::Sender<Event>;

impl From<Vec<u8>> for Frame {
    /// Whole frames; long ones are sent from where they are.
    fn from(frames: Vec<u8>) -> Self {
        // Short frames are copied to other waiting answers, which saves a system call.
        if frames.len() < ASSEMBLY_LEN {
            Self { head: frames, body: Vec::new() }
        } else {
            Self { head: Vec::new(), body: vec![Segment::Memory(frames.into())] }
        }
    }
}
