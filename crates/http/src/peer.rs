//! The client of a connection, and the state that all of its requests share.

use crate::{open_files::OpenFiles, options::REFUSED_TOKENS_MAX, state::State};
use forebay_engine::Caller;
use forebay_front::{ConnectionMemory, HandleShare, Place};
use forebay_net::TlsFacts;
use forebay_telemetry::Metrics;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};
use tokio::sync::OnceCell;

/// The client of a connection, and the state that all of its requests share. With HTTP/2 they are answered at the same time.
pub(crate) struct Peer {
    pub(crate) state: Arc<State>,
    pub(crate) address: SocketAddr,
    /// Facts of the handshake; `None` without encryption.
    pub(crate) tls: Option<TlsFacts>,
    pub(crate) files: OpenFiles,
    pub(crate) login: OnceCell<Login>,
    refused_tokens: AtomicU32,
    pub(crate) handle_share: HandleShare,
    pub(crate) memory: ConnectionMemory,
    pub(crate) metrics: Metrics,
}

/// The client of a connection, as it has proven itself.
pub(crate) struct Login {
    pub(crate) caller: Arc<Caller>,
    /// Whether the client may do something without a token.
    pub(crate) is_proven: bool,
    _place: Option<Place<String>>,
}

impl Login {
    pub(crate) const fn new(caller: Arc<Caller>, is_proven: bool, place: Option<Place<String>>) -> Self {
        Self { caller, is_proven, _place: place }
    }
}

impl Peer {
    pub(crate) fn new(
        state: Arc<State>,
        address: SocketAddr,
        tls: Option<TlsFacts>,
        handle_share: HandleShare,
    ) -> Self {
        let memory = ConnectionMemory::new(&state.front.answer_memory);
        let metrics = state.front.backend.metrics().clone();
        Self {
            state,
            address,
            tls,
            files: OpenFiles::default(),
            login: OnceCell::new(),
            refused_tokens: AtomicU32::new(0),
            handle_share,
            memory,
            metrics,
        }
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// An answer was given at `now`. Files stay open between requests only as long as other connections of the client do not need
    /// their places.
    pub(crate) fn note_answer(&self, now: Instant) {
        self.files.note_answer(now);
        if self.handle_share.is_scarce() {
            self.files.close_all();
        }
    }

    pub(crate) fn note_refused_token(&self) {
        self.refused_tokens.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether so many tokens were refused on this connection that the client seems to guess.
    pub(crate) fn guesses_tokens(&self) -> bool {
        self.refused_tokens.load(Ordering::Relaxed) >= REFUSED_TOKENS_MAX
    }
}
