//! What other tasks tell a connection's task, the only one that writes to its socket.

use crate::{authenticate::Examined, open::Opened, options::ASSEMBLY_LEN};
use forebay_engine::Segment;
use tokio::sync::mpsc;

/// What other tasks tell a connection's task.
pub(crate) enum Event {
    /// Send this frame, or these whole frames.
    Frame(Frame),
    /// A file has been opened: keep it and tell the client.
    Opened(Opened),
    /// Credentials have been looked at.
    Examined(Examined),
    /// Finish what is under way and close.
    Drain,
}

/// One or more whole frames: bytes that begin with a header, and the body that follows them.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Header, and whatever of the body is small.
    pub(crate) head: Vec<u8>,
    /// The rest of the body, in order. File segments are in the page cache as far as anybody knows.
    pub(crate) body: Vec<Segment>,
}

/// Sends events to a connection's task. It waits while the client is slower than the answers come.
pub(crate) type Events = mpsc::Sender<Event>;

impl From<Vec<u8>> for Frame {
    /// Whole frames; long ones are sent from where they are.
    fn from(frames: Vec<u8>) -> Self {
        if frames.len() < ASSEMBLY_LEN {
            Self { head: frames, body: Vec::new() }
        } else {
            Self { head: Vec::new(), body: vec![Segment::Memory(frames.into())] }
        }
    }
}
