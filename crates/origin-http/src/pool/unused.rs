//! Connections without a request, and the requests that wait for one.

use super::{Connection, Contact};
use crate::options::{IDLE_MAX, IDLE_PER_SERVER_MAX};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

#[derive(Default)]
pub(super) struct Unused {
    /// Those used last are at the end.
    parked: HashMap<Contact, Vec<Parked>>,
    count: usize,
    waiting: HashMap<Contact, VecDeque<oneshot::Sender<Connection>>>,
}

struct Parked {
    connection: Connection,
    since: Instant,
}

impl Unused {
    /// A connection to `contact` that was used within `idle_timeout`.
    pub(super) fn take(&mut self, contact: &Contact, idle_timeout: Duration) -> Option<Connection> {
        let parked = self.parked.get_mut(contact)?;
        while let Some(Parked { connection, since }) = parked.pop() {
            self.count -= 1;
            // The last one is the freshest: if it is too old, so are all.
            if since.elapsed() < idle_timeout && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// The next connection to `contact` that has no request any more. Those that wait longer come first.
    pub(super) fn wait(&mut self, contact: Contact) -> oneshot::Receiver<Connection> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.entry(contact).or_default().push_back(sender);
        receiver
    }

    /// Forgets requests that have ended.
    pub(super) fn forget_ended(&mut self, contact: &Contact) {
        let Some(waiting) = self.waiting.get_mut(contact) else { return };
        waiting.retain(|sender| !sender.is_closed());
        if waiting.is_empty() {
            self.waiting.remove(contact);
        }
    }

    /// Whether a request waits for a connection to `contact`.
    #[cfg(test)]
    pub(super) fn is_awaited(&self, contact: &Contact) -> bool {
        self.waiting.contains_key(contact)
    }

    /// Gives a connection to a request that waits, or keeps it; drops it if there are enough. Returns whether it is kept.
    pub(super) fn put(&mut self, mut connection: Connection) -> bool {
        if connection.sender.is_closed() {
            return false;
        }
        while let Some(sender) = self.waiting.get_mut(&connection.contact).and_then(VecDeque::pop_front) {
            connection = match sender.send(connection) {
                Ok(()) => return false,
                Err(connection) => connection,
            };
        }
        let parked = self.parked.entry(connection.contact.clone()).or_default();
        let has_room = self.count < IDLE_MAX && parked.len() < IDLE_PER_SERVER_MAX;
        if has_room {
            parked.push(Parked { connection, since: Instant::now() });
            self.count += 1;
        }
        has_room
    }

    /// Closes connections that were not used for `idle_timeout`; returns whether any are left.
    pub(super) fn close_old(&mut self, idle_timeout: Duration) -> bool {
        for parked in self.parked.values_mut() {
            parked.retain(|parked| parked.since.elapsed() < idle_timeout && !parked.connection.sender.is_closed());
        }
        self.parked.retain(|_, parked| !parked.is_empty());
        self.count = self.parked.values().map(Vec::len).sum();
        self.count > 0
    }
}
