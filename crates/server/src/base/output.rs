//! The answers that wait for one client: small ones are collected, large ones are sent from where they are.

use crate::base::{
    event::Frame,
    frame_cutter::FrameCutter,
    options::{ASSEMBLY_LEN, SHORT_ASSEMBLY_LEN},
};
use bytes::Bytes;
use forebay_engine::Segment;
use forebay_front::{DeliveryError, MemoryPool, deliver_file, deliver_within, read_to_encrypt};
use forebay_net::{Buffer, LARGE_BUFFER_LEN, SMALL_BUFFER_LEN, SendError, SendHint, Stream};
use forebay_types::{ByteRange, Side};
use std::{fs::File, io::IoSlice, time::Duration};
use tokio::task::coop::consume_budget;

/// The answers that wait for one client. They are sent in order, by [`Output::flush`] or with the next large answer.
#[derive(Debug)]
pub(crate) struct Output {
    /// The first `filled` bytes wait; the rest is free. It is held only while bytes wait.
    buffer: Buffer,
    filled: usize,
    /// Encoders append here; their bytes are copied to the buffer.
    encoded: Vec<u8>,
    /// Finds the starts of answers in the bytes that are encrypted.
    cutter: FrameCutter,
    stall_max: Duration,
    memory: MemoryPool,
    /// Bytes that are collected before they are sent.
    assembly_len: usize,
}

/// Why a client did not get its answer. The connection is closed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// The disk failed within a frame, where no error response is possible.
    #[error("{0}")]
    Disk(String),
}

impl OutputError {
    pub(crate) const fn side(&self) -> Side {
        match self {
            Self::Delivery(error) => error.side(),
            Self::Disk(_) => Side::Disk,
        }
    }
}

impl From<SendError> for OutputError {
    fn from(error: SendError) -> Self {
        Self::Delivery(error.into())
    }
}

const _: () = assert!(ASSEMBLY_LEN < LARGE_BUFFER_LEN, "the bytes that are collected fit into one buffer");

/// Bytes in memory that are sent together.
#[derive(Default)]
struct Gathered {
    parts: Vec<Bytes>,
    len: usize,
}

impl Gathered {
    /// Takes bytes off the front of `bytes`, until there are [`ASSEMBLY_LEN`].
    fn take_from(&mut self, bytes: &mut Bytes) {
        let part = bytes.split_to(ASSEMBLY_LEN.saturating_sub(self.len).min(bytes.len()));
        self.len += part.len();
        self.parts.push(part);
    }
}

/// Slices of memory in one system call; a limit of the system.
const SLICES_PER_SEND: usize = 1024;

/// Capacity that is kept for encoders.
const ENCODED_CAPACITY_MAX: usize = 4 << 10;

/// Bytes of a file that are read and encrypted at a time: few system calls, and they stay in the processor's cache.
const ENCRYPTED_PIECE_LEN: usize = 64 << 10;

/// Bytes in memory below which a copy is cheaper than a system call.
const COPIED_LEN_MAX: usize = 16 << 10;

impl Output {
    pub(crate) fn new(stall_max: Duration, memory: MemoryPool) -> Self {
        let (buffer, encoded, cutter) = (Buffer::default(), Vec::new(), FrameCutter::default());
        Self { buffer, filled: 0, encoded, cutter, stall_max, assembly_len: assembly_len(&memory), memory }
    }

    /// Bytes that are to be appended at a time.
    pub(crate) const fn assembly_len(&self) -> usize {
        self.assembly_len
    }

    /// Whether so many bytes wait that they are to be sent.
    pub(crate) const fn is_full(&self) -> bool {
        self.filled >= self.assembly_len
    }

    pub(crate) const fn len(&self) -> usize {
        self.filled
    }

