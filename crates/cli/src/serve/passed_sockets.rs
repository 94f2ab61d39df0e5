//! Listening sockets that outlive the process: a service manager passes them (`LISTEN_FDS`), and keeps those that the server has
//! bound itself for the next process of the service. Clients that connect between two processes wait in the queue of the socket.

use super::notify::ServiceManager;
use crate::node::Bound;
use anyhow::{anyhow, bail};
use forebay_net::BoundAddress;
use listenfd::ListenFd;
use std::{env, net::SocketAddr, os::unix::net::UnixListener};

/// Most sockets that are accepted from a service manager.
const PASSED_MAX: usize = 64;

/// Begin of the names of sockets that a process of this server has handed to the service manager.
const KEPT_PREFIX: &str = "listener-";

/// The sockets that a service manager has passed and that are not in use yet.
#[derive(Debug, Default)]
pub(super) struct PassedSockets {
    clients: Vec<PassedSocket>,
    admin: Option<UnixListener>,
    /// Addresses of all passed sockets of clients.
    addresses: Vec<SocketAddr>,
}

#[derive(Debug)]
struct PassedSocket {
    name: String,
    socket: BoundAddress,
}

impl PassedSockets {
    /// Those that `LISTEN_FDS` announces. Call it before a second thread starts: it removes environment variables, so that child
    /// processes do not see them.
    pub(super) fn of_environment() -> anyhow::Result<Self> {
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut from = ListenFd::from_env();
        if from.len() > PASSED_MAX {
            bail!("{} sockets were passed (LISTEN_FDS): at most {PASSED_MAX} are supported", from.len());
        }
        let mut passed = Self::default();
        for index in 0..from.len() {
            let name = names.next().unwrap_or_default().to_owned();
            passed.add(name, &mut from, index)?;
        }
        Ok(passed)
    }

    fn add(&mut self, name: String, from: &mut ListenFd, index: usize) -> anyhow::Result<()> {
        if let Ok(Some(socket)) = from.take_unix_listener(index) {
            if self.admin.replace(socket).is_some() {
                bail!("two unix sockets were passed (LISTEN_FDS): only the admin port has one");
            }
            return Ok(());
        }
        let taken = from.take_tcp_listener(index).and_then(|socket| socket.map(BoundAddress::passed).transpose());
        let socket = taken.map_err(|error| {
            anyhow!(
                "descriptor {index} of LISTEN_FDS (`{name}`) is neither a unix nor a TCP socket that listens: {error}"
            )
        })?;
        if let Some(socket) = socket {
            self.addresses.push(socket.address());
            self.clients.push(PassedSocket { name, socket });
        }
        Ok(())
    }

    /// The socket of the admin port.
    pub(super) fn take_admin(&mut self) -> Option<UnixListener> {
        self.admin.take()
    }

    /// The socket that serves `address`.
    pub(super) fn take(&mut self, address: SocketAddr) -> Option<BoundAddress> {
        let at = self.clients.iter().position(|passed| passed.socket.serves(address))?;
        Some(self.clients.swap_remove(at).socket)
    }

    /// Hands the sockets that this process has bound to the service manager, and takes back those of an earlier process that are
    /// not used any more.
    ///
    /// # Errors
    /// If a socket of another source is not used: its clients would wait without an end.
    pub(super) fn keep_for_the_next_process(self, bound: &Bound, manager: &ServiceManager) -> Result<(), String> {
        for PassedSocket { name, socket } in self.clients {
            let address = socket.address();
            if !name.starts_with(KEPT_PREFIX) {
                return Err(format!(
                    "the service manager passed a socket for {address} (`{name}`), which is in none of `server.listen`, `http.listen`, \
                     `s3.listen` and `dcap.listen`: add the address, or remove it from the socket unit"
                ));
            }
            tracing::info!(%address, "the address is not configured any more; its socket is closed");
            manager.forget(&name);
        }
        for socket in bound.of_clients().filter(|socket| !self.addresses.contains(&socket.address())) {
            manager.keep(&name_of(socket.address()), socket);
        }
        Ok(())
    }
}

/// The name of a kept socket. The protocol separates names by colons.
pub(super) fn name_of(address: SocketAddr) -> String {
    format!("{KEPT_PREFIX}{}", address.to_string().replace(':', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(name: &str) -> (PassedSockets, SocketAddr) {
        let socket = BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.address();
        let clients = vec![PassedSocket { name: name.to_owned(), socket }];
        (PassedSockets { clients, admin: None, addresses: vec![address] }, address)
    }

    fn nothing_bound() -> Bound {
        Bound {
            addresses: Vec::new(),
            http_addresses: Vec::new(),
            s3_addresses: Vec::new(),
            dcap_addresses: Vec::new(),
            admin_socket: None,
        }
    }

    #[test]
    fn a_passed_socket_is_taken_by_its_address_only() {
        let (mut sockets, address) = passed("data");
        assert!(sockets.take(SocketAddr::new(address.ip(), address.port().wrapping_add(1))).is_none());
        assert_eq!(sockets.take(address).unwrap().address(), address);
        assert!(sockets.take(address).is_none());
        assert!(sockets.keep_for_the_next_process(&nothing_bound(), &ServiceManager::default()).is_ok());
    }

    #[test]
    fn an_unused_socket_is_an_error_unless_an_earlier_process_has_left_it() {
        let (sockets, address) = passed("data");
        let refused = sockets.keep_for_the_next_process(&nothing_bound(), &ServiceManager::default()).unwrap_err();
        assert!(refused.contains(&address.to_string()), "{refused}");
        let (sockets, _) = passed(&name_of(address));
        assert!(sockets.keep_for_the_next_process(&nothing_bound(), &ServiceManager::default()).is_ok());
    }

    #[test]
    fn names_have_no_separator_of_the_protocol() {
        assert_eq!(name_of("[::1]:1094".parse().unwrap()), "listener-[__1]_1094");
    }
}
