//! Reads of files without a thread that waits for each, by `io_uring`.
//!
//! A read that the page cache cannot answer costs the submission, and a share of the wake-up for all reads that end at the same time.

use io_uring::{IoUring, opcode, types::Fd};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io, mem,
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::oneshot,
    task::AbortHandle,
};

/// Rings of one runtime: about one for each of its threads. Reads end when this is dropped. Each read holds a `P`, its place, until the
/// kernel is done with it.
#[derive(Debug)]
pub struct FileRings<P> {
    rings: Vec<Arc<Ring<P>>>,
    reapers: Vec<AbortHandle>,
    /// Bytes of all reads under way.
    bytes: Arc<AtomicUsize>,
}

struct Ring<P> {
    uring: AsyncFd<IoUring>,
    /// Held while a request is submitted.
    submission: Mutex<()>,
    reads: Mutex<Reads<P>>,
}

struct Reads<P> {
    under_way: HashMap<u64, Read<P>>,
    last: u64,
}

/// A read under way. Its buffer and its file stay until the kernel is done with them.
struct Read<P> {
    file: Arc<File>,
    offset: u64,
    /// Its capacity is the length of the read; its length is what has come.
    buffer: Vec<u8>,
    len: usize,
    _share: Share,
    place: P,
    ended: oneshot::Sender<io::Result<Vec<u8>>>,
}

/// The bytes of a read among those under way, until this is dropped.
struct Share {
    all: Arc<AtomicUsize>,
    len: usize,
}

/// Requests of one ring that wait for their submission.
const SUBMISSIONS: u32 = 64;

/// Reads of one ring that are under way at the same time.
const READS_MAX: u32 = 1024;

/// Bytes of the reads of all rings that are under way at the same time. Reads of a disk that hangs stay under way when their readers
/// have given up.
const BYTES_MAX: usize = 256 << 20;

/// Longest request; longer reads are several.
const REQUEST_LEN_MAX: usize = 1 << 30;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Threads use different rings.
    static THREAD: usize = THREADS.fetch_add(1, Relaxed);
}

impl<P: Send + 'static> FileRings<P> {
    /// Rings for the runtime of the caller.
    ///
    /// # Errors
    /// When the system has no `io_uring`, or does not permit it.
    pub fn start(count: usize) -> io::Result<Self> {
        let rings: Vec<Arc<Ring<P>>> =
            (0..count.max(1)).map(|_| Ring::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let reapers = rings.iter().map(|ring| tokio::spawn(reap(Arc::clone(ring))).abort_handle()).collect();
        Ok(Self { rings, reapers, bytes: Arc::default() })
    }

    /// Begins a read of `len` bytes at `offset`; its result comes over the channel. It holds `place` until the kernel is done with it,
    /// also when its reader has given up.
    ///
    /// # Errors
    /// `place`, when too many reads are under way.
    pub fn read(
        &self,
        file: &Arc<File>,
        (offset, len): (u64, usize),
        place: P,
    ) -> Result<oneshot::Receiver<io::Result<Vec<u8>>>, P> {
        let Some(ring) = self.rings.get(THREAD.with(|thread| *thread) % self.rings.len()) else { return Err(place) };
        let Some(share) = Share::of(&self.bytes, len) else { return Err(place) };
        let (ended, receiver) = oneshot::channel();
        let (file, buffer) = (Arc::clone(file), Vec::with_capacity(len));
        let read = Read { file, offset, buffer, len, _share: share, place, ended };
        match ring.begin(read) {
            Ok(()) => Ok(receiver),
            Err(read) => Err(read.place),
        }
    }
}

impl<P> Drop for FileRings<P> {
    fn drop(&mut self) {
        self.reapers.iter().for_each(AbortHandle::abort);
    }
}

impl Share {
    /// `None` when there would be too many bytes.
    fn of(all: &Arc<AtomicUsize>, len: usize) -> Option<Self> {
        let more = |bytes: usize| bytes.checked_add(len).filter(|bytes| *bytes <= BYTES_MAX);
        all.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self { all: Arc::clone(all), len })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.len, Relaxed);
    }
}

