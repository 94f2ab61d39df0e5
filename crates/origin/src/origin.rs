//! The traits of origins and of files open there.

use crate::{DelegatedCredentials, OriginError};
use bytes::Bytes;
use forebay_types::{ByteRange, Checksum, DirEntry, FileStat, Lfn, OriginId, Validator};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::{sync::mpsc, task::unconstrained};

/// Page sums cover pages that end at multiples of this offset, in bytes.
const PAGE_LEN: u64 = 4096;

/// A boxed future, as trait objects need it. So do public functions with much behind them: the code of an `async fn`, and of all that
/// it awaits, is compiled once more in each crate that awaits it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer of an origin, once it comes.
pub type OriginFuture<'a, T> = BoxFuture<'a, Result<T, OriginError>>;

/// One origin: a server, or several interchangeable ones tried in order.
///
/// Every operation is bounded in time, and retried where that can help before it fails.
pub trait Origin: Send + Sync {
    /// Name for logs and metrics: `host:port` of the first server.
    fn label(&self) -> &str;

    /// Whether it is shown the credentials of the clients for which files are opened.
    fn acts_for_clients(&self) -> bool {
        false
    }

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>>;

    /// As [`Origin::open`], for a reader that is expected to ask for `first`, which may end beyond the file. To be overridden where one
    /// request can open a file and ask for bytes. A reader that asks for others is served as well.
    fn open_to_read<'a>(&'a self, path: &'a OriginPath, first: ByteRange) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        let _ = first;
        self.open(path)
    }

    /// Asks for size, change time and kind of a path.
    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat>;

    /// As [`Origin::stat`], with the file's validator. To be overridden where that is more than the time of change.
    fn stat_with_validator<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, (FileStat, Validator)> {
        Box::pin(async move {
            let stat = self.stat(path).await?;
            let validator = Validator::of_mtime(stat.mtime);
            Ok((stat, validator))
        })
    }

    /// Lists a directory. Entries may carry more or less than `detail` asks for.
    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>>;

    /// Asks for a file's checksum; `algorithm` of `None` means the origin's own choice.
    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum>;
}

/// A file open at its origin. It survives lost connections: reads open it again where that helps.
pub trait OriginFile: Send + Sync {
    /// Size, change time and server of the file, as of the last open.
    fn identity(&self) -> FileIdentity;

    /// Whether all bytes that reads of this file have given so far were compared with page checksums on their way. Once it
    /// is false it stays so.
    fn verifies_pages(&self) -> bool;

    /// Asks for several ranges at once, none empty, none beyond the end of the file.
    ///
    /// Returns one stream for each range, in the same order. The requests are under way when this returns. The caller has
    /// reserved memory for all the bytes: the streams never hold the connection back.
    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks>;

    /// Asks for one range; see [`OriginFile::read_many`].
    fn read(&self, range: ByteRange) -> Chunks {
        self.read_many(&[range]).pop().unwrap_or_else(Chunks::closed)
    }
}

/// Bytes of a file as they arrived.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Chunk {
    /// The bytes, not empty.
    pub bytes: Bytes,
    /// The CRC-32C of each page that has bytes here, as verified; pages end at multiples of 4096 of the file, the first and
    /// the last one may be here in part and their sums are of that part. None when the bytes came without page checksums.
    pub page_sums: Vec<u32>,
}

impl Chunk {
    /// The pages of this chunk, which lies at `offset` of its file, each with its checksum; none when it came without.
    pub fn pages(&self, offset: u64) -> impl Iterator<Item = (ByteRange, u32)> {
        let range = ByteRange::at(offset, u64::try_from(self.bytes.len()).unwrap_or(u64::MAX));
        range.cut_at_multiples(PAGE_LEN).zip(self.page_sums.iter().copied())
    }
}

impl From<Bytes> for Chunk {
    /// Bytes that came without page checksums.
    fn from(bytes: Bytes) -> Self {
        Self { bytes, page_sums: Vec::new() }
    }
}

/// The bytes of one range as they arrive: verified, in order of offset, none missing, or an error that ends the stream.
///
/// Dropping it gives the rest up.
pub struct Chunks {
    receiver: mpsc::UnboundedReceiver<Result<Chunk, OriginError>>,
    /// Feeds the stream while the caller asks for the next bytes.
    driver: Option<BoxFuture<'static, ()>>,
}

impl Chunks {
    /// A stream and the sender that feeds it.
    #[must_use]
    pub fn channel() -> (mpsc::UnboundedSender<Result<Chunk, OriginError>>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self { receiver, driver: None })
    }

    /// The `len` bytes of this stream, and then those of `next`, unless an error ends this one.
    #[must_use]
    pub fn followed_by(mut self, len: u64, mut next: Self) -> Self {
        let (sender, joined) = Self::channel();
        joined.driven_by(async move {
            let mut left = len;
            // Both were requested before: only the order is made here.
            for chunks in [&mut self, &mut next] {
                while let Some(chunk) = chunks.next().await {
                    left = left.saturating_sub(chunk.as_ref().map_or(0, |chunk| chunk.bytes.len() as u64));
                    let is_end = chunk.is_err();
                    if sender.send(chunk).is_err() || is_end {
                        return;
                    }
                }
                // The bytes behind would be taken for those that are missing.
                if left > 0 {
                    return;
                }
            }
        })
    }

    /// A stream without bytes.
    #[must_use]
    pub fn closed() -> Self {
        Self::channel().1
    }

    /// The stream, fed by `driver` whenever its next bytes are asked for: that saves a task, and a change of tasks for
    /// each piece. The driver is started at once and runs until it waits. It may then not be polled for long, so it must
    /// never wait while it holds anything that other callers need.
    #[must_use]
    pub fn driven_by(mut self, driver: impl Future<Output = ()> + Send + 'static) -> Self {
        // Without the budget of the calling task, which would stop it half-way: the requests are under way when this
        // returns. That budget still bounds how much the task takes at a time, see `poll_next`.
        let mut driver: BoxFuture<'static, ()> = Box::pin(unconstrained(driver));
        let is_pending = driver.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        // A driver that has ended already must not be polled again.
        self.driver = is_pending.then_some(driver);
        self
    }

    /// The next bytes, never empty; `None` after the last byte of the range or after an error.
    pub async fn next(&mut self) -> Option<Result<Chunk, OriginError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, OriginError>>> {
        // Bytes that have arrived are delivered before the driver continues.
        if let Poll::Ready(chunk) = self.receiver.poll_recv(context) {
            return Poll::Ready(chunk);
        }
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(context).is_ready()
        {
            // A future that has ended must not be polled again.
            self.driver = None;
        }
        // The driver may have delivered bytes just now: they need not wait for another poll.
        self.receiver.poll_recv(context)
    }
}

/// A file's path at its origin, and the parameters to send along.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginPath {
    pub lfn: Lfn,
    /// Opaque data (CGI) without a leading `?`; may hold secrets.
    pub cgi: String,
    /// Whose credentials are used where an origin wants those of clients.
    pub delegation: DelegatedCredentials,
}

/// Distinguishes one content of a file from another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileIdentity {
    pub size: u64,
    /// Servers of `root://` give a time of change only.
    pub validator: Validator,
    /// The server that holds the file, after all redirects.
    pub origin: OriginId,
}

/// How much a directory listing contains of each entry. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListDetail {
    Names,
    Stats,
    Checksums,
}
