//! Listening sockets, with an accept that survives a shortage of descriptors.

use crate::tune::tune;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt},
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream};

/// Connections that the kernel queues for [`Listener::accept`]: a whole cluster may start its jobs at once. The kernel
/// limits it to `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 4096;

/// First pause after an accept failed for lack of descriptors or memory.
pub const ACCEPT_BACK_OFF_MIN: Duration = Duration::from_millis(5);

/// Longest pause between two such accepts: the backlog absorbs it.
pub const ACCEPT_BACK_OFF_MAX: Duration = Duration::from_millis(500);

/// A bound address, whose connections are queued until a [`Listener`] accepts them.
#[derive(Debug)]
pub struct BoundAddress {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

/// A listening TCP socket. Accepted connections have no delay and keepalive set.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    back_off: Option<Duration>,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    pub address: SocketAddr,
    /// What the operating system said.
    pub source: io::Error,
}

impl ListenError {
    /// Whether a retry can help: only if another process uses the address.
    pub fn is_retryable(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

impl BoundAddress {
    /// Binds `address`; port 0 selects a free port. `[::]` accepts IPv4 too. Needs no runtime, so that it can be called before
    /// privileges are dropped.
    ///
    /// # Errors
    /// If the address is in use, not of this host, or needs a missing privilege.
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let socket = Self::open(address).map_err(|source| ListenError { address, source })?;
        let address = socket.local_addr().map_err(|source| ListenError { address, source })?;
        Ok(Self { socket, address })
    }

    /// Takes over a socket that another process has bound, with the connections in its queue. Needs no runtime.
    ///
    /// # Errors
    /// If the socket does not listen.
    pub fn passed(socket: std::net::TcpListener) -> io::Result<Self> {
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::other("it does not listen"));
        }
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// The address, with the assigned port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connections to `address` arrive here. `[::]` accepts those to `0.0.0.0` too.
    pub fn serves(&self, address: SocketAddr) -> bool {
        let is_any = address.ip().is_unspecified() && self.address.is_ipv6() && self.address.ip().is_unspecified();
        self.address == address || is_any && self.address.port() == address.port()
    }

    fn open(address: SocketAddr) -> io::Result<std::net::TcpListener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
        }
        bind(&socket, &address)?;
        listen(&socket, LISTEN_BACKLOG)?;
        Ok(socket.into())
    }
}

impl AsFd for BoundAddress {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// Listens on `address`, like [`BoundAddress::bind`]. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// As for [`BoundAddress::bind`].
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        Self::of(BoundAddress::bind(address)?)
    }

    /// Listens on a bound address. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// If the runtime does not accept the socket.
    pub fn of(bound: BoundAddress) -> Result<Self, ListenError> {
        let BoundAddress { socket, address } = bound;
        let socket = TcpListener::from_std(socket).map_err(|source| ListenError { address, source })?;
        Ok(Self { socket, address, back_off: None })
    }

    /// The address in use, with the port selected for 0.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection and its peer (an IPv4 peer of an IPv6 socket as IPv4). Never fails: a connection that failed in the
    /// queue is skipped; a shortage of descriptors or memory is logged once, and the accept is retried until it ends.
    ///
    /// Cancel safe: no accepted connection is lost when the future is dropped.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    self.back_off = None;
                    match tune(&stream) {
                        Ok(()) => return (stream, SocketAddr::new(peer.ip().to_canonical(), peer.port())),
                        Err(error) => tracing::debug!(%peer, %error, "connection failed before it was served"),
                    }
                }
                Err(error) if is_of_one_connection(&error) => {
                    tracing::debug!(%error, "connection failed before it was accepted");
                }
                Err(error) => {
                    if self.back_off.is_none() {
                        tracing::warn!(address = %self.address, %error, "cannot accept connections; retrying");
                    }
                    let pause = next_back_off(self.back_off);
                    self.back_off = Some(pause);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// Whether the error concerns only the next connection, so that the one after it can be accepted at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::INTR
                | Errno::PROTO
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
        )
    )
}

fn next_back_off(previous: Option<Duration>) -> Duration {
    previous.map_or(ACCEPT_BACK_OFF_MIN, |pause| (pause * 2).min(ACCEPT_BACK_OFF_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_free_port_is_picked_and_accepted_connections_are_tuned() {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(listener.address().port(), 0);
        let taken = Listener::bind(listener.address()).unwrap_err();
        assert!(taken.to_string().contains(&listener.address().to_string()) && taken.is_retryable());
        let mut client = TcpStream::connect(listener.address()).await.unwrap();
        let (mut served, peer) = listener.accept().await;
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(served.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&served).unwrap());
        client.write_all(b"x").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn the_unspecified_ipv6_address_takes_ipv4_peers_and_calls_them_so() {
        let Ok(mut listener) = Listener::bind("[::]:0".parse().unwrap()) else {
            return; // a host without IPv6
        };
        let client = TcpStream::connect(("127.0.0.1", listener.address().port())).await.unwrap();
        let (_served, peer) = listener.accept().await;
        assert_eq!(peer, client.local_addr().unwrap());
    }

    #[tokio::test]
    async fn connections_in_the_queue_of_a_passed_socket_are_served() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        std::io::Write::write_all(&mut client, b"x").unwrap();
        let mut listener = Listener::of(BoundAddress::passed(socket).unwrap()).unwrap();
        let (mut served, peer) = listener.accept().await;
        assert_eq!(peer, client.local_addr().unwrap());
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        let silent = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        assert!(BoundAddress::passed(silent.into()).is_err());
    }

    #[test]
    fn a_socket_serves_its_own_address_and_with_two_families_that_of_both() {
        let bound = BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(bound.serves(bound.address()));
        assert!(!bound.serves(SocketAddr::new("127.0.0.2".parse().unwrap(), bound.address().port())));
        let Ok(bound) = BoundAddress::bind("[::]:0".parse().unwrap()) else {
            return; // a host without IPv6
        };
        let port = bound.address().port();
        assert!(bound.serves(SocketAddr::new("0.0.0.0".parse().unwrap(), port)));
        assert!(!bound.serves(SocketAddr::new("127.0.0.1".parse().unwrap(), port)));
        assert!(!bound.serves(SocketAddr::new("0.0.0.0".parse().unwrap(), port.wrapping_add(1))));
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut pause = next_back_off(None);
        assert_eq!(pause, ACCEPT_BACK_OFF_MIN);
        for _ in 0..20 {
            pause = next_back_off(Some(pause));
        }
        assert_eq!(pause, ACCEPT_BACK_OFF_MAX);
        // A shortage of descriptors is not the fault of one connection.
        assert!(!is_of_one_connection(&Errno::MFILE.into()));
        assert!(!is_of_one_connection(&Errno::NFILE.into()));
        assert!(is_of_one_connection(&Errno::CONNABORTED.into()));
    }
}