impl<P> Ring<P> {
    fn new() -> io::Result<Self> {
        let build = |cooperates: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(READS_MAX);
            if cooperates {
                // Threads are not interrupted for the end of a read: they see to it with their next system call.
                builder.setup_coop_taskrun();
            }
            builder.build(SUBMISSIONS)
        };
        let uring = build(true).or_else(|_| build(false))?;
        // SAFETY: the ring owns its descriptor and keeps it for as long as it lives.
        let uring = unsafe { AsyncFd::register_with_interest(uring, Interest::READABLE) }?;
        Ok(Self { uring, submission: Mutex::new(()), reads: Mutex::new(Reads { under_way: HashMap::new(), last: 0 }) })
    }

    /// Begins a read; returns it when the ring is full.
    fn begin(&self, read: Read<P>) -> Result<(), Read<P>> {
        let id = {
            let mut reads = self.reads.lock();
            if reads.under_way.len() >= READS_MAX as usize {
                return Err(read);
            }
            reads.last += 1;
            let id = reads.last;
            reads.under_way.insert(id, read);
            id
        };
        if self.submit(id) {
            return Ok(());
        }
        // Nothing was handed to the kernel.
        let refused = self.reads.lock().under_way.remove(&id);
        refused.map_or(Ok(()), Err)
    }

    /// Submits the rest of a read; `false` when the queue has no room for it.
    fn submit(&self, id: u64) -> bool {
        let _turn = self.submission.lock();
        let entry = {
            let mut reads = self.reads.lock();
            let Some(read) = reads.under_way.get_mut(&id) else { return false };
            let filled = read.buffer.len();
            let rest = u32::try_from((read.len - filled).min(REQUEST_LEN_MAX)).unwrap_or(u32::MAX);
            let target = read.buffer.spare_capacity_mut().as_mut_ptr().cast();
            let request = opcode::Read::new(Fd(read.file.as_raw_fd()), target, rest);
            request.offset(read.offset + filled as u64).build().user_data(id)
        };
        // SAFETY: the lock makes this the only user of the submission queue. The buffer and the file of the entry are in `reads`, where
        // they stay until its completion was taken.
        if unsafe { self.uring.get_ref().submission_shared().push(&entry) }.is_err() {
            return false;
        }
        self.enter();
        true
    }

    /// Submits what is in the queue. The lock of the queue is held.
    fn enter(&self) {
        // After another error the entries stay in the queue: the next submission, or the next completion, takes them along.
        while self.uring.get_ref().submit().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    }

    /// Takes the completions that have come.
    fn complete(&self) {
        // SAFETY: the task of this ring is the only user of the completion queue.
        let completed: Vec<(u64, i32)> = unsafe { self.uring.get_ref().completion_shared() }
            .map(|entry| (entry.user_data(), entry.result()))
            .collect();
        for (id, result) in completed {
            self.handle(id, result);
        }
        let _turn = self.submission.lock();
        // SAFETY: the lock makes this the only user of the submission queue.
        if !unsafe { self.uring.get_ref().submission_shared() }.is_empty() {
            self.enter();
        }
    }

    fn handle(&self, id: u64, result: i32) {
        let filled = match u32::try_from(result) {
            Ok(0) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                let mut reads = self.reads.lock();
                let Some(read) = reads.under_way.get_mut(&id) else { return };
                let filled = (read.buffer.len() + count as usize).min(read.buffer.capacity());
                // SAFETY: the kernel has written `count` bytes behind those that were there, within the capacity.
                unsafe { read.buffer.set_len(filled) };
                (filled >= read.len).then_some(Ok(()))
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(-result);
                let is_temporary = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
                (!is_temporary).then_some(Err(error))
            }
        };
        match filled {
            Some(result) => self.end(id, result),
            None if self.submit(id) => {}
            None => self.end(id, Err(io::ErrorKind::ResourceBusy.into())),
        }
    }

    fn end(&self, id: u64, result: io::Result<()>) {
        let read = self.reads.lock().under_way.remove(&id);
        if let Some(Read { buffer, ended, .. }) = read {
            // An error means that the reader has given up.
            let _ = ended.send(result.map(|()| buffer));
        }
    }
}

impl<P> Drop for Ring<P> {
    fn drop(&mut self) {
        for (_, Read { buffer, file, .. }) in self.reads.get_mut().under_way.drain() {
            // The kernel may still write to the buffer.
            mem::forget((buffer, file));
        }
    }
}

impl<P> std::fmt::Debug for Ring<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

/// Takes completions as they come.
async fn reap<P>(ring: Arc<Ring<P>>) {
    while let Ok(mut ready) = ring.uring.readable().await {
        // First: what comes after the look wakes this task again.
        ready.clear_ready();
        ring.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Rings, if this system permits them.
    fn rings() -> Option<FileRings<()>> {
        FileRings::start(2)
            .inspect_err(|error| {
                let refusals = [io::ErrorKind::Unsupported, io::ErrorKind::PermissionDenied];
                assert!(refusals.contains(&error.kind()), "{error}");
            })
            .ok()
    }

    fn file_of(len: u32) -> Arc<File> {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let options = File::options().read(true).write(true).create_new(true).clone();
        let mut file = options.open(directory.path().join("f")).unwrap();
        file.write_all(&(0..len).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        Arc::new(file)
    }

    #[tokio::test]
    async fn many_reads_at_once_give_each_its_bytes() {
        let Some(rings) = rings() else { return };
        let file = file_of(1 << 18);
        let places: Vec<u32> = (0..500).map(|number| number * 7919 % (1 << 17)).collect();
        let reads: Vec<_> = places.iter().map(|place| rings.read(&file, (u64::from(*place) * 4, 40_000), ())).collect();
        for (place, read) in places.into_iter().zip(reads) {
            let bytes = read.expect("there is room").await.unwrap().unwrap();
            assert!(bytes == (place..place + 10_000).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        }
    }

    #[tokio::test]
    async fn failures_are_reported_and_a_full_ring_is_refused() {
        let Some(rings) = rings() else { return };
        let file = file_of(1000);
        let end = rings.read(&file, (3000, 1001), ()).unwrap().await.unwrap().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let folder = Arc::new(File::open(env!("CARGO_MANIFEST_DIR")).unwrap());
        assert_eq!(
            rings.read(&folder, (0, 1), ()).unwrap().await.unwrap().unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        // Without a wait no completion is taken.
        let many: Vec<_> = (0..=READS_MAX).map(|_| rings.read(&file, (0, 4), ())).collect();
        assert!(many.last().is_some_and(Result::is_err) && many[0].is_ok());
        assert!(rings.read(&file, (0, BYTES_MAX), ()).is_err(), "others are under way");
        drop(rings);
        for read in many.into_iter().flatten() {
            assert!(read.await.is_err(), "it ends with the rings");
        }
    }
}
