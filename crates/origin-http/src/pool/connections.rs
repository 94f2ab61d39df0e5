//! Connections without a request, those that are being made, and the requests that wait for one.

use super::{Connection, Contact};
use crate::options::{IDLE_MAX, IDLE_PER_SERVER_MAX, WARM_LEN};
use forebay_origin::OriginError;
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

pub(super) type Connected = Result<Connection, OriginError>;

#[derive(Default)]
pub(super) struct Connections {
    servers: HashMap<Contact, Server>,
    parked_count: usize,
}

/// The state of one server. It is forgotten when it has nothing.
#[derive(Default)]
struct Server {
    /// Those that became unused last are at the end.
    parked: Vec<Parked>,
    /// Those that wait longest are at the front.
    waiting: VecDeque<oneshot::Sender<Connected>>,
    /// Connections that are being made.
    dialling: usize,
}

struct Parked {
    connection: Connection,
    since: Instant,
}

impl Server {
    /// An unused connection: of those that have carried much the last one, since TCP has opened their windows, else the one that has
    /// carried most.
    fn take(&mut self) -> Option<Connection> {
        let carried = |(_, parked): &(usize, &Parked)| parked.connection.received.min(WARM_LEN);
        let (place, _) = self.parked.iter().enumerate().max_by_key(carried)?;
        Some(self.parked.remove(place).connection)
    }

    /// Forgets connections that were not used for `idle_timeout`, and such that the server has closed.
    fn close_old(&mut self, idle_timeout: Duration) {
        let is_usable =
            |parked: &Parked| parked.since.elapsed() < idle_timeout && !parked.connection.sender.is_closed();
        self.parked.retain(is_usable);
    }

    /// Gives `connected` to a request that waits; returns it if there is none.
    fn give(&mut self, mut connected: Connected) -> Option<Connected> {
        while let Some(sender) = self.waiting.pop_front() {
            connected = match sender.send(connected) {
                Ok(()) => return None,
                Err(connected) => connected,
            };
        }
        Some(connected)
    }

    fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.waiting.is_empty() && self.dialling == 0
    }
}

impl Connections {
    /// Does something with the state of a server, and keeps the sums.
    fn at<T>(&mut self, contact: &Contact, change: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = self.servers.remove(contact).unwrap_or_default();
        let before = server.parked.len();
        let result = change(&mut server);
        self.parked_count = self.parked_count + server.parked.len() - before;
        if !server.is_empty() {
            self.servers.insert(contact.clone(), server);
        }
        result
    }

    /// A connection to `contact` that was used within `idle_timeout`.
    pub(super) fn take(&mut self, contact: &Contact, idle_timeout: Duration) -> Option<Connection> {
        self.at(contact, |server| {
            server.close_old(idle_timeout);
            server.take()
        })
    }

    /// The next connection to `contact` that has no request, and whether the caller has to begin to make one: enough are being
    /// made for the requests that wait.
    pub(super) fn wait(&mut self, contact: &Contact) -> (oneshot::Receiver<Connected>, bool) {
        let (sender, receiver) = oneshot::channel();
        self.at(contact, |server| {
            server.waiting.push_back(sender);
            let is_to_dial = server.waiting.len() > server.dialling;
            server.dialling += usize::from(is_to_dial);
            (receiver, is_to_dial)
        })
    }

    /// How many connections to `contact` the caller has to begin to make, so that `count` more requests find one.
    pub(super) fn prepare(&mut self, contact: &Contact, count: usize) -> usize {
        self.at(contact, |server| {
            let expected = (server.parked.len() + server.dialling).saturating_sub(server.waiting.len());
            let missing = count.saturating_sub(expected);
            server.dialling += missing;
            missing
        })
    }

    /// The end of an attempt to make a connection. An error is that of one request, unless enough attempts are left for all that wait.
    pub(super) fn dialled(&mut self, contact: &Contact, connected: Connected) -> bool {
        let left = self.at(contact, |server| {
            server.dialling -= 1;
            server.waiting.retain(|sender| !sender.is_closed());
            let is_needed = connected.is_ok() || server.waiting.len() > server.dialling;
            if is_needed { server.give(connected) } else { None }
        });
        // No request waits: the next one finds out itself why there is no connection.
        left.and_then(Result::ok).is_some_and(|connection| self.put(connection))
    }

    /// Forgets requests that have ended.
    pub(super) fn forget_ended(&mut self, contact: &Contact) {
        self.at(contact, |server| server.waiting.retain(|sender| !sender.is_closed()));
    }

    /// Whether a request waits for a connection to `contact`.
    #[cfg(test)]
    pub(super) fn is_awaited(&self, contact: &Contact) -> bool {
        self.servers.get(contact).is_some_and(|server| !server.waiting.is_empty())
    }

    /// Gives a connection to a request that waits, or keeps it; drops it if there are enough. Returns whether it is kept.
    pub(super) fn put(&mut self, mut connection: Connection) -> bool {
        if connection.sender.is_closed() {
            return false;
        }
        // From now on the server may close it at any time.
        connection.is_reused = true;
        let has_room = self.parked_count < IDLE_MAX;
        let contact = connection.contact.clone();
        self.at(&contact, |server| match server.give(Ok(connection)) {
            Some(Ok(connection)) if has_room && server.parked.len() < IDLE_PER_SERVER_MAX => {
                server.parked.push(Parked { connection, since: Instant::now() });
                true
            }
            _ => false,
        })
    }

    /// Closes connections that were not used for `idle_timeout`; returns whether any are left.
    pub(super) fn close_old(&mut self, idle_timeout: Duration) -> bool {
        self.servers.values_mut().for_each(|server| server.close_old(idle_timeout));
        self.servers.retain(|_, server| !server.is_empty());
        self.parked_count = self.servers.values().map(|server| server.parked.len()).sum();
        self.parked_count > 0
    }
}