    /// Appends the bytes that `encode` appends to its vector.
    pub(crate) fn encode<T>(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        // The vector is moved out because `encode` may need it while this output is borrowed.
        let mut encoded = std::mem::take(&mut self.encoded);
        let result = encode(&mut encoded);
        if !encoded.is_empty() {
            self.append(&encoded);
            encoded.clear();
        }
        // A listing may have been long: its memory is released.
        if encoded.capacity() <= ENCODED_CAPACITY_MAX {
            self.encoded = encoded;
        }
        result
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// `len` free bytes, to be filled and then appended by [`Output::commit`].
    #[expect(clippy::indexing_slicing, reason = "the buffer has just been made long enough")]
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.filled + len;
        if self.buffer.len() < end {
            self.grow(end);
        }
        &mut self.buffer[self.filled..end]
    }

    /// Makes room for `len` bytes, or for as many as a long buffer holds, so that waiting bytes are not copied later.
    pub(crate) fn expect(&mut self, len: usize) {
        // Longer answers are flushed in parts, so they never need more than one large buffer.
        self.begin();
        let len_max = if self.assembly_len < ASSEMBLY_LEN { self.assembly_len } else { LARGE_BUFFER_LEN };
        let end = self.filled.saturating_add(len).min(len_max);
        if self.buffer.len() < end {
            self.grow(end);
        }
    }

    /// Chooses how much is collected, at the first byte.
    fn begin(&mut self) {
        if self.buffer.is_empty() {
            self.assembly_len = assembly_len(&self.memory);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.begin();
        let mut grown = Buffer::of(len.max(SMALL_BUFFER_LEN));
        if let Some(start) = grown.get_mut(..self.filled) {
            start.copy_from_slice(self.waiting());
        }
        self.buffer = grown;
    }

    fn clear(&mut self) {
        self.filled = 0;
        self.buffer = Buffer::default();
    }

    /// Appends the first `len` bytes of the last [`Output::room`].
    pub(crate) fn commit(&mut self, len: usize) {
        assert!(self.filled + len <= self.buffer.len(), "more bytes committed than there was room for");
        self.filled += len;
    }

    /// The waiting bytes from `start` on.
    pub(crate) fn behind(&self, start: usize) -> &[u8] {
        self.waiting().get(start..).unwrap_or_default()
    }

    /// Replaces waiting bytes from `start` on.
    pub(crate) fn overwrite(&mut self, start: usize, bytes: &[u8]) {
        let end = start.saturating_add(bytes.len()).min(self.filled);
        if let Some(waiting) = self.buffer.get_mut(start..end) {
            waiting.copy_from_slice(bytes);
        }
    }

    /// Removes the bytes that were appended since `len` bytes waited.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.filled = self.filled.min(len);
        // Buffers without bytes belong to all connections: this one may wait for a disk.
        if self.filled == 0 {
            self.clear();
        }
    }

    /// Sends all waiting bytes.
    pub(crate) async fn flush(&mut self, stream: &Stream) -> Result<(), OutputError> {
        if self.filled > 0 {
            // Encrypted bytes have no fast path to the socket: the TLS library writes the records.
            let Some(socket) = stream.plain() else { return self.send_encrypted(stream, &[]).await };
            // Each piece has its own time limit: the waiting bytes may be many, and the client slow.
            for (position, piece) in self.waiting().chunks(LARGE_BUFFER_LEN).enumerate() {
                if position > 0 {
                    consume_budget().await;
                }
                // Mostly the socket takes all at once. Only the rest needs a future with a timer.
                let rest = forebay_net::send_now(socket, piece, SendHint::Last)?;
                if !rest.is_empty() {
                    let _held = self.memory.hold(self.buffer.len());
                    deliver_within(self.stall_max, forebay_net::send_all(socket, rest, SendHint::Last)).await?;
                }
            }
            self.clear();
        }
        Ok(())
    }

