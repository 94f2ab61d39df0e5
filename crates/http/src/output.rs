//! The bytes that wait for one client. Small ones are collected, large ones are sent from where they are.

use crate::{
    options::ASSEMBLY_LEN,
    waiting::Waiting,
    wire::{AnswerHead, Terms, Wire},
};
use bytes::Bytes;
use forebay_engine::Segment;
use forebay_front::{DeliveryError, MemoryPool, deliver_file, read_to_encrypt};
use forebay_http_proto::{Framing, Version};
use forebay_net::{NowaitReads, SendHint, read_nowait};
use forebay_types::ByteRange;
use std::{fs::File, time::Duration};

/// The bytes that wait for one client.
#[derive(Debug)]
pub(crate) struct Output {
    waiting: Waiting,
    /// Bytes sent so far.
    sent_len: u64,
    coding: Coding,
    terms: Terms,
}

/// How the bytes of a body are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Coding {
    AsTheyAre,
    /// Each with its length before it.
    Chunks {
        has_status: bool,
    },
}

/// A place in the output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mark {
    sent_len: u64,
    waiting_len: usize,
}

/// Bytes of a file that are read and encrypted at a time.
const ENCRYPTED_PIECE_LEN: usize = 64 << 10;

/// Bytes in memory below which a copy is cheaper than a system call.
const COPIED_LEN_MAX: usize = 16 << 10;

impl Output {
    pub(crate) fn new(stall_max: Duration, memory: MemoryPool) -> Self {
        let terms = Terms { stall_max, memory };
        Self { waiting: Waiting::default(), sent_len: 0, coding: Coding::AsTheyAre, terms }
    }

    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Begins an answer, whose body is coded by its head.
    pub(crate) fn begin(&mut self, wire: &mut impl Wire, head: &AnswerHead<'_>) {
        self.coding = match (head.version, head.answer.framing) {
            (Version::Http11, Framing::Chunked { has_status }) => Coding::Chunks { has_status },
            // HTTP/2 has its own frames, and HTTP/1.0 none.
            _ => Coding::AsTheyAre,
        };
        wire.begin(head, &mut self.waiting);
    }

    /// Begins a part of the body of `len` bytes, which must follow before its end.
    pub(crate) fn begin_chunk(&mut self, len: u64) {
        if self.coding != Coding::AsTheyAre {
            self.append(format!("{len:x}\r\n").as_bytes());
        }
    }

    pub(crate) fn end_chunk(&mut self) {
        if self.coding != Coding::AsTheyAre {
            self.append(b"\r\n");
        }
    }

