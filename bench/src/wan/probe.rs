//! Measurements of a path from its ends: round trips of small packets, and one TCP stream.

use super::host::Host;
use super::lab::Lab;
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use rustix::net::{AddressFamily, SocketType, ipproto, socket};
use serde::Serialize;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Round trips of small packets, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundTrips {
    /// Packets that were sent.
    pub sent: u32,
    /// Packets of which no answer came.
    pub lost: u32,
    pub min_ms: f64,
    pub median_ms: f64,
    /// One in twenty took longer.
    pub p95_ms: f64,
    pub max_ms: f64,
}

/// The result of one TCP stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// How long it ran.
    pub seconds: f64,
    /// Data received over all of this time, in Mbit/s.
    pub mbit: f64,
    /// Data received in the second half of it, when slow start is over.
    pub steady_mbit: f64,
}

/// An answer that takes longer than this, and three round trips, is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

const CHUNK_LEN: usize = 256 << 10;

/// ICMP's echo request and reply.
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// Sends `count` echo requests from `host`, which is `near`, to `far`, each after the answer to the one before.
pub(super) fn ping(host: &Host, [near, far]: [Ipv4Addr; 2], rtt: Duration, count: u32) -> Result<RoundTrips> {
    let socket = host.within(|| {
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").context("cannot permit echo requests")?;
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP))?;
        Ok(UdpSocket::from(socket))
    })?;
    rustix::net::bind(&socket, &SocketAddr::from((near, 0)))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT + 3 * rtt))?;
    let mut times = Vec::new();
    for sequence in 0..count {
        times.extend(echo(&socket, far, u16::try_from(sequence % (1 << 16))?)?);
    }
    let lost = count - u32::try_from(times.len())?;
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = times.len().saturating_sub(1) * percent / 100;
        times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    Ok(RoundTrips { sent: count, lost, min_ms: at(0), median_ms: at(50), p95_ms: at(95), max_ms: at(100) })
}

/// One round trip, or nothing when no answer came.
fn echo(socket: &UdpSocket, far: Ipv4Addr, sequence: u16) -> Result<Option<Duration>> {
    let mut request = [0; 64];
    let [high, low] = sequence.to_be_bytes();
    for (byte, value) in request.iter_mut().zip([ECHO_REQUEST, 0, 0, 0, 0, 0, high, low]) {
        *byte = value;
    }
    let start = clock::monotonic();
    socket.send_to(&request, (far, 0))?;
    loop {
        let mut reply = [0; 128];
        match socket.recv(&mut reply) {
            Ok(_) if matches!(reply, [ECHO_REPLY, _, _, _, _, _, h, l, ..] if [h, l] == [high, low]) => {
                return Ok(Some(clock::monotonic() - start));
            }
            // An answer to an earlier one.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(None),
            Err(error) => return Err(error).context("no answer to an echo request"),
        }
    }
}

/// Has the far end of path `index` send as much as TCP carries, for `duration`.
pub(super) fn stream(lab: &Lab, index: usize, duration: Duration) -> Result<Stream> {
    let path = lab.paths().get(index).context("there is no such path")?;
    let [near_host, far_host] = &path.ends;
    let [_, far] = Lab::addresses(index);
    let listener = lab.within(far_host, || Ok(TcpListener::bind((far, 0))?))?;
    let address = listener.local_addr()?;
    let sender = std::thread::Builder::new().name("sender".to_owned()).spawn(move || send(&listener))?;
    let received = lab.within(near_host, || {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).context("cannot connect over the path")?;
        receive(socket, duration)
    });
    let sent = sender.join().ok().context("the sender has failed")?;
    let received = received?;
    sent?;
    Ok(received)
}

/// Sends to the first client until it leaves.
fn send(listener: &TcpListener) -> Result<()> {
    let (mut socket, _) = listener.accept()?;
    let chunk = vec![0x5a; CHUNK_LEN];
    loop {
        match socket.write(&chunk) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => return Ok(()),
            Err(error) => return Err(error).context("cannot send"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of one stream are far below 2^52")]
fn receive(mut socket: TcpStream, duration: Duration) -> Result<Stream> {
    let mut buffer = vec![0; CHUNK_LEN];
    let start = clock::monotonic();
    let (mut bytes, mut half) = (0_u64, None);
    loop {
        let len = socket.read(&mut buffer).context("the stream broke")?;
        ensure!(len > 0, "the stream ended");
        bytes += len as u64;
        let elapsed = clock::monotonic() - start;
        if elapsed >= duration / 2 && half.is_none() {
            half = Some((elapsed, bytes));
        }
        if let Some((half_elapsed, half_bytes)) = half
            && elapsed >= duration
        {
            let mbit = |bytes: u64, time: Duration| bytes as f64 * 8.0 / 1e6 / time.as_secs_f64();
            return Ok(Stream {
                seconds: elapsed.as_secs_f64(),
                mbit: mbit(bytes, elapsed),
                steady_mbit: mbit(bytes - half_bytes, elapsed - half_elapsed),
            });
        }
    }
}
