//! Waiting for whichever connection has something to read.

use anyhow::{Context as _, Result};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::net::TcpStream;
use std::time::Duration;

/// A wait without events ends after this time, so that its caller can look at the clock.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 64;

/// The way to wait for answers.
pub(super) enum Poller {
    /// There is one connection: reading from it blocks, which costs a system call less per operation.
    Single,
    /// There are many connections.
    Epoll { epoll: OwnedFd, events: Vec<epoll::Event> },
}

impl Poller {
    /// A poller for `streams`, which it makes blocking or not as it needs.
    pub(super) fn new<'a>(streams: impl ExactSizeIterator<Item = &'a TcpStream>) -> Result<Self> {
        if streams.len() == 1 {
            for stream in streams {
                stream.set_read_timeout(Some(WAIT_MAX))?;
            }
            return Ok(Self::Single);
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create an epoll instance")?;
        for (stream, index) in streams.zip(0..) {
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, stream.as_fd(), epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
        }
        Ok(Self::Epoll { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Waits, calls `serve` with the index of each connection that can be read, and returns whether any call
    /// said that it got something.
    pub(super) fn wait(&mut self, mut serve: impl FnMut(usize) -> Result<bool>) -> Result<bool> {
        let Self::Epoll { epoll, events } = self else { return serve(0) };
        let timeout = Timespec::try_from(WAIT_MAX).context("the wait fits into a timespec")?;
        events.clear();
        match epoll::wait(&*epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for events"),
        }
        let mut progress = false;
        for event in events.iter() {
            progress |= serve(usize::try_from(event.data.u64())?)?;
        }
        Ok(progress)
    }
}
