//! Accepts connections, and ends them at a shutdown.

use crate::{
    base::{
        event::{Event, Events},
        options::{EVENTS_QUEUED_MAX, Options},
        sessions::ServerState,
    },
    connection::{
        client_connection::{Accepted, serve_connection},
        shared_listener::{Claim, Shared, claim},
    },
};
use forebay_front::{Front, Serving};
use forebay_net::Listener;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    task::{Id, JoinError, JoinSet},
};

/// The `root://` front of a cache or a manager. Cheap to clone; clones share sessions and limits, so one server may serve several
/// listeners.
#[derive(Clone)]
pub struct Server {
    state: Arc<ServerState>,
}

/// The connections of one listener.
#[derive(Default)]
struct Connections {
    shared: Shared,
    /// A task returns the client that it has found to be of the second protocol.
    tasks: JoinSet<Option<Serving>>,
    events: HashMap<Id, mpsc::WeakSender<Event>>,
    /// Ends the connections of the second protocol.
    stop: watch::Sender<bool>,
    refusals: Refusals,
}

/// Counts refused connections between two log lines: a persistent client must not fill the log.
#[derive(Default)]
struct Refusals {
    count: u64,
    logged: Option<Instant>,
}

/// Minimum time between two log lines on refused connections.
const REFUSALS_LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Server {
    /// A server that answers from the backend of `front`.
    pub fn new(front: Arc<Front>, options: Options) -> Self {
        Self { state: Arc::new(ServerState::new(front, options)) }
    }

    /// Serves the clients of `listener` until `shutdown` is ready. Then it accepts no more connections, finishes the requests
    /// in progress, and returns when all clients have got their answers. The caller bounds that wait.
    ///
    /// Dropping the future ends all its connections at once.
    pub async fn serve(&self, listener: Listener, shutdown: impl Future<Output = ()>) {
        self.serve_shared(listener, Shared::default(), shutdown).await;
    }

    /// As [`Server::serve`], on a listener that another protocol shares.
    pub async fn serve_shared(&self, mut listener: Listener, shared: Shared, shutdown: impl Future<Output = ()>) {
        let mut connections = Connections { shared, ..Connections::default() };
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                (stream, peer) = listener.accept() => self.admit(stream, peer, &mut connections),
                Some(ended) = connections.tasks.join_next_with_id() => connections.forget(ended),
            }
        }
        // New clients are refused by the kernel from now on, and a load balancer notices.
        drop(listener);
        connections.drain().await;
    }

    /// Starts to serve a new connection, unless a limit is reached. A draining server accepts connections too: the refusal of an
    /// open sends clients elsewhere at once, whereas they try for minutes to connect again after a closed connection.
    fn admit(&self, stream: TcpStream, peer: SocketAddr, connections: &mut Connections) {
        let places = match self.state.front.limits.admit(peer.ip()) {
            Ok(places) => places,
            Err(limit) => {
                self.state.front.backend.metrics().add_refused_connection(limit);
                if let Some(refused) = connections.refusals.note(forebay_net::clock::monotonic()) {
                    tracing::warn!(%peer, limit = limit.as_str(), refused, "connections refused: too many connections");
                }
                return;
            }
        };
        let local = match stream.local_addr() {
            // `locate` shows this address to clients: an IPv4 address must not look like IPv6.
            Ok(local) => SocketAddr::new(local.ip().to_canonical(), local.port()),
            Err(error) => {
                tracing::debug!(%peer, %error, "connection died before it was served");
                return;
            }
        };
        connections.spawn(Accepted { stream, peer, local, places, state: Arc::clone(&self.state) });
    }
}

impl Refusals {
    /// Counts a refused connection. Returns the count when it is due to be logged.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        let is_due = self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= REFUSALS_LOG_INTERVAL);
        is_due.then(|| {
            self.logged = Some(now);
            std::mem::take(&mut self.count)
        })
    }
}

impl Connections {
    fn spawn(&mut self, accepted: Accepted) {
        let (events, receiver) = mpsc::channel(EVENTS_QUEUED_MAX);
        // A strong sender would keep the channel open, and a bound stream would not notice the end of its session.
        let weak_events = events.downgrade();
        let (give_abort, abort) = oneshot::channel();
        let (shared, stop) = (self.shared.clone(), self.stop.subscribe());
        let task = self.tasks.spawn(async move {
            // The task gets its own abort handle, which exists only after the spawn.
            let abort = abort.await.ok()?;
            let accepted = match claim(accepted, shared, stop).await? {
                Claim::Root(accepted) => *accepted,
                Claim::Other(serving) => return Some(serving),
            };
            serve_connection(accepted, events, receiver, abort).await;
            None
        });
        self.events.insert(task.id(), weak_events);
        // The receiver lives in the task that has just been spawned, unless the runtime is going down.
        let _ = give_abort.send(task);
    }

    fn forget(&mut self, ended: Result<(Id, Option<Serving>), JoinError>) {
        let id = match ended {
            Ok((id, None)) => id,
            Ok((id, Some(serving))) => {
                // A task of its own: this one has room for a session of `root://`, which takes several times the memory.
                self.tasks.spawn(async move {
                    serving.await;
                    None
                });
                id
            }
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "an internal error ended a connection");
                }
                error.id()
            }
        };
        self.events.remove(&id);
    }

    /// Lets all connections finish the requests in progress.
    async fn drain(mut self) {
        self.stop.send_replace(true);
        for events in self.events.values().filter_map(mpsc::WeakSender::upgrade) {
            tokio::spawn(send_drain(events));
        }
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.forget(ended);
        }
    }
}

async fn send_drain(events: Events) {
    // An error means that the connection has ended by itself.
    let _ = events.send(Event::Drain).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_are_all_counted_and_logged_at_intervals() {
        let mut refusals = Refusals::default();
        let start = forebay_net::clock::monotonic();
        assert_eq!(refusals.note(start), Some(1));
        assert_eq!(refusals.note(start), None);
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL / 2), None);
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL), Some(3));
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL), None);
    }
}