    /// Appends bytes to the body.
    pub(crate) fn append_chunk(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.begin_chunk(bytes.len() as u64);
            self.append(bytes);
            self.end_chunk();
        }
    }

    /// Ends the body, with `status` after it for clients that have asked for one.
    pub(crate) fn end_body(&mut self, status: &str) {
        match self.coding {
            Coding::AsTheyAre => {}
            Coding::Chunks { has_status: false } => self.append(b"0\r\n\r\n"),
            Coding::Chunks { has_status: true } => {
                self.append(format!("0\r\nX-Transfer-Status: {status}\r\n\r\n").as_bytes());
            }
        }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.waiting.append(bytes);
    }

    /// Makes room for `len` bytes that are to be appended.
    pub(crate) fn expect(&mut self, len: u64) {
        self.waiting.expect(len.min(ASSEMBLY_LEN as u64));
    }

    /// Takes the waiting bytes.
    pub(crate) fn take(&mut self) -> Bytes {
        let bytes = Bytes::copy_from_slice(self.waiting.bytes());
        self.waiting.clear();
        bytes
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.waiting.len() >= ASSEMBLY_LEN
    }

    pub(crate) const fn mark(&self) -> Mark {
        Mark { sent_len: self.sent_len, waiting_len: self.waiting.len() }
    }

    /// Removes what was appended since `mark`; `false` if a part of it was sent.
    pub(crate) fn take_back(&mut self, mark: Mark) -> bool {
        if self.sent_len != mark.sent_len {
            return false;
        }
        self.waiting.truncate(mark.waiting_len);
        true
    }

    /// Appends a range of a file if the page cache holds all of it.
    pub(crate) fn append_cached(&mut self, file: &File, nowait: NowaitReads, range: ByteRange) -> bool {
        let Ok(len) = usize::try_from(range.len()) else { return false };
        let room = self.waiting.room(len);
        let is_cached = matches!(read_nowait(file, nowait, range.start(), room), Ok(Some(read_len)) if read_len == len);
        if is_cached {
            self.waiting.commit(len);
        }
        is_cached
    }

    /// The waiting bytes, if those of a body can be appended to them as they are.
    pub(crate) fn as_they_are(&mut self) -> Option<&mut Waiting> {
        (self.coding == Coding::AsTheyAre).then_some(&mut self.waiting)
    }

    /// Sends all waiting bytes.
    pub(crate) async fn flush(&mut self, wire: &mut impl Wire) -> Result<(), DeliveryError> {
        self.send_waiting(wire, SendHint::Last).await
    }

    async fn send_waiting(&mut self, wire: &mut impl Wire, hint: SendHint) -> Result<(), DeliveryError> {
        let len = self.waiting.len();
        if len == 0 {
            return Ok(());
        }
        wire.send_waiting(&mut self.waiting, hint, &self.terms).await?;
        self.sent_len += len as u64;
        Ok(())
    }

    /// Sends all waiting bytes and then a range of a file, which should be in the page cache.
    pub(crate) async fn send_file(
        &mut self,
        wire: &mut impl Wire,
        file: &File,
        range: ByteRange,
    ) -> Result<(), DeliveryError> {
        if wire.plain().is_none() {
            return self.send_file_encrypted(wire, file, range).await;
        }
        // The hint keeps the header and the first bytes of the file in one packet.
        self.send_waiting(wire, SendHint::More).await?;
        let Some(socket) = wire.plain() else { return Ok(()) };
        deliver_file(socket, file, range, self.terms.stall_max).await?;
        self.sent_len += range.len();
        Ok(())
    }

    /// As [`Output::send_file`]. Bytes to be encrypted must be in memory, so they go through the buffer.
    async fn send_file_encrypted(
        &mut self,
        wire: &mut impl Wire,
        file: &File,
        range: ByteRange,
    ) -> Result<(), DeliveryError> {
        let mut rest = range;
        while !rest.is_empty() {
            let room_len = ENCRYPTED_PIECE_LEN.saturating_sub(self.waiting.len()).max(1);
            let len = usize::try_from(rest.len()).unwrap_or(usize::MAX).min(room_len);
            read_to_encrypt(file, rest, self.waiting.room(len))?;
            self.waiting.commit(len);
            rest = ByteRange::between(rest.start() + len as u64, rest.end());
            if self.waiting.len() >= ENCRYPTED_PIECE_LEN {
                self.flush(wire).await?;
            }
        }
        Ok(())
    }

    /// Sends the parts of an answer. Short ones in memory are collected.
    pub(crate) async fn send_segments(
        &mut self,
        wire: &mut impl Wire,
        segments: Vec<Segment>,
    ) -> Result<(), DeliveryError> {
        for segment in segments {
            match segment {
                Segment::File { file, range } => self.send_file(wire, &file, range).await?,
                Segment::Memory(bytes) => self.send_bytes(wire, &bytes).await?,
            }
        }
        Ok(())
    }

    async fn send_bytes(&mut self, wire: &mut impl Wire, bytes: &Bytes) -> Result<(), DeliveryError> {
        if bytes.len() < COPIED_LEN_MAX {
            self.append(bytes);
            return if self.is_full() { self.flush(wire).await } else { Ok(()) };
        }
        self.send_waiting(wire, SendHint::More).await?;
        wire.send_bytes(bytes, &self.terms).await?;
        self.sent_len += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::Stream;
    use forebay_types::Side;
    use std::{io::Write, sync::Arc};
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
    };

    const STALL_MAX: Duration = Duration::from_secs(60);

    async fn pair() -> (TcpStream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0.into())
    }

    #[tokio::test]
    async fn bytes_of_memory_and_files_are_sent_in_order() {
        let (mut client, mut served) = pair().await;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'f'; 40_000]).unwrap();
        let mut output = Output::new(STALL_MAX, MemoryPool::new(64 << 20));
        let sender = tokio::spawn(async move {
            output.append(b"head");
            let segments = vec![
                Segment::Memory(Bytes::from_static(b"small")),
                Segment::File { file: Arc::new(file), range: ByteRange::at(10, 30_000) },
                Segment::Memory(Bytes::from(vec![b'm'; 600_000])),
                Segment::Memory(Bytes::from_static(b"end")),
            ];
            output.send_segments(&mut served, segments).await.unwrap();
            output.flush(&mut served).await.unwrap();
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        sender.await.unwrap();
        let parts = [b"headsmall".to_vec(), vec![b'f'; 30_000], vec![b'm'; 600_000], b"end".to_vec()];
        assert!(received == parts.concat());
    }

    #[tokio::test]
    async fn bytes_can_be_taken_back_until_they_are_sent() {
        let (_client, mut served) = pair().await;
        let mut output = Output::new(STALL_MAX, MemoryPool::new(64 << 20));
        output.append(b"keep");
        let mark = output.mark();
        output.append(b"drop");
        assert!(output.take_back(mark));
        assert_eq!(output.waiting.bytes(), b"keep");
        output.flush(&mut served).await.unwrap();
        assert!(!output.take_back(mark), "a part was sent");
        assert_eq!(output.waiting.capacity(), 0, "an idle connection holds no buffer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (_client, mut served) = pair().await;
        let mut output = Output::new(STALL_MAX, MemoryPool::new(64 << 20));
        let long = Segment::Memory(Bytes::from(vec![0; 64 << 20]));
        let error = output.send_segments(&mut served, vec![long]).await.unwrap_err();
        assert!(matches!(error, DeliveryError::Stalled { after: STALL_MAX }), "{error}");
        assert_eq!(error.side(), Side::Client);
    }
}
