//! Sending on a socket: bytes, lists of bytes, and ranges of files without copying them through this process.
//!
//! Each function tries at once and waits only when the socket's buffer is full. None is cancel safe: a dropped future
//! may have sent a part, so the connection must then be closed. The caller is the only writer of its socket.

use forebay_types::{ByteRange, Side};
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendFlags},
};
use std::{
    fs::File,
    io::{self, IoSlice},
};
use tokio::{io::Interest, net::TcpStream};

/// Most bytes of one `sendfile` call: a fast reader of a large range must not occupy a worker thread for long.
pub const SENDFILE_CALL_LEN_MAX: usize = 1 << 20;

/// Most slices of one system call (`IOV_MAX` of Linux).
const SLICES_PER_CALL_MAX: usize = 1024;

/// Why sending failed. The stream may be in the middle of a message: close it.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("the connection failed while sending: {0}")]
    Connection(#[source] io::Error),
    #[error("cannot send {len} bytes at offset {offset} of a file: {source}")]
    File {
        offset: u64,
        /// Bytes not sent.
        len: u64,
        source: io::Error,
    },
    #[error("a file ends at offset {offset}, {missing_bytes} bytes early")]
    UnexpectedEof {
        offset: u64,
        /// Bytes not sent.
        missing_bytes: u64,
    },
}

impl SendError {
    /// Whose side the error is on: the peer's (to a server, the client), or the cache disk's.
    pub const fn side(&self) -> Side {
        match self {
            Self::Connection(_) => Side::Client,
            Self::File { .. } | Self::UnexpectedEof { .. } => Side::Disk,
        }
    }
}

/// Hint to the kernel about subsequent data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendHint {
    /// None: the bytes are sent at once.
    Last,
    /// More data follows at once, so that a header is sent in one packet with the beginning of its body. The next send without
    /// this hint flushes both.
    More,
}

impl SendHint {
    const fn flags(self) -> SendFlags {
        match self {
            Self::Last => SendFlags::NOSIGNAL,
            Self::More => SendFlags::NOSIGNAL.union(SendFlags::MORE),
        }
    }
}

/// Sends as many of `bytes` as the socket accepts without waiting, and returns the rest.
///
/// # Errors
/// [`SendError::Connection`].
pub fn send_now<'a>(stream: &TcpStream, bytes: &'a [u8], hint: SendHint) -> Result<&'a [u8], SendError> {
    let send = || retry_interrupted(|| rustix::net::send(stream, bytes, hint.flags()));
    match stream.try_io(Interest::WRITABLE, send) {
        Ok(sent_len) => Ok(bytes.get(sent_len..).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
        Err(error) => Err(SendError::Connection(error)),
    }
}

/// Like [`send_file`], with one call that does not wait; returns the rest.
///
/// # Errors
/// As for [`send_file`].
pub fn send_file_now(stream: &TcpStream, file: &File, range: ByteRange) -> Result<ByteRange, SendError> {
    let send = || send_file_once(stream, file, range);
    file_rest(range, stream.try_io(Interest::WRITABLE, send))
}

/// Sends all of `bytes`.
///
/// # Errors
/// [`SendError::Connection`].
pub async fn send_all(stream: &TcpStream, mut bytes: &[u8], hint: SendHint) -> Result<(), SendError> {
    while !bytes.is_empty() {
        let sent_len = stream
            .async_io(Interest::WRITABLE, || retry_interrupted(|| rustix::net::send(stream, bytes, hint.flags())))
            .await
            .map_err(SendError::Connection)?;
        bytes = bytes.get(sent_len..).unwrap_or_default();
    }
    Ok(())
}

