//! Moves packets between two network interfaces as a long path would. Runs as a process of its own.

use super::link::{Link, LinkShape, line_len};
use anyhow::{Context as _, Result};
use forebay_net::clock;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Longest packet, with the header before it.
const PACKET_LEN_MAX: usize = (64 << 10) + 64;

/// A packet and when it comes out at the other end.
type Due = (Instant, Vec<u8>);

/// Moves packets between the interfaces that are the standard input and output, until one of them goes. Both directions are
/// of `shape`.
pub(crate) fn run(shape: LinkShape) -> Result<()> {
    let near = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let far = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let threads = [direction("out", near.try_clone()?, far.try_clone()?, shape)?, direction("back", far, near, shape)?];
    eprintln!("ready");
    for thread in threads.into_iter().flatten() {
        thread.join().ok().context("a thread of the relay has failed")??;
    }
    Ok(())
}

fn direction(name: &str, from: File, to: File, shape: LinkShape) -> Result<[JoinHandle<Result<()>>; 2]> {
    let (sender, receiver) = channel();
    let link = Link::new(shape, clock::monotonic());
    let taking = std::thread::Builder::new().name(format!("{name}-take"));
    let giving = std::thread::Builder::new().name(format!("{name}-give"));
    Ok([taking.spawn(move || take(from, link, &sender))?, giving.spawn(move || give(to, &receiver))?])
}

/// Takes packets from an interface. What is under way is bounded by the link: by its queue and its length.
fn take(mut from: File, mut link: Link, sender: &Sender<Due>) -> Result<()> {
    let mut buffer = vec![0; PACKET_LEN_MAX];
    loop {
        let len = match from.read(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot take a packet"),
        };
        let packet = buffer.get(..len).unwrap_or_default();
        if let Some(due) = link.put(line_len(packet), clock::monotonic()) {
            sender.send((due, packet.to_vec())).context("nobody gives packets on")?;
        }
    }
}

/// Gives packets to the other interface when their time has come.
fn give(mut to: File, receiver: &Receiver<Due>) -> Result<()> {
    for (due, packet) in receiver {
        let wait = due.saturating_duration_since(clock::monotonic());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        // An interface that is down, or has no memory for it, loses a packet: so does a path.
        to.write_all(&packet).ok();
    }
    Ok(())
}
