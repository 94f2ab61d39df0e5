//! The requests of one session whose answers are owed.

use bytes::{Bytes, BytesMut};
use forebay_proto::{Status, StreamId};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc::UnboundedSender};

/// Requests of one session that were given up and whose answers are still owed. A session that owes more is closed: the ids of
/// these requests cannot be used again on it.
pub(crate) const ABANDONED_MAX: usize = 1024;

/// A part of the answer to a request, in the order of arrival.
#[derive(Debug)]
pub(crate) enum Event {
    /// File bytes, those of one answer in order; for a vector read a whole element.
    Data {
        /// Offset of the first byte in the file.
        offset: u64,
        /// Not empty, except for an empty element.
        bytes: BytesMut,
        /// The checksum that came with each page among them; none when they came without.
        page_sums: Vec<u32>,
        /// Offsets of the pages among them that do not match their checksums.
        bad_pages: Vec<u64>,
    },
    /// All file bytes have been delivered.
    Done,
    /// Any other frame of an answer.
    Reply {
        /// All but `OKSOFAR` and `WAITRESP` are the last frame.
        status: Status,
        body: Bytes,
    },
    /// The session broke, for this reason, before the answer was complete.
    Lost(String),
}

/// Where events of one or several requests go, each with the tag of its request.
pub(crate) type Events = UnboundedSender<(usize, Event)>;

/// The form of the answer to a request, and how much of it has arrived.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Sink {
    /// Frames with bodies of at most `len_max` bytes, delivered whole.
    Reply { len_max: u32 },
    /// Like [`Sink::Reply`]; when the caller has left, the file that was opened is closed.
    Opened,
    Bytes {
        /// Offset of the next byte.
        next: u64,
        /// Bytes that may still come.
        remaining: u32,
    },
    Pages {
        /// Offset of the next byte.
        next: u64,
        /// Bytes of data that may still come.
        remaining: u64,
    },
    /// Elements of a vector read: offset and length of each that has not come yet.
    Elements(Vec<(u64, u32)>),
}

/// Names one request of a session for as long as the session lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ticket {
    pub(crate) stream_id: StreamId,
    serial: u64,
}

/// An answer whose next frame is being read.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) ticket: Ticket,
    pub(crate) sink: Sink,
    tag: usize,
    /// `None` when it was given up.
    events: Option<Events>,
}

impl Owed {
    /// Delivers a part of the answer; `false` when the caller has left.
    pub(crate) fn send(&self, event: Event) -> bool {
        self.events.as_ref().is_some_and(|events| events.send((self.tag, event)).is_ok())
    }

    /// Whether a caller waits for the answer.
    pub(crate) fn is_wanted(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_closed())
    }
}

/// The table of owed answers. Its lock is never held across an await.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<StreamId, Entry>,
    last_id: u16,
    last_serial: u64,
    abandoned: usize,
    broken: Option<String>,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    tag: usize,
    events: Option<Events>,
    /// `None` while a frame of the answer is being read.
    sink: Option<Sink>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Pending {
    /// Enters a request; without `events` no caller waits for its answer.
    pub(crate) fn enter(
        &self,
        tag: usize,
        sink: Sink,
        events: Option<Events>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Ticket, String> {
        let mut table = self.table.lock();
        if let Some(reason) = &table.broken {
            return Err(reason.clone());
        }
        // Stream ids are used again: the serial number keeps a late `abandon` from another request.
        table.last_serial += 1;
        let serial = table.last_serial;
        let stream_id = table.free_id().ok_or_else(|| "every stream id is in use".to_owned())?;
        table.abandoned += usize::from(events.is_none());
        table.entries.insert(stream_id, Entry { serial, tag, events, sink: Some(sink), _permit: permit });
        Ok(Ticket { stream_id, serial })
    }

    /// Takes the answer that a frame belongs to; `None` when none is owed under this id.
    pub(crate) fn begin_frame(&self, stream_id: StreamId) -> Option<Owed> {
        let mut table = self.table.lock();
        let entry = table.entries.get_mut(&stream_id)?;
        // Taken, so that the table is not locked while the frame is read.
        let sink = entry.sink.take()?;
        let ticket = Ticket { stream_id, serial: entry.serial };
        Some(Owed { ticket, sink, tag: entry.tag, events: entry.events.clone() })
    }

    /// Puts an answer back whose last frame has not come.
    pub(crate) fn end_frame(&self, owed: Owed) {
        // The session may have been broken while the frame was read.
        if let Some(entry) = self.table.lock().entries.get_mut(&owed.ticket.stream_id) {
            entry.sink = Some(owed.sink);
        }
    }

    /// Removes an answer whose last frame has arrived; its id may be used again.
    pub(crate) fn finish(&self, ticket: Ticket) {
        let mut table = self.table.lock();
        if let Some(entry) = table.entries.remove(&ticket.stream_id) {
            table.abandoned -= usize::from(entry.events.is_none());
        }
    }

    /// Gives an answer up; returns how many such answers are owed. Its bytes are dropped when they come, and its id stays in
    /// use until then.
    pub(crate) fn abandon(&self, ticket: Ticket) -> usize {
        let mut table = self.table.lock();
        let entry = table.entries.get_mut(&ticket.stream_id).filter(|entry| entry.serial == ticket.serial);
        if entry.is_some_and(|entry| entry.events.take().is_some()) {
            table.abandoned += 1;
        }
        table.abandoned
    }

    /// How many answers are owed that were given up.
    pub(crate) fn abandoned(&self) -> usize {
        self.table.lock().abandoned
    }

    /// Breaks the session: all waiting callers get the reason, and no request can be entered again.
    pub(crate) fn break_all(&self, reason: &str) {
        // Events are sent after the lock is released: callers that wake need it at once.
        let entries = {
            let mut table = self.table.lock();
            // The first reason is the cause; later ones follow from it.
            table.broken.get_or_insert_with(|| reason.to_owned());
            table.abandoned = 0;
            std::mem::take(&mut table.entries)
        };
        for entry in entries.into_values() {
            if let Some(events) = entry.events {
                // A caller that has left does not need the reason.
                let _ = events.send((entry.tag, Event::Lost(reason.to_owned())));
            }
        }
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.table.lock().broken.clone()
    }

    /// Whether no answer is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.lock().entries.is_empty()
    }
}

