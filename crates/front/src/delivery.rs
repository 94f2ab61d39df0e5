//! Bytes on their way to a client, each piece within a time limit.

use forebay_net::SendError;
use forebay_types::{ByteRange, Side};
use std::{fs::File, io, os::unix::fs::FileExt, time::Duration};
use tokio::{net::TcpStream, task::coop::consume_budget, time::timeout};

/// Why a client did not get its answer. The connection is closed then.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("the client took none or few of the bytes that waited for it in {} s", after.as_secs())]
    Stalled { after: Duration },
}

impl DeliveryError {
    pub const fn side(&self) -> Side {
        match self {
            Self::Send(error) => error.side(),
            Self::Stalled { .. } => Side::Client,
        }
    }
}

/// Bytes of a file handed to the kernel at a time: from 64 KiB to 1 MiB, this costs the least processor time in sequential
/// reads of 1 MiB.
const FILE_PIECE_LEN: u64 = 256 << 10;

/// Sends a range of a file, which should be in the page cache. Each piece has its own time limit.
///
/// # Errors
/// See [`DeliveryError`].
pub async fn deliver_file(
    socket: &TcpStream,
    file: &File,
    range: ByteRange,
    stall_max: Duration,
) -> Result<(), DeliveryError> {
    let mut position = range.start();
    while position < range.end() {
        if position > range.start() {
            // A client that takes bytes as fast as they are sent must not keep a worker thread to itself.
            consume_budget().await;
        }
        let piece = ByteRange::at(position, (range.end() - position).min(FILE_PIECE_LEN));
        // Mostly the socket takes all at once. The rest needs a future with a timer, for which idle connections have no memory.
        let rest = forebay_net::send_file_now(socket, file, piece)?;
        if !rest.is_empty() {
            Box::pin(deliver_within(stall_max, forebay_net::send_file(socket, file, rest))).await?;
        }
        position = piece.end();
    }
    Ok(())
}

/// Waits for `send`, but not longer than `stall_max`.
///
/// # Errors
/// See [`DeliveryError`].
pub async fn deliver_within(
    stall_max: Duration,
    send: impl Future<Output = Result<(), SendError>>,
) -> Result<(), DeliveryError> {
    match timeout(stall_max, send).await {
        Ok(sent) => Ok(sent?),
        Err(_) => Err(DeliveryError::Stalled { after: stall_max }),
    }
}

/// Fills `room` with the beginning of `range` of a file, which should be in the page cache, because the bytes are to be encrypted.
///
/// # Errors
/// As for bytes that are sent from the file.
pub fn read_to_encrypt(file: &File, range: ByteRange, room: &mut [u8]) -> Result<(), SendError> {
    let (offset, len) = (range.start(), range.len());
    file.read_exact_at(room, offset).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => {
            // The file may have been truncated by an administrator. The log shows how much is missing.
            let end = file.metadata().map_or(offset, |metadata| metadata.len().max(offset));
            SendError::UnexpectedEof { offset: end, missing_bytes: range.end().saturating_sub(end) }
        }
        _ => SendError::File { offset, len, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    const STALL_MAX: Duration = Duration::from_secs(60);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    fn file_of(len: u32) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..len / 4).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        file
    }

    #[tokio::test]
    async fn a_range_of_many_pieces_arrives_whole() {
        let (mut client, served) = pair().await;
        let len = u32::try_from(FILE_PIECE_LEN).unwrap() * 20;
        let sender = tokio::spawn(async move {
            deliver_file(&served, &file_of(len), ByteRange::between(4, u64::from(len) - 4), STALL_MAX).await
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        sender.await.unwrap().unwrap();
        assert!(received == (1..len / 4 - 1).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    }

    #[tokio::test]
    async fn a_file_that_has_become_shorter_is_no_answer() {
        let (mut client, served) = pair().await;
        let file = file_of(40_000);
        file.set_len(10_000).unwrap();
        let error = deliver_file(&served, &file, ByteRange::at(0, 40_000), STALL_MAX).await.unwrap_err();
        assert_eq!((error.side(), error.to_string().contains("ends at offset 10000")), (Side::Disk, true), "{error}");
        drop(served);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len(), 10_000, "no byte is made up");
        let encrypted = read_to_encrypt(&file, ByteRange::at(0, 40_000), &mut [0; 20_000]).unwrap_err();
        assert!(matches!(encrypted, SendError::UnexpectedEof { offset: 10_000, missing_bytes: 30_000 }), "{encrypted}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (_client, served) = pair().await;
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        let error = deliver_file(&served, &file, ByteRange::at(0, 64 << 20), STALL_MAX).await.unwrap_err();
        assert!(matches!(error, DeliveryError::Stalled { after: STALL_MAX }), "{error}");
        assert_eq!(error.side(), Side::Client);
    }
}
