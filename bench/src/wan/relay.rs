//! Moves packets between two network interfaces as a path would: one thread for each direction.

use super::device::Device;
use super::link::{Fate, Link};
use anyhow::{Context as _, Result};
use forebay_net::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest packet, with the header before it.
const PACKET_LEN_MAX: usize = (64 << 10) + 64;

/// Free buffers that are kept for later packets.
const SPARE_BUFFERS_MAX: usize = 256;

/// The last part of a wait is spent awake, as long as waking up usually takes, but at most this long.
const AWAKE_MAX: Duration = Duration::from_micros(100);

/// A timer of the relay may be late by this at most, where the system asks how much it may.
const TIMER_SLACK_NS: u64 = 1;

/// Relay threads come before other programs where that is permitted, by a real-time priority or else by this: a relay that is late
/// is a path that trembles, and TCP takes that for a queue.
const NICE: i32 = -15;
const REAL_TIME_PRIORITY: &str = "10";

/// Packets that have gone one way since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Traffic {
    /// Packets that arrived; a piece of many segments counts as one.
    pub packets: u64,
    /// Bytes of the line that they took, frames included.
    pub line_bytes: u64,
    /// Packets that found the buffer full.
    pub dropped: u64,
    /// Packets that were lost on the way.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Counters {
    packets: AtomicU64,
    line_bytes: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
}

/// The threads between two interfaces. They end with this value.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<Result<()>>>,
    counters: [Arc<Counters>; 2],
}

impl Relay {
    /// Moves packets from the first of `devices` to the second through the first of `links`, and back through the second.
    /// The time from the system to the relay and back is `passage`: it counts as a part of the delay.
    pub(super) fn start(devices: &[Arc<Device>; 2], links: [Link; 2], passage: Duration) -> Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let counters = <[Arc<Counters>; 2]>::default();
        let [near, far] = devices.clone();
        let [out, back] = links;
        let ways = [(Arc::clone(&near), Arc::clone(&far), out), (far, near, back)];
        let mut threads = Vec::new();
        for ((from, to, link), counters) in ways.into_iter().zip(&counters) {
            let direction = Direction {
                from,
                to,
                link,
                stop: Arc::clone(&stop),
                counters: Arc::clone(counters),
                under_way: VecDeque::new(),
                spare: Vec::new(),
                usual_lateness: Duration::ZERO,
                passage,
            };
            let thread = std::thread::Builder::new().name("relay".to_owned());
            threads.push(thread.spawn(move || direction.run()).context("cannot start a thread of the relay")?);
        }
        Ok(Self { stop, threads, counters })
    }

    /// The traffic there, and back.
    pub(super) fn traffic(&self) -> [Traffic; 2] {
        self.counters.each_ref().map(|counters| Traffic {
            packets: counters.packets.load(Ordering::Relaxed),
            line_bytes: counters.line_bytes.load(Ordering::Relaxed),
            dropped: counters.dropped.load(Ordering::Relaxed),
            lost: counters.lost.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The counter of an eventfd that is never read has room for this one.
        rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).ok();
        for thread in self.threads.drain(..) {
            if let Ok(Err(error)) = thread.join() {
                eprintln!("a relay has failed: {error:#}");
            }
        }
    }
}

/// One direction, and what is under way on it: at most what its buffer and its length hold.
struct Direction {
    from: Arc<Device>,
    to: Arc<Device>,
    link: Link,
    stop: Arc<OwnedFd>,
    counters: Arc<Counters>,
    /// When each packet comes out, in order.
    under_way: VecDeque<(Instant, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// By how much waits for a time usually end too late.
    usual_lateness: Duration,
    passage: Duration,
}

impl Direction {
    fn run(mut self) -> Result<()> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS))?;
        come_first();
        let mut buffer = vec![0; PACKET_LEN_MAX];
        loop {
            let now = clock::monotonic();
            self.give(now);
            if !self.take(&mut buffer, now)? && self.is_told_to_stop()? {
                return Ok(());
            }
        }
    }

    /// Gives packets on whose time has come.
    fn give(&mut self, now: Instant) {
        while self.under_way.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, packet)) = self.under_way.pop_front()
        {
            // An interface that is down, or has no memory for it, loses a packet: so does a path.
            self.to.write(&packet).ok();
            if self.spare.len() < SPARE_BUFFERS_MAX {
                self.spare.push(packet);
            }
        }
    }

    /// Takes a packet from the system. Whether there was one.
    fn take(&mut self, buffer: &mut [u8], now: Instant) -> Result<bool> {
        let len = match self.from.read(buffer) {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return Ok(false),
            Err(error) => return Err(error).context("cannot take a packet"),
        };
        let packet = buffer.get(..len).unwrap_or_default();
        let line_len = self.from.line_len(packet);
        let Counters { packets, line_bytes, dropped, lost } = &*self.counters;
        match self.link.put(line_len, now.checked_sub(self.passage).unwrap_or(now)) {
            Fate::Dropped => dropped.fetch_add(1, Ordering::Relaxed),
            Fate::Lost => lost.fetch_add(1, Ordering::Relaxed),
            Fate::Out(due) => {
                let mut kept = self.spare.pop().unwrap_or_default();
                kept.clear();
                kept.extend_from_slice(packet);
                self.under_way.push_back((due, kept));
                line_bytes.fetch_add(line_len, Ordering::Relaxed);
                packets.fetch_add(1, Ordering::Relaxed)
            }
        };
        Ok(true)
    }

    /// Waits for a packet of either side or for a request to stop, and returns whether to stop.
    fn is_told_to_stop(&mut self) -> Result<bool> {
        let due = self.under_way.front().map(|(due, _)| *due);
        let asleep_until = due.and_then(|due| due.checked_sub(self.usual_lateness));
        let wait = asleep_until.map(|until| until.saturating_duration_since(clock::monotonic()));
        let timeout = wait.map(Timespec::try_from).transpose().context("a path is shorter than centuries")?;
        let mut waited = [PollFd::new(&*self.from, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
        let ready = match poll(&mut waited, timeout.as_ref()) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error).context("cannot wait for packets"),
        };
        if ready > 0 {
            return Ok(waited.last().is_some_and(|stop| !stop.revents().is_empty()));
        }
        if let (Some(due), Some(until)) = (due, asleep_until) {
            if wait.is_some_and(|wait| !wait.is_zero()) {
                self.learn(clock::monotonic() - until);
            }
            while clock::monotonic() < due {
                std::hint::spin_loop();
            }
        }
        Ok(false)
    }

    /// Takes note of a wait that ended `late`: an eighth of the news.
    fn learn(&mut self, late: Duration) {
        self.usual_lateness = (self.usual_lateness * 7 + late.min(AWAKE_MAX)) / 8;
    }
}

/// Gives this thread real-time priority, or a better nice value if that fails. Both need privileges; without them
/// packets are late more often.
fn come_first() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut command = Command::new("chrt");
    command.args(["--fifo", "--pid", REAL_TIME_PRIORITY, &thread]);
    let told = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !told.is_ok_and(|status| status.success()) {
        rustix::process::setpriority_process(None, NICE).ok();
    }
}
