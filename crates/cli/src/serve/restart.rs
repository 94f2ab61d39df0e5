//! The restart in place: the process runs its program again, and keeps its listening sockets. For servers without a service manager
//! that would keep them.

use super::passed_sockets::name_of;
use crate::node::Bound;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use std::{
    env, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::{self, Command},
};

/// The sockets of this process, for the program that it runs next.
pub(super) struct Successor {
    sockets: Vec<(String, OwnedFd)>,
}

/// Lowest descriptor that is passed.
const FIRST_DESCRIPTOR: RawFd = 3;

impl Successor {
    /// Copies the sockets. They stay open until this is dropped.
    pub(super) fn of(bound: &Bound) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for socket in bound.of_clients() {
            sockets.push((name_of(socket.address()), socket.as_fd().try_clone_to_owned()?));
        }
        if let Some(socket) = &bound.admin_socket {
            sockets.push(("admin".to_owned(), socket.as_fd().try_clone_to_owned()?));
        }
        Ok(Self { sockets })
    }

    /// Runs the program again, with the arguments of this process and the sockets. Returns only if that fails.
    pub(super) fn start(self) -> io::Error {
        match self.command() {
            // The copies must live until then.
            Ok((mut command, _copies)) => command.exec(),
            Err(error) => error,
        }
    }

    fn command(&self) -> io::Result<(Command, Vec<OwnedFd>)> {
        let copies = self.in_a_row()?;
        for copy in &copies {
            fcntl_setfd(copy, FdFlags::empty())?;
        }
        let mut arguments = env::args_os();
        let program = arguments.next().ok_or_else(|| io::Error::other("this process has no name"))?;
        let names: Vec<&str> = self.sockets.iter().map(|(name, _)| name.as_str()).collect();
        let first = copies.first().map_or(FIRST_DESCRIPTOR, AsRawFd::as_raw_fd);
        let mut command = Command::new(program);
        command.args(arguments).env("LISTEN_PID", process::id().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        // Descriptors 3 and up belong to others here, so the first one is named.
        command.env("LISTEN_FDS", copies.len().to_string()).env("LISTEN_FDS_FIRST_FD", first.to_string());
        Ok((command, copies))
    }

    /// Copies of the sockets with consecutive numbers.
    fn in_a_row(&self) -> io::Result<Vec<OwnedFd>> {
        let mut from = FIRST_DESCRIPTOR;
        loop {
            let mut copies: Vec<OwnedFd> = Vec::new();
            let mut next = from;
            for (_, socket) in &self.sockets {
                let copy = fcntl_dupfd_cloexec(socket, next)?;
                let number = copy.as_raw_fd();
                if number != next && !copies.is_empty() {
                    // Another descriptor lies in between: the row begins after it.
                    from = number;
                    copies.clear();
                    break;
                }
                next = number.saturating_add(1);
                copies.push(copy);
            }
            if copies.len() == self.sockets.len() {
                return Ok(copies);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::BoundAddress;

    #[test]
    fn descriptors_are_passed_in_a_row() {
        let bind = || BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addresses = vec![bind(), bind(), bind()];
        let bound = Bound {
            addresses,
            http_addresses: vec![bind()],
            s3_addresses: Vec::new(),
            dcap_addresses: Vec::new(),
            admin_socket: None,
        };
        let successor = Successor::of(&bound).unwrap();
        // A hole, which is too small for all of them.
        let hole = successor.sockets[1].1.try_clone().unwrap();
        let _after = successor.sockets[1].1.try_clone().unwrap();
        drop(hole);
        let numbers: Vec<RawFd> = successor.in_a_row().unwrap().iter().map(AsRawFd::as_raw_fd).collect();
        assert_eq!(numbers.len(), 4);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }
}
