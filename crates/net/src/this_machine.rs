//! Addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses of documentation, which no machine has.
const UNASSIGNED: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Whether `address` leads to this machine, or to neighbours on its link only.
#[must_use]
pub fn is_of_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_special = match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local() || address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local() || address.is_unspecified(),
    };
    is_special || is_own(address)
}

/// Whether a connection to `to` would reach a socket that listens on one of the addresses `own`.
#[must_use]
pub fn listens_at(own: &[SocketAddr], to: SocketAddr) -> bool {
    // Connections to no address in particular reach the loopback interface.
    let ip = match to.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    own.iter().filter(|own| own.port() == to.port()).any(|own| match own.ip().to_canonical() {
        IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4() && is_own(ip),
        // `[::]` accepts IPv4 too.
        any if any.is_unspecified() => is_own(ip),
        own => own == ip,
    })
}

/// Whether an interface has the address.
fn is_own(address: IpAddr) -> bool {
    if address.is_loopback() {
        return true;
    }
    let is_bindable = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // A machine may be set up to bind any address (`ip_nonlocal_bind`). It still connects to its own ones from themselves.
    let is_local = || {
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((address, 9)).ok()?;
        socket.local_addr().ok()
    };
    is_bindable(address)
        && (!UNASSIGNED.into_iter().any(|other| other.is_ipv4() == address.is_ipv4() && is_bindable(other))
            || is_local().is_some_and(|local| local.ip() == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_link_are_known() {
        for address in
            ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::"]
        {
            assert!(is_of_this_machine(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.1", "203.0.113.7", "2001:db8::1"] {
            assert!(!is_of_this_machine(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn own_sockets_are_known_by_address_and_port() {
        let own = |own: &str, to: &str| listens_at(&[own.parse().unwrap()], to.parse().unwrap());
        assert!(own("0.0.0.0:1094", "127.0.0.1:1094") && own("0.0.0.0:1094", "127.3.2.1:1094"));
        assert!(own("[::]:1094", "127.0.0.1:1094") && own("127.0.0.1:1094", "0.0.0.0:1094"));
        assert!(own("127.0.0.1:1094", "[::ffff:127.0.0.1]:1094"));
        assert!(!own("0.0.0.0:1094", "127.0.0.1:1095") && !own("0.0.0.0:1094", "192.0.2.1:1094"));
        assert!(!own("127.0.0.1:1094", "127.0.0.2:1094"));
    }
}