/// Sends all of `slices`, in order, in as few system calls as possible. The slices are consumed.
///
/// # Errors
/// [`SendError::Connection`].
pub async fn send_vectored(stream: &TcpStream, mut slices: &mut [IoSlice<'_>]) -> Result<(), SendError> {
    IoSlice::advance_slices(&mut slices, 0); // drops empty slices at the front
    while !slices.is_empty() {
        let (batch, behind) = slices.split_at(slices.len().min(SLICES_PER_CALL_MAX));
        let flags = if behind.is_empty() { SendHint::Last } else { SendHint::More }.flags();
        let sent_len = stream
            .async_io(Interest::WRITABLE, || {
                retry_interrupted(|| rustix::net::sendmsg(stream, batch, &mut SendAncillaryBuffer::default(), flags))
            })
            .await
            .map_err(SendError::Connection)?;
        IoSlice::advance_slices(&mut slices, sent_len);
    }
    Ok(())
}

/// Sends a range of `file` without copying it through this process. The file's own position is neither used nor moved. A page
/// that is not in memory blocks the thread: check [`crate::probe_cached`] first.
///
/// # Errors
/// See [`SendError`]; a range beyond the end of the file is [`SendError::UnexpectedEof`].
pub async fn send_file(stream: &TcpStream, file: &File, range: ByteRange) -> Result<(), SendError> {
    let mut rest = range;
    while !rest.is_empty() {
        let sent = stream.async_io(Interest::WRITABLE, || send_file_once(stream, file, rest)).await;
        rest = file_rest(rest, sent)?;
    }
    Ok(())
}

fn send_file_once(stream: &TcpStream, file: &File, range: ByteRange) -> io::Result<usize> {
    let call_len = usize::try_from(range.len()).unwrap_or(usize::MAX).min(SENDFILE_CALL_LEN_MAX);
    let mut cursor = range.start();
    retry_interrupted(|| rustix::fs::sendfile(stream, file, Some(&mut cursor), call_len))
}

/// The rest of `range` after `sent` bytes.
fn file_rest(range: ByteRange, sent: io::Result<usize>) -> Result<ByteRange, SendError> {
    match sent {
        Ok(0) if !range.is_empty() => {
            Err(SendError::UnexpectedEof { offset: range.start(), missing_bytes: range.len() })
        }
        Ok(sent_len) => {
            let sent_len = u64::try_from(sent_len).unwrap_or(u64::MAX);
            Ok(ByteRange::between(range.start().saturating_add(sent_len).min(range.end()), range.end()))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(range),
        Err(source) if is_of_connection(&source) => Err(SendError::Connection(source)),
        Err(source) => Err(SendError::File { offset: range.start(), len: range.len(), source }),
    }
}

/// Repeats a system call interrupted by a signal. "Would block" is returned: tokio then waits.
fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
}

/// Whether a `sendfile` error comes from the socket and not from the file.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::PIPE
                | Errno::CONNRESET
                | Errno::CONNABORTED
                | Errno::NOTCONN
                | Errno::SHUTDOWN
                | Errno::TIMEDOUT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NOBUFS
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listener;
    use std::io::Write;
    use tokio::io::AsyncReadExt;

    /// Far more than the socket buffers of one connection hold, so that senders meet a full one.
    const LARGE: usize = 12 << 20;

    async fn pair() -> (TcpStream, TcpStream) {
        let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = TcpStream::connect(listener.address()).await.unwrap();
        (client, listener.accept().await.0)
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect()
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// What arrives until the sender closes.
    async fn drain(mut stream: TcpStream) -> Vec<u8> {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        received
    }

    #[tokio::test]
    async fn header_and_file_range_arrive_whole_through_a_full_buffer() {
        let (client, served) = pair().await;
        let bytes = pattern(LARGE);
        let file = file_of(&bytes);
        let receiver = tokio::spawn(drain(client));
        send_all(&served, b"header", SendHint::More).await.unwrap();
        send_file(&served, &file, ByteRange::at(3, (LARGE - 5) as u64)).await.unwrap();
        drop(served);
        let received = receiver.await.unwrap();
        assert_eq!(received.split_at(6), (&b"header"[..], &bytes[3..LARGE - 2]));
    }

    #[tokio::test]
    async fn slices_arrive_in_order_beyond_the_limit_of_one_call() {
        let (client, served) = pair().await;
        let bytes = pattern(LARGE);
        let receiver = tokio::spawn(drain(client));
        let mut slices: Vec<IoSlice<'_>> = vec![IoSlice::new(b"")];
        slices.extend(bytes.chunks(LARGE / (SLICES_PER_CALL_MAX * 3) + 1).map(IoSlice::new));
        assert!(slices.len() > 2 * SLICES_PER_CALL_MAX);
        send_vectored(&served, &mut slices).await.unwrap();
        send_all(&served, b"tail", SendHint::Last).await.unwrap();
        drop(served);
        let received = receiver.await.unwrap();
        assert_eq!(received.split_at(LARGE), (&bytes[..], &b"tail"[..]));
    }

    #[tokio::test]
    async fn nothing_to_send_is_no_error() {
        let (client, served) = pair().await;
        send_all(&served, b"", SendHint::Last).await.unwrap();
        send_vectored(&served, &mut []).await.unwrap();
        send_vectored(&served, &mut [IoSlice::new(b"")]).await.unwrap();
        send_file(&served, &file_of(b""), ByteRange::at(0, 0)).await.unwrap();
        drop(served);
        assert!(drain(client).await.is_empty());
    }

    #[tokio::test]
    async fn short_and_unreadable_files_are_the_fault_of_the_disk() {
        let (_client, served) = pair().await;
        let error = send_file(&served, &file_of(b"12345"), ByteRange::at(2, 10)).await.unwrap_err();
        assert!(matches!(error, SendError::UnexpectedEof { offset: 5, missing_bytes: 7 }), "{error}");
        assert_eq!(error.side(), Side::Disk);
        let directory = tempfile::tempdir().unwrap();
        let write_only = File::create(directory.path().join("f")).unwrap();
        let error = send_file(&served, &write_only, ByteRange::at(0, 1)).await.unwrap_err();
        assert!(matches!(error, SendError::File { offset: 0, len: 1, .. }), "{error}");
    }

    #[tokio::test]
    async fn a_peer_that_left_is_the_peers_fault() {
        let (client, served) = pair().await;
        client.set_zero_linger().unwrap();
        drop(client); // resets the connection
        served.ready(Interest::READABLE).await.unwrap();
        let error = send_file(&served, &file_of(&pattern(100)), ByteRange::at(0, 100)).await.unwrap_err();
        assert!(matches!(error, SendError::Connection(_)), "{error}");
        assert_eq!(error.side(), Side::Client);
        assert!(matches!(send_all(&served, b"x", SendHint::Last).await, Err(SendError::Connection(_))));
    }
}
