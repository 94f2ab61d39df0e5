//! The socket passed by a service manager (`LISTEN_FDS`, as by systemd).

use listenfd::ListenFd;
use std::{io, os::unix::net::UnixListener};

/// Why a passed socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandedOverError {
    #[error(
        "{count} sockets were passed: only one is supported, that of the admin port (ListenStream= in forebay.socket)"
    )]
    Several { count: usize },
    #[error("the passed socket is not a listening unix socket ({0}): the admin port supports no other")]
    Unfit(io::Error),
}

/// The socket of the admin port, if one was passed. Call it before a second thread starts: it removes the environment
/// variables, so that child processes do not see them.
pub(super) fn admin_socket() -> Result<Option<UnixListener>, HandedOverError> {
    let mut handed_over = ListenFd::from_env();
    match handed_over.len() {
        0 => Ok(None),
        1 => handed_over.take_unix_listener(0).map_err(HandedOverError::Unfit),
        count => Err(HandedOverError::Several { count }),
    }
}
