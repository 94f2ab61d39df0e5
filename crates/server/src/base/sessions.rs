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
    /// The proof of its login; `None` before that.
    proof: Option<Standing>,
    streams: Arc<Streams>,
    connection: AbortHandle,
}

/// The proven properties of a connection.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Standing {
    /// The proven identity; `None` for a name without a proof.
    pub(crate) identity: Option<String>,
    /// Whether a certificate of the TLS handshake proves it, so that each connection of the client proves it again.
    pub(crate) is_certified: bool,
    pub(crate) is_tls: bool,
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
    #[error("a session and its parallel streams must all be encrypted, or none of them")]
    OtherEncryption,
    #[error("the session belongs to another identity")]
    OtherIdentity,
    #[error("a session has at most {BOUND_STREAMS_MAX} parallel streams")]
    TooMany,
}

/// The result of ending another session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    Ended,
    /// There is none, or its login is not proven yet.
    Unknown,
    /// It belongs to another client, and lives.
    Foreign,
}

impl Sessions {
    /// Opens a session. `connection` aborts the task of its connection. Fails when the operating system has no random bytes for
    /// the id.
    pub(crate) fn login(self: &Arc<Self>, owner: Owner, connection: AbortHandle) -> std::io::Result<Session> {
        let id = new_id()?;
        let streams = Arc::new(Streams::default());
        let entry = Entry { owner: owner.clone(), proof: None, streams: Arc::clone(&streams), connection };
        self.entries.lock().insert(id, entry);
        Ok(Session { id, owner, streams, sessions: Arc::clone(self) })
    }