impl Table {
    /// The next id that no owed answer uses; id 0 belongs to session set-up.
    fn free_id(&mut self) -> Option<StreamId> {
        for _ in 0..=u16::MAX {
            self.last_id = self.last_id.wrapping_add(1);
            let stream_id = StreamId::from(self.last_id);
            if stream_id != StreamId::ZERO && !self.entries.contains_key(&stream_id) {
                return Some(stream_id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    const SINK: Sink = Sink::Reply { len_max: 1 };

    #[test]
    fn an_id_is_not_used_again_while_its_answer_is_owed() {
        let pending = Pending::default();
        let (events, _receiver) = mpsc::unbounded_channel();
        let first = pending.enter(0, SINK, Some(events.clone()), None).unwrap();
        assert_eq!(pending.abandon(first), 1);
        for _ in 0..u32::from(u16::MAX) + 10 {
            let ticket = pending.enter(0, SINK, Some(events.clone()), None).unwrap();
            assert_ne!(ticket.stream_id, first.stream_id);
            assert_ne!(ticket.stream_id, StreamId::ZERO);
            pending.finish(ticket);
        }
        assert!(!pending.begin_frame(first.stream_id).unwrap().is_wanted());
        pending.finish(first);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_late_abandon_does_not_hit_the_next_user_of_the_id() {
        let pending = Pending::default();
        let (events, _receiver) = mpsc::unbounded_channel();
        let old = pending.enter(0, SINK, Some(events.clone()), None).unwrap();
        pending.finish(old);
        let new = loop {
            let ticket = pending.enter(0, SINK, Some(events.clone()), None).unwrap();
            if ticket.stream_id == old.stream_id {
                break ticket;
            }
            pending.finish(ticket);
        };
        assert_eq!(pending.abandon(old), 0);
        assert!(pending.begin_frame(new.stream_id).unwrap().is_wanted());
    }

    #[test]
    fn every_waiting_caller_gets_the_reason_when_the_session_breaks() {
        let pending = Pending::default();
        let (events, mut receiver) = mpsc::unbounded_channel();
        for tag in 0..3 {
            pending.enter(tag, SINK, Some(events.clone()), None).unwrap();
        }
        pending.break_all("gone");
        let mut told = Vec::new();
        while let Ok((tag, Event::Lost(reason))) = receiver.try_recv() {
            assert_eq!(reason, "gone");
            told.push(tag);
        }
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2]);
        assert_eq!(pending.enter(0, SINK, Some(events), None), Err("gone".to_owned()));
    }

    #[test]
    fn two_frames_of_one_answer_cannot_be_read_at_once() {
        let pending = Pending::default();
        let ticket = pending.enter(0, SINK, None, None).unwrap();
        let owed = pending.begin_frame(ticket.stream_id).unwrap();
        assert!(pending.begin_frame(ticket.stream_id).is_none());
        pending.end_frame(owed);
        assert!(pending.begin_frame(ticket.stream_id).is_some());
    }
}
