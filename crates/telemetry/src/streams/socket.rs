//! The socket of the accounting streams: one for all collectors, which tell servers apart by address and port.

use super::intervals::is_due;
use crate::Metrics;
use std::{
    io,
    net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
};

/// Seconds after which the names of collectors are resolved again.
const RESOLVE_INTERVAL_S: i64 = 300;

/// Sends each datagram to all collectors.
pub(super) struct Socket {
    socket: UdpSocket,
    is_ipv6: bool,
    collectors: Vec<Collector>,
    resolved: Option<i64>,
    metrics: Metrics,
}

struct Collector {
    name: String,
    /// `None` until its name was resolved.
    address: Option<SocketAddr>,
}

impl Socket {
    pub(super) fn new(names: Vec<String>, metrics: Metrics) -> io::Result<Self> {
        // A socket of IPv6 reaches collectors of both kinds; a host without IPv6 has none.
        let (socket, is_ipv6) = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
            Ok(socket) => (socket, true),
            Err(_) => (UdpSocket::bind("0.0.0.0:0")?, false),
        };
        socket.set_nonblocking(true)?;
        let collectors = names.into_iter().map(|name| Collector { name, address: None }).collect();
        Ok(Self { socket, is_ipv6, collectors, resolved: None, metrics })
    }

    pub(super) fn send(&mut self, datagram: &[u8], now: i64) {
        if self.resolved.is_none_or(|at| is_due(at, RESOLVE_INTERVAL_S, now)) {
            self.resolved = Some(now);
            self.resolve();
        }
        for collector in &self.collectors {
            let sent = collector.address.map(|address| self.socket.send_to(datagram, address));
            match sent {
                Some(Ok(_)) => self.metrics.add_stream_datagram_sent(1),
                Some(Err(_)) | None => self.metrics.add_stream_datagram_failed(1),
            }
        }
    }

    /// Resolves the names; a name that cannot be resolved keeps its address.
    fn resolve(&mut self) {
        for collector in &mut self.collectors {
            let found = collector.name.to_socket_addrs().map(|mut found| found.find(|at| self.is_ipv6 || at.is_ipv4()));
            match found {
                Ok(Some(address)) => collector.address = Some(mapped(self.is_ipv6, address)),
                Ok(None) => {
                    tracing::warn!(collector = collector.name, "the collector has no address of a usable kind");
                }
                Err(error) => {
                    tracing::warn!(collector = collector.name, %error, "the collector's name cannot be resolved");
                }
            }
        }
    }
}

/// The address as the socket wants it.
const fn mapped(is_ipv6: bool, address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_ipv6 => {
            SocketAddr::V6(std::net::SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0))
        }
        other => other,
    }
}
