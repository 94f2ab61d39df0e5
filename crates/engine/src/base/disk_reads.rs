//! Reads of files whose bytes the page cache does not hold.

use crate::base::disk_queues::{DiskPlace, DiskQueue, DiskQueues};
use forebay_net::{FileRings, NowaitReads, is_loaded, start_loading};
use forebay_types::ByteRange;
use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Reads from disks: by `io_uring` where the system has it, else each by a thread that may block.
#[derive(Debug)]
pub(crate) struct DiskReads {
    rings: Option<FileRings<DiskPlace>>,
    /// A read that a thread does holds one.
    threads: Arc<Semaphore>,
    queues: DiskQueues,
}

/// Reads that threads do at the same time: the process must have threads for other work.
const THREADS_MAX: usize = 256;

/// Reads of one disk that threads do at the same time: a disk that hangs must leave threads to others.
const THREADS_PER_DISK_MAX: usize = 64;

/// Time limit of one read. A disk that takes longer counts as failed.
const READ_TIME_MAX: Duration = Duration::from_secs(20);

/// Aligned pieces of a file that are loaded in one request, because they were written by one or more blocks of this length. A longer
/// range may be loaded by several requests, which end in any order, and may fail one by one.
const LOADED_PIECE_LEN: u64 = 64 << 10;

impl DiskReads {
    /// With rings for the runtime of the caller, if they are wanted.
    pub(crate) fn new(by_ring: bool) -> Self {
        let rings = if by_ring { start_rings() } else { None };
        let depth_max = if rings.is_some() { usize::MAX } else { THREADS_PER_DISK_MAX };
        Self { rings, threads: Arc::new(Semaphore::new(THREADS_MAX)), queues: DiskQueues::new(depth_max) }
    }

    /// The reads of the disk that `file` is on.
    pub(crate) fn queue_of(&self, file: &File) -> DiskQueue {
        self.queues.of(file)
    }

    /// Reads a range of a file, within [`READ_TIME_MAX`].
    ///
    /// # Errors
    /// When the disk fails, or takes too long.
    pub(crate) async fn read(&self, queue: &DiskQueue, file: &Arc<File>, range: ByteRange) -> io::Result<Vec<u8>> {
        let len = usize::try_from(range.len()).map_err(io::Error::other)?;
        in_time(async {
            let place = queue.place(range.len()).await?;
            let Some(rings) = &self.rings else { return self.read_by_thread(file, range.start(), len, place).await };
            match rings.read(file, (range.start(), len), place) {
                Ok(read) => read.await.map_err(io::Error::other).flatten(),
                Err(place) => self.read_by_thread(file, range.start(), len, place).await,
            }
        })
        .await
    }

    /// Loads a range of a file into the page cache, within [`READ_TIME_MAX`]; `false` when that would occupy a thread, or could not be
    /// verified.
    ///
    /// # Errors
    /// When the disk fails, or takes too long.
    pub(crate) async fn load(&self, queue: &DiskQueue, file: &Arc<File>, range: ByteRange) -> io::Result<bool> {
        let (Some(rings), Some(last)) = (&self.rings, range.end().checked_sub(1)) else { return Ok(false) };
        if queue.nowait_reads != NowaitReads::Supported {
            return Ok(false);
        }
        in_time(async {
            let mut place = queue.place(range.len()).await?;
            start_loading(file, range.start(), range.len())?;
            // A read of one byte waits for the kernel's read of its page. The last page is mostly the last to come.
            let mut offset = last;
            loop {
                let Ok(read) = rings.read(file, (offset, 1), place) else { return Ok(false) };
                read.await.map_err(io::Error::other).flatten()?;
                match unsure(range).find(|offset| !is_loaded(file, *offset)) {
                    // Each turn loads a page, and pages are rarely dropped at once. If they are, the time limit ends this.
                    Some(missing) => offset = missing,
                    None => return Ok(true),
                }
                place = queue.place(0).await?;
            }
        })
        .await
    }

    async fn read_by_thread(&self, file: &Arc<File>, offset: u64, len: usize, place: DiskPlace) -> io::Result<Vec<u8>> {
        let thread = Arc::clone(&self.threads).acquire_owned().await.map_err(io::Error::other)?;
        let file = Arc::clone(file);
        let read = tokio::task::spawn_blocking(move || {
            // Held by the thread: it is occupied while the disk works, also when the request has ended.
            let _held = (thread, place);
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        });
        read.await.map_err(io::Error::other).flatten()
    }
}

/// The first byte of each piece of `range` but the last, which the read of its last byte has waited for.
fn unsure(range: ByteRange) -> impl Iterator<Item = u64> {
    let last_piece = range.end().saturating_sub(1) / LOADED_PIECE_LEN;
    (range.start() / LOADED_PIECE_LEN..last_piece).map(move |piece| range.start().max(piece * LOADED_PIECE_LEN))
}

async fn in_time<T>(read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let too_late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the disk takes too long to read"));
    tokio::time::timeout(READ_TIME_MAX, read).await.unwrap_or_else(too_late)
}