    /// Makes the connection of `events` a stream of session `id`. `stream` has the proof of the connection itself.
    pub(crate) fn bind(
        &self,
        id: SessionId,
        host: IpAddr,
        stream: &Standing,
        events: Events,
    ) -> Result<BoundStream, BindError> {
        let entries = self.entries.lock();
        let (entry, proof) = entries.get(&id).and_then(Entry::proven).ok_or(BindError::UnknownSession)?;
        // The id alone is not enough: it crosses the network in clear without TLS.
        if entry.owner.host != host {
            return Err(BindError::OtherHost);
        }
        if proof.is_tls != stream.is_tls {
            return Err(BindError::OtherEncryption);
        }
        // A stream has no login: only a certificate can prove its identity.
        if (stream.identity.is_some() || proof.is_certified) && stream.identity != proof.identity {
            return Err(BindError::OtherIdentity);
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

impl Entry {
    /// The session, if its login is proven.
    fn proven(&self) -> Option<(&Self, &Standing)> {
        self.proof.as_ref().map(|proof| (self, proof))
    }
}

impl Session {
    /// Notes the proof of the login. Before that no other connection can use or end the session.
    pub(crate) fn prove(&self, proof: Standing) {
        if let Some(entry) = self.sessions.entries.lock().get_mut(&self.id) {
            entry.proof = Some(proof);
        }
    }

    /// The stream for answers to requests with `path_id`, if there is one.
    pub(crate) fn stream(&self, path_id: u8) -> Option<Events> {
        self.streams.bound.lock().get(&path_id).cloned()
    }

    /// Ends another session of the same owner at once, with its open files and requests: of the same login name, host, proven
    /// identity and encryption.
    pub(crate) fn end_other(&self, id: SessionId) -> Ending {
        let entries = self.sessions.entries.lock();
        let own = entries.get(&self.id).and_then(Entry::proven);
        let (Some((entry, proof)), Some((_, own))) = (entries.get(&id).and_then(Entry::proven), own) else {
            return Ending::Unknown;
        };
        let is_same = (&proof.identity, proof.is_tls) == (&own.identity, own.is_tls);
        if entry.owner != self.owner || !is_same {
            return Ending::Foreign;
        }
        entry.connection.abort();
        Ending::Ended
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
    fn login(sessions: &Arc<Sessions>, user: &str, proof: Standing) -> (Session, tokio::task::JoinHandle<()>) {
        let connection = tokio::spawn(std::future::pending());
        let owner = Owner { user: user.into(), host: HOST };
        let session = sessions.login(owner, connection.abort_handle()).unwrap();
        session.prove(proof);
        (session, connection)
    }

    fn proof(identity: &str, is_tls: bool) -> Standing {
        let identity = Some(identity.to_owned()).filter(|identity| !identity.is_empty());
        Standing { is_certified: false, identity, is_tls }
    }

    fn events() -> (Events, mpsc::Receiver<Event>) {
        mpsc::channel(1)
    }

    #[tokio::test]
    async fn streams_get_the_lowest_free_path_id_and_fifteen_are_the_limit() {
        let sessions = Arc::new(Sessions::default());
        let (session, _) = login(&sessions, "u", Standing::default());
        let bind = || sessions.bind(session.id, HOST, &Standing::default(), events().0);
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
        let (session, _) = login(&sessions, "u", Standing::default());
        let plain = Standing::default();
        assert_eq!(sessions.bind(session.id, OTHER_HOST, &plain, events().0).unwrap_err(), BindError::OtherHost);
        let unknown = SessionId([0; 16]);
        assert_eq!(sessions.bind(unknown, HOST, &plain, events().0).unwrap_err(), BindError::UnknownSession);
        assert!(session.stream(1).is_none());
        let (sender, mut receiver) = events();
        let _bound = sessions.bind(session.id, HOST, &plain, sender).unwrap();
        assert!(session.stream(1).is_some());
        drop(session);
        assert!(receiver.recv().await.is_none());
        assert_eq!(sessions.len(), 0);
    }

    #[tokio::test]
    async fn a_stream_proves_no_less_than_its_session() {
        let sessions = Arc::new(Sessions::default());
        let certified = Standing { is_certified: true, ..proof("a", true) };
        for (session, stream, refused) in [
            (proof("", false), proof("", false), None),
            (proof("a", true), proof("", true), None),
            (proof("a", true), proof("a", true), None),
            (certified.clone(), certified.clone(), None),
            (proof("a", true), proof("", false), Some(BindError::OtherEncryption)),
            (proof("", false), proof("", true), Some(BindError::OtherEncryption)),
            (proof("a", true), proof("b", true), Some(BindError::OtherIdentity)),
            (proof("", true), proof("b", true), Some(BindError::OtherIdentity)),
            (certified.clone(), proof("", true), Some(BindError::OtherIdentity)),
        ] {
            let (session, _) = login(&sessions, "u", session);
            assert_eq!(sessions.bind(session.id, HOST, &stream, events().0).err(), refused, "{stream:?}");
        }
    }

    #[tokio::test]
    async fn a_session_is_of_no_use_to_others_before_its_login_is_proven() {
        let sessions = Arc::new(Sessions::default());
        let connection = tokio::spawn(std::future::pending::<()>());
        let owner = Owner { user: b"u".to_vec(), host: HOST };
        let pending = sessions.login(owner, connection.abort_handle()).unwrap();
        let (own, _) = login(&sessions, "u", proof("a", false));
        let bound = sessions.bind(pending.id, HOST, &Standing::default(), events().0);
        assert_eq!(bound.unwrap_err(), BindError::UnknownSession);
        assert_eq!(own.end_other(pending.id), Ending::Unknown);
        assert_eq!(pending.end_other(own.id), Ending::Unknown);
    }

    #[tokio::test]
    async fn only_its_owner_ends_a_session() {
        let sessions = Arc::new(Sessions::default());
        let (old, task) = login(&sessions, "u", proof("a", true));
        for (user, proof) in
            [("v", proof("a", true)), ("u", proof("b", true)), ("u", proof("", true)), ("u", proof("a", false))]
        {
            let (stranger, _) = login(&sessions, user, proof);
            assert_eq!(stranger.end_other(old.id), Ending::Foreign);
        }
        let (own, _) = login(&sessions, "u", proof("a", true));
        assert_eq!(own.end_other(SessionId([0; 16])), Ending::Unknown);
        assert_eq!(own.end_other(old.id), Ending::Ended);
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
