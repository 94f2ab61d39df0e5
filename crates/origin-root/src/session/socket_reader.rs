//! The receiving half of a socket: headers come through a small buffer, file bytes go straight to their final memory.

use bytes::{Buf, BufMut, BytesMut};
use forebay_net::Stream;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Bytes read ahead when a header is awaited: enough for the headers and short answers that arrive together, little to
/// copy when file bytes follow.
const BUFFER_LEN: usize = 4096;

/// When bytes last arrived in a session.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    last_ms: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn note(&self) {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed_ms, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Instant {
        self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }
}

/// Reads one socket. Every method is cancel safe in the sense that no byte is lost.
#[derive(Debug)]
pub(super) struct SocketReader {
    socket: Arc<Stream>,
    buffer: BytesMut,
    activity: Arc<Activity>,
}

impl SocketReader {
    pub(super) fn new(socket: Arc<Stream>, activity: Arc<Activity>) -> Self {
        Self { socket, buffer: BytesMut::with_capacity(BUFFER_LEN), activity }
    }

    /// The next `N` bytes.
    pub(super) async fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        const { assert!(N <= BUFFER_LEN, "longer than the buffer") };
        loop {
            if let Some(field) = self.buffer.first_chunk() {
                let field = *field;
                self.buffer.advance(N);
                return Ok(field);
            }
            self.buffer.reserve(BUFFER_LEN - self.buffer.len().min(BUFFER_LEN));
            let spare_len = BUFFER_LEN - self.buffer.len().min(BUFFER_LEN);
            receive(&self.socket, &self.activity, &mut (&mut self.buffer).limit(spare_len)).await?;
        }
    }

    /// Appends exactly `len` bytes to `target`.
    pub(super) async fn append(&mut self, target: &mut BytesMut, len: usize) -> io::Result<()> {
        let mut missing_len = len;
        while missing_len > 0 {
            missing_len -= self.append_some(target, missing_len).await?;
        }
        Ok(())
    }

    /// Appends what is there, at least one byte and at most `len_max`, to `target`; returns the number of bytes.
    pub(super) async fn append_some(&mut self, target: &mut BytesMut, len_max: usize) -> io::Result<usize> {
        if let Some(len) = self.append_now(target, len_max)? {
            return Ok(len);
        }
        receive(&self.socket, &self.activity, &mut target.limit(len_max)).await
    }

    /// Appends what can be had without waiting, at most `len_max`; `None` when that is nothing.
    pub(super) fn append_now(&mut self, target: &mut BytesMut, len_max: usize) -> io::Result<Option<usize>> {
        // Bytes that were read ahead with a header come first.
        if !self.buffer.is_empty() {
            let len = self.buffer.len().min(len_max);
            target.put(self.buffer.split_to(len));
            return Ok(Some(len));
        }
        receive_now(&self.socket, &self.activity, &mut target.limit(len_max))
    }

    /// Waits until [`SocketReader::append_now`] is worth trying.
    pub(super) async fn readable(&self) -> io::Result<()> {
        if self.buffer.is_empty() { self.socket.readable().await } else { Ok(()) }
    }

    /// Drops the next `len` bytes.
    pub(super) async fn discard(&mut self, len: u64) -> io::Result<()> {
        const SCRATCH_LEN: u64 = 64 << 10;
        let mut missing_len = len;
        let mut scratch = BytesMut::new();
        while missing_len > 0 {
            scratch.clear();
            // In steps: an abandoned answer may be longer than the memory it is worth.
            let wanted_len = usize::try_from(missing_len.min(SCRATCH_LEN)).unwrap_or(usize::MAX);
            scratch.reserve(wanted_len);
            let got_len = self.append_some(&mut scratch, wanted_len).await?;
            missing_len = missing_len.saturating_sub(u64::try_from(got_len).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

async fn receive(socket: &Stream, activity: &Activity, target: &mut impl BufMut) -> io::Result<usize> {
    loop {
        if let Some(len) = receive_now(socket, activity, target)? {
            return Ok(len);
        }
        socket.readable().await?;
    }
}

fn receive_now(socket: &Stream, activity: &Activity, target: &mut impl BufMut) -> io::Result<Option<usize>> {
    let received = socket.try_receive(target)?;
    match received {
        Some(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection")),
        Some(_) => activity.note(),
        None => {}
    }
    Ok(received)
}
