//! Socket options that every TCP connection gets, accepted or made.

use rustix::net::sockopt;
use std::{io, time::Duration};
use tokio::net::TcpStream;

/// Idle time before keepalive probes: well within the idle limits of usual firewalls.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Time between two unanswered keepalive probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Unanswered probes that end a connection; a lost peer is detected after two minutes.
pub const KEEPALIVE_PROBES: u32 = 6;

/// Disables delays of small messages, and enables keepalive.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}