    /// Sends all waiting bytes and then `parts`, each answer in records of its own.
    async fn send_encrypted(&mut self, stream: &Stream, parts: &[Bytes]) -> Result<(), OutputError> {
        let _held = self.memory.hold(self.buffer.len());
        let mut answers = Vec::with_capacity(parts.len() + 1);
        self.cutter.cut(self.buffer.get(..self.filled).unwrap_or_default(), &mut answers);
        parts.iter().for_each(|part| self.cutter.cut(part, &mut answers));
        let (mut batch, mut batch_len) = (Vec::with_capacity(answers.len()), 0);
        for piece in answers.iter().flat_map(|answer| answer.chunks(LARGE_BUFFER_LEN)) {
            batch.push(IoSlice::new(piece));
            batch_len += piece.len();
            // The stall limit counts for each batch, not for the whole answer.
            if batch_len >= LARGE_BUFFER_LEN {
                deliver_within(self.stall_max, stream.send_slices(&mut batch)).await?;
                consume_budget().await;
                batch.clear();
                batch_len = 0;
            }
        }
        deliver_within(self.stall_max, stream.send_slices(&mut batch)).await?;
        self.clear();
        Ok(())
    }

    /// Sends all waiting bytes and then a range of a file, which should be in the page cache.
    pub(crate) async fn send_file(
        &mut self,
        stream: &Stream,
        file: &File,
        range: ByteRange,
    ) -> Result<(), OutputError> {
        let Some(socket) = stream.plain() else { return self.send_file_encrypted(stream, file, range).await };
        if self.filled > 0 {
            // The hint keeps the header and the first bytes of the file in one packet.
            let rest = forebay_net::send_now(socket, self.waiting(), SendHint::More)?;
            if !rest.is_empty() {
                let _held = self.memory.hold(self.buffer.len());
                deliver_within(self.stall_max, forebay_net::send_all(socket, rest, SendHint::More)).await?;
            }
            self.clear();
        }
        Ok(deliver_file(socket, file, range, self.stall_max).await?)
    }

    /// As [`Output::send_file`]. Bytes to be encrypted must be in memory, so they go through the buffer; a short rest waits
    /// there.
    async fn send_file_encrypted(&mut self, stream: &Stream, file: &File, range: ByteRange) -> Result<(), OutputError> {
        let mut rest = range;
        while !rest.is_empty() {
            let room_len = ENCRYPTED_PIECE_LEN.saturating_sub(self.filled).max(1);
            let piece_len = usize::try_from(rest.len()).unwrap_or(usize::MAX).min(room_len);
            read_to_encrypt(file, rest, self.room(piece_len))?;
            self.commit(piece_len);
            rest = ByteRange::between(rest.start() + piece_len as u64, rest.end());
            if self.filled >= ENCRYPTED_PIECE_LEN {
                self.flush(stream).await?;
            }
        }
        Ok(())
    }

    /// Appends a frame, and sends the large parts of it.
    pub(crate) async fn send_frame(&mut self, stream: &Stream, frame: Frame) -> Result<(), OutputError> {
        self.append(&frame.head);
        let mut gathered = Gathered::default();
        for segment in frame.body {
            match segment {
                Segment::File { file, range } => {
                    // Bytes in memory come before the file part in the answer.
                    self.send_gathered(stream, &mut gathered).await?;
                    self.send_file(stream, &file, range).await?;
                }
                Segment::Memory(mut bytes) => {
                    while !bytes.is_empty() {
                        gathered.take_from(&mut bytes);
                        if gathered.len >= ASSEMBLY_LEN {
                            self.send_gathered(stream, &mut gathered).await?;
                        }
                    }
                }
            }
        }
        self.send_gathered(stream, &mut gathered).await
    }

