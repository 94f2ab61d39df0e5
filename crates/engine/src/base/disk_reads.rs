//! Reads of files whose bytes the page cache does not hold.

use forebay_net::FileRings;
use forebay_types::ByteRange;
use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Reads from disks: by `io_uring` where the system has it, else each by a thread that may block.
#[derive(Debug)]
pub(crate) struct DiskReads {
    rings: Option<FileRings>,
    /// A read that a thread does holds one.
    threads: Arc<Semaphore>,
}

/// Reads that threads do at the same time: more would only queue in the disks, and those of a disk that hangs must leave threads to
/// other work.
const THREADS_MAX: usize = 256;

/// Time limit of one read. A disk that takes longer counts as failed.
const READ_TIME_MAX: Duration = Duration::from_secs(20);

impl DiskReads {
    /// With rings for the runtime of the caller, if they are wanted.
    pub(crate) fn new(by_ring: bool) -> Self {
        let rings = if by_ring { start_rings() } else { None };
        Self { rings, threads: Arc::new(Semaphore::new(THREADS_MAX)) }
    }

    /// Reads a range of a file, within [`READ_TIME_MAX`].
    ///
    /// # Errors
    /// When the disk fails, or takes too long.
    pub(crate) async fn read(&self, file: &Arc<File>, range: ByteRange) -> io::Result<Vec<u8>> {
        let len = usize::try_from(range.len()).map_err(io::Error::other)?;
        let by_ring = self.rings.as_ref().and_then(|rings| rings.read(file, range.start(), len));
        let read = async {
            match by_ring {
                Some(read) => read.await.map_err(io::Error::other).flatten(),
                None => self.read_by_thread(Arc::clone(file), range.start(), len).await,
            }
        };
        let too_late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the disk takes too long to read"));
        tokio::time::timeout(READ_TIME_MAX, read).await.unwrap_or_else(too_late)
    }

    async fn read_by_thread(&self, file: Arc<File>, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let place = Arc::clone(&self.threads).acquire_owned().await.map_err(io::Error::other)?;
        let read = tokio::task::spawn_blocking(move || {
            // Held by the thread: it is occupied while the disk works, also when the request has ended.
            let _place = place;
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        });
        read.await.map_err(io::Error::other).flatten()
    }
}

fn start_rings() -> Option<FileRings> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let started = FileRings::start(threads);
    started.inspect_err(|error| tracing::info!(%error, "io_uring is not available: threads read from the disks")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn threads_read_what_rings_read() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let file = Arc::new(file);
        for reads in [true, false].map(DiskReads::new) {
            assert_eq!(reads.read(&file, ByteRange::at(5000, 5000)).await.unwrap(), [7; 5000]);
            let error = reads.read(&file, ByteRange::at(5000, 5001)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
