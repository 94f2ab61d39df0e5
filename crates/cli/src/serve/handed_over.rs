//! The socket that a service manager has opened for us and hands over (`LISTEN_FDS`, as systemd does).

use listenfd::ListenFd;
use std::{io, os::unix::net::UnixListener};

/// Why what was handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandedOverError {
    #[error("{count} sockets were handed over: one is used, that of the admin port (ListenStream= in forebay.socket)")]
    Several { count: usize },
    #[error("what was handed over is no listening unix socket ({0}): the admin port uses no other")]
    Unfit(io::Error),
}

/// The socket of the admin port, if one was handed over. To be asked before there is a second thread: what has been taken is
/// not told to programs that are started later.
pub(super) fn admin_socket() -> Result<Option<UnixListener>, HandedOverError> {
    let mut handed_over = ListenFd::from_env();
    match handed_over.len() {
        0 => Ok(None),
        1 => handed_over.take_unix_listener(0).map_err(HandedOverError::Unfit),
        count => Err(HandedOverError::Several { count }),
    }
}
