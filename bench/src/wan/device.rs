//! Network interfaces whose packets this process moves.

use super::link::{piece_line_len, plain_line_len};
use anyhow::{Context as _, Result, ensure};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::fs::File;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// Makes interfaces. Their system call has no safe wrapper in Rust, and Python has one.
const SCRIPT: &str = include_str!("tun.py");

/// An interface; it is gone with this value.
#[derive(Debug)]
pub(super) struct Device {
    file: File,
    packets: Packets,
}

/// The form in which packets arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Packets {
    /// TCP segments in pieces of up to 64 KiB.
    Pieces,
    /// One packet at a time.
    Single,
}

impl Device {
    /// Makes the interface `name` in the network namespace of this thread.
    pub(super) fn make(name: &str, packets: Packets) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let word = match packets {
            Packets::Pieces => "pieces",
            Packets::Single => "packets",
        };
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, word, name]).stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
        let child = command.spawn().context("cannot run python3")?;
        drop(command);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cannot make a network interface: {}", said.trim());
        let file = receive(&ours).context("cannot take over a network interface")?;
        Ok(Self { file, packets })
    }

    /// Takes a packet from the system, or fails with `WouldBlock` when there is none.
    pub(super) fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Hands the system a packet.
    pub(super) fn write(&self, packet: &[u8]) -> std::io::Result<usize> {
        (&self.file).write(packet)
    }

    /// Bytes of the line that a packet takes.
    pub(super) fn line_len(&self, packet: &[u8]) -> u64 {
        match self.packets {
            Packets::Pieces => piece_line_len(packet),
            Packets::Single => plain_line_len(packet.len() as u64),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Takes the file descriptor that was sent over `socket`.
fn receive(socket: &UnixStream) -> Result<File> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    ensure!(!message.flags.contains(ReturnFlags::CTRUNC), "more than one was sent");
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(sent.context("none was sent")?.into())
}