fn start_rings() -> Option<FileRings<DiskPlace>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let started = FileRings::start(threads);
    started.inspect_err(|error| tracing::info!(%error, "io_uring is not available: threads read from the disks")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::probe_cached;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
        Arc::new(file)
    }

    #[tokio::test]
    async fn threads_read_what_rings_read() {
        let file = file_of(&[7; 10_000]);
        for reads in [true, false].map(DiskReads::new) {
            let queue = reads.queue_of(&file);
            assert_eq!(reads.read(&queue, &file, ByteRange::at(5000, 5000)).await.unwrap(), [7; 5000]);
            let error = reads.read(&queue, &file, ByteRange::at(5000, 5001)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn each_piece_but_the_last_is_asked_about_once() {
        const KIB: u64 = 1 << 10;
        for (start, len, expected) in [
            (0, KIB, &[][..]),
            (32 * KIB, 32 * KIB, &[]),
            (60 * KIB, 8 * KIB, &[60 * KIB]),
            (0, 192 * KIB, &[0, 64 * KIB]),
            (100 * KIB, 128 * KIB, &[100 * KIB, 128 * KIB]),
        ] {
            assert!(unsure(ByteRange::at(start, len)).eq(expected.iter().copied()), "{start} {len}");
        }
    }

    #[tokio::test]
    async fn a_range_is_loaded_whole() {
        let reads = DiskReads::new(true);
        let file = file_of(&[7; 4 << 20]);
        let is_cached = |offset| probe_cached(&file, NowaitReads::Supported, offset, 1);
        rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if reads.rings.is_none() || is_cached(0) {
            return; // a system without io_uring, or a file system in memory
        }
        let queue = reads.queue_of(&file);
        let range = ByteRange::at(1 << 20, 1 << 20);
        // Repeated, because the system may drop pages at any time.
        let whole = async {
            loop {
                rustix::fs::fadvise(&*file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                assert!(reads.load(&queue, &file, range).await.unwrap());
                if (range.start()..range.end()).step_by(4096).all(is_cached) {
                    return;
                }
            }
        };
        tokio::time::timeout(READ_TIME_MAX, whole).await.expect("the range is loaded whole");
        // The end of the file is an error as for a read.
        let error = reads.load(&queue, &file, ByteRange::at(4 << 20, 1)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn an_error_of_the_disk_is_that_of_the_read() {
        // Nothing is at the first address of this process, which is reported as a disk reports a bad sector.
        let bad = Arc::new(File::open("/proc/self/mem").unwrap());
        for reads in [true, false].map(DiskReads::new) {
            let queue = reads.queue_of(&bad);
            let error = reads.read(&queue, &bad, ByteRange::at(0, 5000)).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
            // It cannot be loaded either. Whatever the reason, the bytes are not there.
            assert!(!matches!(reads.load(&queue, &bad, ByteRange::at(0, 50_000)).await, Ok(true)));
        }
    }

    #[tokio::test]
    async fn reads_that_the_rings_refuse_are_done_by_threads() {
        let reads = Arc::new(DiskReads::new(true));
        if reads.rings.is_none() {
            return; // threads do all of them
        }
        // Nothing comes from the pipe, whose read takes all bytes that the rings may have under way.
        let (reader, _writer) = std::io::pipe().unwrap();
        let hanging = Arc::new(File::from(std::os::fd::OwnedFd::from(reader)));
        let queue = reads.queue_of(&hanging);
        let started = tokio::spawn({
            let (reads, queue, hanging) = (Arc::clone(&reads), queue.clone(), Arc::clone(&hanging));
            async move { reads.read(&queue, &hanging, ByteRange::at(0, 256 << 20)).await }
        });
        while queue.free() == queue.depth() {
            tokio::task::yield_now().await;
        }
        let file = file_of(&[7; 100_000]);
        let other = reads.queue_of(&file);
        assert_eq!(reads.read(&other, &file, ByteRange::at(1, 50_000)).await.unwrap(), [7; 50_000]);
        assert!(!reads.load(&other, &file, ByteRange::at(1, 50_000)).await.unwrap(), "no ring reports its end");
        started.abort();
    }

    #[tokio::test]
    async fn a_disk_that_hangs_does_not_delay_another() {
        let reads = Arc::new(DiskReads::new(true));
        if reads.rings.is_none() {
            return; // a thread cannot be made to hang in a read without a disk that does
        }
        // Nothing comes from a pipe whose writer is silent. It counts as a disk of its own.
        let (reader, writer) = std::io::pipe().unwrap();
        let hanging = Arc::new(File::from(std::os::fd::OwnedFd::from(reader)));
        let queue = reads.queue_of(&hanging);
        let depth = queue.free();
        let started: Vec<_> = (0..depth * 4)
            .map(|_| {
                let (reads, queue, hanging) = (Arc::clone(&reads), queue.clone(), Arc::clone(&hanging));
                tokio::spawn(async move { reads.read(&queue, &hanging, ByteRange::at(0, 1)).await })
            })
            .collect();
        let file = file_of(&[7; 10_000]);
        let other = reads.queue_of(&file);
        assert_eq!(reads.read(&other, &file, ByteRange::at(1, 9)).await.unwrap(), [7; 9]);
        assert_eq!(queue.free(), 0, "the reads of the pipe still wait");
        // Their readers give up. The places are free when the kernel is done, and not before.
        started.iter().for_each(tokio::task::JoinHandle::abort);
        for read in started {
            assert!(read.await.unwrap_err().is_cancelled());
        }
        assert_eq!(queue.free(), 0);
        drop(writer);
        let _places = [queue.place(1).await, queue.place(1).await];
    }
}
