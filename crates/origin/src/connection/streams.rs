//! Parallel streams of a session, for ways on which one socket's window is the limit. By default there are none.

use super::{
    Shared,
    dial::{Dialer, Route, SetUp},
    reader,
};
use forebay_proto::{ClientPurpose, SessionId, limits::BOUND_STREAMS_MAX};
use forebay_types::Endpoint;
use parking_lot::RwLock;
use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Answers of at least this many bytes may come by a parallel stream: smaller ones gain nothing.
const PARALLEL_LEN_MIN: u64 = 256 << 10;

/// Bytes asked for at once from which on the streams are opened: more than one socket has in flight to a near server.
const BULK_LEN_MIN: u64 = 1 << 20;

/// Opens the parallel streams with the first bulk read and shares answers out over them. A server that refuses them is
/// read from by the main socket alone.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Where they connect to: the very address of the main socket, since another machine behind the same name would
    /// not know the session.
    route: Route,
    session_id: Option<SessionId>,
    streams_max: u8,
    dialer: Dialer,
    session: Weak<Shared>,
    is_opened: AtomicBool,
    /// Path ids of the open streams.
    path_ids: Arc<RwLock<Vec<u8>>>,
    turn: AtomicUsize,
}

impl Streams {
    pub(super) fn new(
        session: &Arc<Shared>,
        main: &Route,
        address: SocketAddr,
        session_id: Option<SessionId>,
        streams_max: u8,
        dialer: &Dialer,
    ) -> Self {
        let endpoint = Endpoint::new(&address.ip().to_canonical().to_string(), address.port());
        Self {
            route: Route { endpoint, ..main.clone() },
            session_id,
            streams_max,
            dialer: dialer.clone(),
            session: Arc::downgrade(session),
            is_opened: AtomicBool::new(false),
            path_ids: Arc::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Says that `len` bytes are about to be asked for. The first time that this is much, the streams are opened in the
    /// background.
    pub(crate) fn prepare(&self, len: u64) {
        if len < BULK_LEN_MIN || self.is_opened.load(Ordering::Relaxed) {
            return;
        }
        let (Some(session_id), Some(session)) = (self.session_id, self.session.upgrade()) else { return };
        if self.is_opened.swap(true, Ordering::Relaxed) {
            return;
        }
        for _ in 1..self.streams_max.min(BOUND_STREAMS_MAX) {
            session.spawn(self.open_one(session_id, Arc::clone(&session)));
        }
    }

    fn open_one(&self, session_id: SessionId, session: Arc<Shared>) -> impl Future<Output = ()> + Send + use<> {
        let (route, dialer) = (self.route.clone(), self.dialer.clone());
        let path_ids = Arc::clone(&self.path_ids);
        async move {
            let purpose = ClientPurpose::Bind { session_id };
            match dialer.set_up(&route, purpose, &session.activity).await {
                Ok(SetUp { inlet, peer, .. }) => {
                    path_ids.write().push(peer.path_id);
                    reader::run(inlet, session).await;
                }
                Err(error) => tracing::debug!(endpoint = %route.endpoint, %error, "no parallel stream"),
            }
        }
    }

    /// The path id of the stream by which the next answer of `len` bytes should come; 0 is the main socket.
    pub(crate) fn path_id(&self, len: u64) -> u8 {
        if len < PARALLEL_LEN_MIN || !self.is_opened.load(Ordering::Relaxed) {
            return 0;
        }
        let path_ids = self.path_ids.read();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % (path_ids.len() + 1);
        turn.checked_sub(1).and_then(|index| path_ids.get(index).copied()).unwrap_or(0)
    }
}
