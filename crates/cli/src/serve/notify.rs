//! Notes to the service manager, by the protocol of `sd_notify(3)`. Without `NOTIFY_SOCKET` they go nowhere.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// The service manager that started this process, if it wants notes.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    socket: Option<OsString>,
}

impl ServiceManager {
    /// The one that `NOTIFY_SOCKET` names.
    pub(super) fn of_environment() -> Self {
        Self { socket: env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) }
    }

    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload has begun; [`Self::ready`] ends it.
    pub(super) fn reloading(&self) {
        self.send("RELOADING=1\nSTATUS=reloading the configuration");
    }

    /// The process runs its program again; [`Self::ready`] of that ends it.
    pub(super) fn restarting(&self) {
        self.send("RELOADING=1\nSTATUS=restarting");
    }

    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing active requests");
    }

    /// Asks it to hold `socket` open while the service restarts, and to pass it to the next process under this name. A manager
    /// that does not support it ignores the note.
    pub(super) fn keep(&self, name: &str, socket: impl AsFd) {
        // A listening socket never hangs up by itself, so the manager need not watch it.
        self.send_with(&format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}"), &[socket.as_fd()]);
    }

    /// It need not hold the socket of this name any more.
    pub(super) fn forget(&self, name: &str) {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
    }

    fn send(&self, note: &str) {
        self.send_with(note, &[]);
    }

    fn send_with(&self, note: &str, descriptors: &[BorrowedFd<'_>]) {
        if let Some(socket) = &self.socket
            && let Err(error) = send(socket, note, descriptors)
        {
            tracing::warn!(%error, "the service manager cannot be notified");
        }
    }
}

/// Sends a datagram; a name that begins with `@` is in the abstract name space.
fn send(socket: &OsStr, note: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // The manager may be slow to read; a note is not worth waiting for.
    sender.set_nonblocking(true)?;
    sender.connect_addr(&address)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one note"));
    }
    sendmsg(&sender, &[IoSlice::new(note.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    #[test]
    fn notes_reach_sockets_with_a_path_and_abstract_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager { socket: Some(path.into_os_string()) };
        manager.ready("serving");
        assert_eq!(received(&socket), "READY=1\nSTATUS=serving");
        manager.reloading();
        assert!(received(&socket).starts_with("RELOADING=1\n"));
        let name = format!("forebay-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        ServiceManager { socket: Some(format!("@{name}").into()) }.stopping();
        assert!(received(&socket).starts_with("STOPPING=1\n"));
        ServiceManager { socket: None }.stopping();
    }
}
