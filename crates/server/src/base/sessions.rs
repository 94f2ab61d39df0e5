//! The state that all connections of a server share: its login sessions, and the parallel streams bound to them.

use crate::base::{event::Events, options::Options};
use forebay_front::Front;
use forebay_proto::{SessionId, limits::BOUND_STREAMS_MAX};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::task::AbortHandle;

/// The state that all connections of a server share.
pub(crate) struct ServerState {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
    pub(crate) sessions: Arc<Sessions>,
    /// Start of the server, in seconds of the Unix epoch.
    pub(crate) started: i64,
    prepare_requests: AtomicU64,
}

impl ServerState {
    pub(crate) fn new(front: Arc<Front>, options: Options) -> Self {
        let started = forebay_net::clock::now_unix();
        Self { front, options, sessions: Arc::default(), started, prepare_requests: AtomicU64::new(0) }
    }

    /// The id of a new prepare request.
    pub(crate) fn next_prepare_id(&self) -> String {
        // Ids stay unique over restarts, because the start time is part of them.
        format!("{}.{}", self.started, self.prepare_requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// The live sessions of this server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    entries: Mutex<HashMap<SessionId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    streams: Arc<Streams>,
    connection: AbortHandle,
}

/// The owner of a session, as named at login. This is no proof, but another user or host cannot use the session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    pub(crate) user: Vec<u8>,
    pub(crate) host: IpAddr,
}

/// A live session. It ends with its streams when this is dropped.
#[derive(Debug)]
pub(crate) struct Session {
    /// A secret: a client of the same host can bind to the session with it.
    pub(crate) id: SessionId,
    owner: Owner,
    streams: Arc<Streams>,
    sessions: Arc<Sessions>,
}

/// The parallel streams of one session by their path id.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    bound: Mutex<BTreeMap<u8, Events>>,
}

/// The place of a connection among the streams of a session. It becomes free when this is dropped.
#[derive(Debug)]
pub(crate) struct BoundStream {
    pub(crate) path_id: u8,
    streams: Arc<Streams>,
}

/// Why a connection is not bound to a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BindError {
    #[error("session not found")]
    UnknownSession,
    #[error("the session belongs to another host")]
    OtherHost,
    #[error("a session has at most {BOUND_STREAMS_MAX} parallel streams")]
    TooMany,
}

impl Sessions {
    /// Opens a session. `connection` aborts the task of its connection. Fails when the operating system has no random bytes for
    /// the id.
    pub(crate) fn login(self: &Arc<Self>, owner: Owner, connection: AbortHandle) -> std::io::Result<Session> {
        let id = new_id()?;
        let streams = Arc::new(Streams::default());
        let entry = Entry { owner: owner.clone(), streams: Arc::clone(&streams), connection };
        self.entries.lock().insert(id, entry);
        Ok(Session { id, owner, streams, sessions: Arc::clone(self) })
    }

    /// Makes the connection of `events` a stream of session `id`.
    pub(crate) fn bind(&self, id: SessionId, host: IpAddr, events: Events) -> Result<BoundStream, BindError> {
        let entries = self.entries.lock();
        let entry = entries.get(&id).ok_or(BindError::UnknownSession)?;
        // The id alone is not enough: it crosses the network in clear without TLS.
        if entry.owner.host != host {
            return Err(BindError::OtherHost);
        }
        let mut bound = entry.streams.bound.lock();
        // Path id 0 is the main connection.
        let path_id = (1..=BOUND_STREAMS_MAX).find(|id| !bound.contains_key(id)).ok_or(BindError::TooMany)?;
        bound.insert(path_id, events);
        Ok(BoundStream { path_id, streams: Arc::clone(&entry.streams) })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }
}

impl Session {
    /// The stream for answers to requests with `path_id`, if there is one.
    pub(crate) fn stream(&self, path_id: u8) -> Option<Events> {
        self.streams.bound.lock().get(&path_id).cloned()
    }

    /// Ends another session of the same owner at once, with its open files and requests. Returns whether there was one.
    pub(crate) fn end_other(&self, id: SessionId) -> bool {
        let entries = self.sessions.entries.lock();
        let entry = entries.get(&id).filter(|entry| entry.owner == self.owner && id != self.id);
        if let Some(entry) = entry {
            entry.connection.abort();
        }
        entry.is_some()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.entries.lock().remove(&self.id);
        // The dropped senders end the tasks of the bound streams.
        self.streams.bound.lock().clear();
    }
}

impl Drop for BoundStream {
    fn drop(&mut self) {
        self.streams.bound.lock().remove(&self.path_id);
    }
}

/// An id that cannot be guessed.
fn new_id() -> std::io::Result<SessionId> {
    let mut id = SessionId::default();
    let mut filled = 0;
    // The system call may return fewer bytes than requested.
    while let Some(rest) = id.0.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event::Event;
    use tokio::sync::mpsc;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const OTHER_HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// A session of `user`, and the task of its connection.
    fn login(sessions: &Arc<Sessions>, user: &str) -> (Session, tokio::task::JoinHandle<()>) {
        let connection = tokio::spawn(std::future::pending());
        let owner = Owner { user: user.into(), host: HOST };
        (sessions.login(owner, connection.abort_handle()).unwrap(), connection)
    }

    fn events() -> (Events, mpsc::Receiver<Event>) {
        mpsc::channel(1)
    }

    #[tokio::test]
    async fn streams_get_the_lowest_free_path_id_and_fifteen_are_the_limit() {
        let sessions = Arc::new(Sessions::default());
        let (session, _) = login(&sessions, "u");
        let bind = || sessions.bind(session.id, HOST, events().0);
        let mut bound: Vec<_> = (1..=15).map(|_| bind().unwrap()).collect();
        assert!(bound.iter().map(|stream| stream.path_id).eq(1..=15));
        assert_eq!(bind().unwrap_err(), BindError::TooMany);
        bound.remove(3);
        assert!(session.stream(4).is_none());
        assert_eq!(bind().unwrap().path_id, 4);
    }

    #[tokio::test]
    async fn only_the_host_of_a_live_session_binds_to_it_and_streams_end_with_it() {
        let sessions = Arc::new(Sessions::default());
        let (session, _) = login(&sessions, "u");
        assert_eq!(sessions.bind(session.id, OTHER_HOST, events().0).unwrap_err(), BindError::OtherHost);
        let unknown = SessionId([0; 16]);
        assert_eq!(sessions.bind(unknown, HOST, events().0).unwrap_err(), BindError::UnknownSession);
        assert!(session.stream(1).is_none());
        let (sender, mut receiver) = events();
        let _bound = sessions.bind(session.id, HOST, sender).unwrap();
        assert!(session.stream(1).is_some());
        drop(session);
        assert!(receiver.recv().await.is_none());
        assert_eq!(sessions.len(), 0);
    }

    #[tokio::test]
    async fn only_its_owner_ends_a_session() {
        let sessions = Arc::new(Sessions::default());
        let [(old, task), (stranger, _), (own, _)] = ["u", "v", "u"].map(|user| login(&sessions, user));
        assert!(!stranger.end_other(old.id));
        assert!(!own.end_other(own.id));
        assert!(!own.end_other(SessionId([0; 16])));
        assert!(own.end_other(old.id));
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
