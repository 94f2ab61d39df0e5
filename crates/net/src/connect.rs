//! Outgoing connections: every address of a host is tried within one time limit.

use crate::tune::tune;
use forebay_types::Endpoint;
use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    time::Duration,
};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Most addresses of one host that are tried.
pub const ADDRESSES_MAX: usize = 16;

/// Look-ups of names at the same time. Each has a thread of those that also work for the disks, and name servers that do not answer keep
/// it for half a minute.
static LOOKUPS: Semaphore = Semaphore::const_new(64);

/// Why no connection could be made. A retry can help: hosts and name servers recover.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot resolve {endpoint}: {source}")]
    Resolve { endpoint: Endpoint, source: io::Error },
    /// Every address failed; this is the last failure.
    #[error("cannot connect to {endpoint} at {address}: {source}")]
    Refused {
        endpoint: Endpoint,
        /// The address tried last.
        address: SocketAddr,
        source: io::Error,
    },
    /// No address of the host may be connected to; this is the first one.
    #[error("{endpoint} is at {address}, which must not be connected to")]
    Forbidden { endpoint: Endpoint, address: SocketAddr },
    #[error("cannot connect to {endpoint}: no answer within {limit:?}")]
    TimedOut { endpoint: Endpoint, limit: Duration },
}

/// Connects to `endpoint`, trying its addresses in the resolver's order. `limit` includes name resolution; each address may
/// use an equal share of the remaining time, so that a silent one cannot starve the next.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<TcpStream, ConnectError> {
    connect_where(endpoint, limit, |_| true).await
}

/// As [`connect`], from a certain address of this machine, if there is one of the family of the other.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_from(
    source: Option<IpAddr>,
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<TcpStream, ConnectError> {
    connect_by(source, endpoint, limit, |_| true).await
}

/// As [`connect`], to addresses that `permits` only.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_where(
    endpoint: &Endpoint,
    limit: Duration,
    permits: impl Fn(SocketAddr) -> bool,
) -> Result<TcpStream, ConnectError> {
    connect_by(None, endpoint, limit, permits).await
}

async fn connect_by(
    source: Option<IpAddr>,
    endpoint: &Endpoint,
    limit: Duration,
    permits: impl Fn(SocketAddr) -> bool,
) -> Result<TcpStream, ConnectError> {
    let deadline = Instant::now() + limit;
    let timed_out = || ConnectError::TimedOut { endpoint: endpoint.clone(), limit };
    let unresolved = |source| ConnectError::Resolve { endpoint: endpoint.clone(), source };
    let mut addresses =
        timeout_at(deadline, addresses_of(endpoint)).await.map_err(|_| timed_out())?.map_err(unresolved)?;
    let Some(&first) = addresses.first() else {
        return Err(unresolved(io::Error::new(io::ErrorKind::NotFound, "the host name has no address")));
    };
    addresses.retain(|&address| permits(address));
    if addresses.is_empty() {
        return Err(ConnectError::Forbidden { endpoint: endpoint.clone(), address: first });
    }
    connect_any(source, &addresses, deadline).await.map_err(|failure| match failure {
        Some((address, source)) => ConnectError::Refused { endpoint: endpoint.clone(), address, source },
        None => timed_out(),
    })
}

/// The addresses of a host, at most [`ADDRESSES_MAX`].
async fn addresses_of(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = endpoint.host().parse::<IpAddr>() {
        return Ok(vec![(address, endpoint.port()).into()]);
    }
    let place = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let name = (endpoint.host().to_owned(), endpoint.port());
    let found = tokio::task::spawn_blocking(move || {
        // Held by the thread: the caller may have given up.
        let _place = place;
        let (host, port) = name;
        Ok((host.as_str(), port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())
    });
    found.await.map_err(io::Error::other)?
}

/// The first successful connection to one of `addresses`, otherwise the last error; `None` if none answered.
async fn connect_any(
    source: Option<IpAddr>,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<TcpStream, Option<(SocketAddr, io::Error)>> {
    let mut refusal = None;
    let mut addresses_left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for &address in addresses {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / addresses_left.max(1);
        addresses_left = addresses_left.saturating_sub(1);
        if share.is_zero() {
            break;
        }
        match timeout_at(now + share, connect_one(source, address)).await {
            Ok(Ok(stream)) => match tune(&stream) {
                Ok(()) => return Ok(stream),
                Err(error) => refusal = Some((address, error)),
            },
            Ok(Err(error)) => refusal = Some((address, error)),
            Err(_) => {}
        }
    }
    Err(refusal)
}

async fn connect_one(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let Some(source) = source.filter(|source| source.is_ipv4() == address.is_ipv4()) else {
        return TcpStream::connect(address).await;
    };
    let socket = if source.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind((source, 0).into())?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listener;

    const LIMIT: Duration = Duration::from_secs(10);

    /// An address without a listener: its port was just released.
    async fn closed_address() -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn a_connection_is_made_and_tuned() {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let endpoint = Endpoint::new("127.0.0.1", listener.address().port());
        let stream = connect(&endpoint, LIMIT).await.unwrap();
        let (_served, peer) = listener.accept().await;
        assert_eq!(stream.local_addr().unwrap(), peer);
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_connection_comes_from_the_source_of_its_family() {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let endpoint = Endpoint::new("127.0.0.1", listener.address().port());
        for (source, seen) in [("127.0.0.9", "127.0.0.9"), ("::1", "127.0.0.1")] {
            let _stream = connect_from(source.parse().ok(), &endpoint, LIMIT).await.unwrap();
            let (_served, peer) = listener.accept().await;
            assert_eq!(peer.ip(), seen.parse::<IpAddr>().unwrap());
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_endpoint_and_the_cause() {
        let closed = closed_address().await;
        let endpoint = Endpoint::new("127.0.0.1", closed.port());
        let error = connect(&endpoint, LIMIT).await.unwrap_err();
        let ConnectError::Refused { address, ref source, .. } = error else { panic!("{error}") };
        assert_eq!((address, source.kind()), (closed, io::ErrorKind::ConnectionRefused));
        assert!(error.to_string().contains(&endpoint.to_string()));
        let error = connect(&endpoint, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, ConnectError::TimedOut { .. }), "no time was left: {error}");
        let error = connect(&Endpoint::new("no name", 1), LIMIT).await.unwrap_err();
        assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_living_one() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addresses = [closed_address().await, listener.address()];
        let stream = connect_any(None, &addresses, Instant::now() + LIMIT).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.address());
    }

    #[tokio::test]
    async fn a_silent_address_leaves_time_for_the_next() {
        let silent = tokio::net::TcpSocket::new_v4().unwrap();
        silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = silent.listen(0).unwrap();
        let silent_address = silent.local_addr().unwrap();
        let _fills_the_backlog = TcpStream::connect(silent_address).await.unwrap();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let stream = connect_any(None, &[silent_address, listener.address()], deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.address());
    }
}
