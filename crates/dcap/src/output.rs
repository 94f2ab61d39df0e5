//! Answers on their way to a client.

use crate::{end::End, options::ASSEMBLY_LEN};
use forebay_engine::Segment;
use forebay_front::{append_segment, deliver_file, deliver_within};
use forebay_net::{NowaitReads, SendHint, read_nowait, send_all};
use forebay_types::ByteRange;
use std::{fs::File, mem, sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Bytes in memory that are copied rather than sent by a system call of their own.
const COPIED_LEN_MAX: usize = 16 << 10;

/// Bytes that wait to be sent, and those sent directly after them.
pub(crate) struct Output {
    pub(crate) waiting: Vec<u8>,
    stall_max: Duration,
    /// Whether bytes are collected, and none is sent.
    is_held: bool,
}

impl Output {
    pub(crate) const fn new(stall_max: Duration) -> Self {
        Self { waiting: Vec::new(), stall_max, is_held: false }
    }

    /// Appends a range of a file, if the page cache holds it.
    pub(crate) fn append_cached(&mut self, file: &File, nowait: NowaitReads, range: ByteRange) -> bool {
        let start = self.waiting.len();
        let Ok(len) = usize::try_from(range.len()) else { return false };
        self.waiting.resize(start + len, 0);
        let room = self.waiting.get_mut(start..).unwrap_or_default();
        let is_cached = matches!(read_nowait(file, nowait, range.start(), room), Ok(Some(read_len)) if read_len == len);
        if !is_cached {
            self.waiting.truncate(start);
        }
        is_cached
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.waiting.len() >= ASSEMBLY_LEN
    }

    /// Collects all bytes until [`Output::release`].
    pub(crate) const fn hold(&mut self) {
        self.is_held = true;
    }

    pub(crate) const fn release(&mut self) {
        self.is_held = false;
    }

    /// Sends all waiting bytes, unless they are held.
    pub(crate) async fn flush(&mut self, stream: &TcpStream) -> Result<(), End> {
        if self.is_held {
            return Ok(());
        }
        self.send_waiting(stream, SendHint::Last).await?;
        // A connection that waits for its client holds no buffer.
        self.waiting = Vec::new();
        Ok(())
    }

    /// Sends the waiting bytes and a range of a file, which should be in the page cache.
    pub(crate) async fn send_file(
        &mut self,
        stream: &TcpStream,
        file: &Arc<File>,
        range: ByteRange,
    ) -> Result<(), End> {
        if self.is_held {
            let segment = Segment::File { file: Arc::clone(file), range };
            return append_segment(&segment, &mut self.waiting).map_err(End::Read);
        }
        self.send_waiting(stream, SendHint::More).await?;
        Ok(deliver_file(stream, file, range, self.stall_max).await?)
    }

    pub(crate) async fn send_segments(&mut self, stream: &TcpStream, segments: Vec<Segment>) -> Result<(), End> {
        for segment in segments {
            match segment {
                Segment::File { file, range } => self.send_file(stream, &file, range).await?,
                Segment::Memory(bytes) if self.is_held || bytes.len() < COPIED_LEN_MAX => {
                    self.waiting.extend_from_slice(&bytes);
                    if self.is_full() && !self.is_held {
                        self.send_waiting(stream, SendHint::More).await?;
                    }
                }
                Segment::Memory(bytes) => {
                    self.send_waiting(stream, SendHint::More).await?;
                    deliver_within(self.stall_max, send_all(stream, &bytes, SendHint::Last)).await?;
                }
            }
        }
        Ok(())
    }

    async fn send_waiting(&mut self, stream: &TcpStream, hint: SendHint) -> Result<(), End> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = mem::take(&mut self.waiting);
        deliver_within(self.stall_max, send_all(stream, &waiting, hint)).await?;
        // Kept for the rest of the answer.
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }
}
