//! The server: accepts connections, and sees to their end.

use crate::{
    connection::{Accepted, serve_connection},
    event::{Event, Events},
    options::{EVENTS_QUEUED_MAX, Options},
    sessions::Sessions,
};
use forebay_front::Front;
use forebay_net::Listener;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::{Id, JoinError, JoinSet},
};

/// The `root://` front of an engine. Cheap to clone; clones share sessions and limits, so one server may serve several
/// listeners.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
    pub(crate) sessions: Arc<Sessions>,
    /// When the server started, in seconds of the Unix epoch.
    pub(crate) started: i64,
    prepare_requests: AtomicU64,
}

/// The connections of one listener.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    events: HashMap<Id, mpsc::WeakSender<Event>>,
    refusals: Refusals,
}

/// Connections refused since this was last logged: whoever insists must not fill the log.
#[derive(Default)]
struct Refusals {
    count: u64,
    logged: Option<Instant>,
}

/// Shortest time between two lines of the log that tell of refused connections.
const REFUSALS_LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Server {
    /// A server that answers from the engine of `front`. While that is draining, new connections are closed at once and opens
    /// are refused; open files are served further.
    #[must_use]
    pub fn new(front: Arc<Front>, options: Options) -> Self {
        let shared = Shared {
            front,
            options,
            sessions: Arc::default(),
            started: forebay_net::clock::now_unix(),
            prepare_requests: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves the clients of `listener` until `shutdown` is ready. Then no connection is accepted any more, requests under
    /// way are finished, and this returns when every client has got its answers; the caller bounds that wait.
    ///
    /// Dropping the future ends all its connections at once.
    pub async fn serve(&self, mut listener: Listener, shutdown: impl Future<Output = ()>) {
        let mut connections = Connections::default();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                (stream, peer) = listener.accept() => self.admit(stream, peer, &mut connections),
                Some(ended) = connections.tasks.join_next_with_id() => connections.forget(ended),
            }
        }
        drop(listener);
        connections.drain().await;
    }

    /// Starts to serve a new connection, unless the server is draining or there are too many.
    fn admit(&self, stream: TcpStream, peer: SocketAddr, connections: &mut Connections) {
        if self.shared.front.readiness.is_draining() {
            tracing::debug!(%peer, "connection refused: the server is draining");
            return;
        }
        let places = match self.shared.front.limits.admit(peer.ip()) {
            Ok(places) => places,
            Err(limit) => {
                self.shared.front.engine.metrics().add_refused_connection(limit);
                if let Some(refused) = connections.refusals.note(forebay_net::clock::monotonic()) {
                    tracing::warn!(%peer, limit = limit.as_str(), refused, "connections refused: too many connections");
                }
                return;
            }
        };
        let local = match stream.local_addr() {
            Ok(local) => SocketAddr::new(local.ip().to_canonical(), local.port()),
            Err(error) => {
                tracing::debug!(%peer, %error, "connection died before it was served");
                return;
            }
        };
        connections.spawn(Accepted { stream, peer, local, places, shared: Arc::clone(&self.shared) });
    }
}

impl Shared {
    /// The id of a new prepare request.
    pub(crate) fn next_prepare_id(&self) -> String {
        format!("{}.{}", self.started, self.prepare_requests.fetch_add(1, Ordering::Relaxed))
    }
}

impl Refusals {
    /// Notes a refused connection; how many there were when it is time to log that.
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
        let weak_events = events.downgrade();
        let (give_abort, abort) = oneshot::channel();
        let task = self.tasks.spawn(async move {
            if let Ok(abort) = abort.await {
                serve_connection(accepted, events, receiver, abort).await;
            }
        });
        self.events.insert(task.id(), weak_events);
        // The receiver lives in the task that has just been spawned, unless the runtime is going down.
        let _ = give_abort.send(task);
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a connection died of a fault of our own");
                }
                error.id()
            }
        };
        self.events.remove(&id);
    }

    /// Lets every connection finish what is under way.
    async fn drain(mut self) {
        for events in self.events.values().filter_map(mpsc::WeakSender::upgrade) {
            tokio::spawn(send_drain(events));
        }
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.forget(ended);
        }
    }
}

async fn send_drain(events: Events) {
    // A connection that ended by itself needs no telling.
    let _ = events.send(Event::Drain).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_are_logged_now_and_then_and_all_counted() {
        let mut refusals = Refusals::default();
        let start = forebay_net::clock::monotonic();
        assert_eq!(refusals.note(start), Some(1));
        assert_eq!(refusals.note(start), None);
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL / 2), None);
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL), Some(3));
        assert_eq!(refusals.note(start + REFUSALS_LOG_INTERVAL), None);
    }
}
