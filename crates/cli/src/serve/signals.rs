//! Signals of the operator.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals the server listens to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

impl Signals {
    /// Replaces the default actions of the signals.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn stop_or_reload(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop,
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.hang_up.recv() => Request::Reload,
        }
    }

    /// The next request to stop; reloads are ignored.
    pub(crate) async fn stop(&mut self) {
        while self.stop_or_reload().await == Request::Reload {}
    }
}