    /// Appends the gathered bytes if they are few. Otherwise sends all waiting bytes, and then the gathered ones from where
    /// they are.
    async fn send_gathered(&mut self, stream: &Stream, gathered: &mut Gathered) -> Result<(), OutputError> {
        let Gathered { parts, len } = std::mem::take(gathered);
        if len < COPIED_LEN_MAX {
            parts.iter().for_each(|part| self.append(part));
            return Ok(());
        }
        let Some(socket) = stream.plain() else { return self.send_encrypted(stream, &parts).await };
        for batch in parts.chunks(SLICES_PER_SEND - 1) {
            // One slice is left for the bytes that wait.
            let waiting = std::iter::once(self.waiting());
            let mut slices: Vec<IoSlice<'_>> =
                waiting.chain(batch.iter().map(|part| &part[..])).map(IoSlice::new).collect();
            deliver_within(self.stall_max, forebay_net::send_vectored(socket, &mut slices)).await?;
            self.clear();
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "never more is filled than there is; hot path")]
    fn waiting(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

/// Bytes that are collected before they are sent: few when clients that do not take theirs hold the memory.
fn assembly_len(memory: &MemoryPool) -> usize {
    if memory.has(ASSEMBLY_LEN) { ASSEMBLY_LEN } else { SHORT_ASSEMBLY_LEN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, sync::Arc};
    use tokio::{io::AsyncReadExt, net::TcpStream};

    const STALL_MAX: Duration = Duration::from_secs(60);

    fn new_output() -> Output {
        Output::new(STALL_MAX, MemoryPool::new(64 << 20))
    }

    async fn pair() -> (TcpStream, Stream) {
        let mut listener = forebay_net::Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = TcpStream::connect(listener.address()).await.unwrap();
        (client, listener.accept().await.0.into())
    }

    #[tokio::test]
    async fn answers_are_sent_in_order() {
        let (mut client, served) = pair().await;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'f'; 40_000]).unwrap();
        let mut output = new_output();
        output.append(b"one");
        output.encode(|out| out.extend_from_slice(b"two"));
        let body = vec![
            Segment::Memory(Bytes::from_static(b"small")),
            Segment::File { file: Arc::new(file), range: ByteRange::at(10, 30_000) },
            Segment::Memory(Bytes::from(vec![b'm'; 600_000])),
            Segment::Memory(Bytes::from_static(b"end")),
        ];
        let sender = tokio::spawn(async move {
            output.send_frame(&served, Frame { head: b"head".to_vec(), body }).await.unwrap();
            output.append(b"!");
            output.flush(&served).await.unwrap();
            assert_eq!(output.len(), 0);
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        sender.await.unwrap();
        let expected =
            [b"onetwoheadsmall".to_vec(), vec![b'f'; 30_000], vec![b'm'; 600_000], b"end!".to_vec()].concat();
        assert!(received == expected);
    }

    #[test]
    fn appended_bytes_can_be_removed() {
        let mut output = new_output();
        output.append(b"keep");
        let kept_len = output.len();
        output.room(100).fill(1);
        output.commit(50);
        output.truncate(kept_len);
        assert_eq!(output.waiting(), b"keep");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_gets_a_long_answer_however_it_was_made() {
        const LEN: usize = 64 << 20;
        let frames: [fn(&mut Output) -> Frame; 2] = [
            |output| {
                output.append(&vec![1; LEN]);
                Frame::default()
            },
            |_| Frame::from(vec![1; LEN]),
        ];
        // A busy task keeps the paused clock from advancing by itself: only the client advances it.
        let busy = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        for make in frames {
            let (mut client, served) = pair().await;
            let mut output = new_output();
            let frame = make(&mut output);
            let sender = tokio::spawn(async move {
                output.send_frame(&served, frame).await?;
                output.flush(&served).await
            });
            let mut received = vec![0; 4 << 20];
            for _ in 0..LEN / received.len() {
                tokio::time::advance(STALL_MAX / 3).await;
                client.read_exact(&mut received).await.unwrap();
                assert!(received.iter().all(|&byte| byte == 1));
            }
            sender.await.unwrap().unwrap();
        }
        busy.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_of_a_client_that_takes_nothing_is_closed() {
        let (_client, served) = pair().await;
        let mut output = new_output();
        let frame = Frame { head: Vec::new(), body: vec![Segment::Memory(Bytes::from(vec![0; 64 << 20]))] };
        let error = output.send_frame(&served, frame).await.unwrap_err();
        assert!(matches!(error, OutputError::Delivery(DeliveryError::Stalled { after: STALL_MAX })), "{error}");
        assert_eq!(error.side(), Side::Client);
    }
}
