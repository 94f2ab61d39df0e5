//! How many reads each disk has at a time.

use crate::base::disk_depth::{DiskDepth, Sample};
use forebay_net::{NowaitReads, clock};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The reads of each disk, by the number of its device.
#[derive(Debug)]
pub(crate) struct DiskQueues {
    of_devices: Mutex<HashMap<u64, DiskQueue>>,
    depth_max: usize,
}

/// The reads of one disk: as many as its device works on at a time. The others wait here, where a disk that hangs delays its own readers
/// only: threads that submit to a device whose queue is full are blocked.
#[derive(Clone, Debug)]
pub(crate) struct DiskQueue {
    shared: Arc<Shared>,
    /// Whether reads of its files can be limited to the page cache.
    pub(crate) nowait_reads: NowaitReads,
}

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    under_way: AtomicUsize,
    /// Places to take away when they become free, because the disk gets fewer reads at a time.
    excess: AtomicUsize,
    /// Since the last sample: reads that have ended, their work, and reads that had to wait for a place.
    ended: AtomicU64,
    work: AtomicU64,
    waited: AtomicU64,
    learning: Mutex<Learning>,
}

#[derive(Debug)]
struct Learning {
    depth: DiskDepth,
    since: Instant,
}

/// One read of a disk, until it has ended.
#[derive(Debug)]
pub(crate) struct DiskPlace {
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
    work: u64,
}

/// Reads at a time, to begin with, of a file system that is not on one block device: of the network, or of several disks.
const DEPTH_DEFAULT: usize = 128;

/// Bounds of the reads at a time.
const DEPTH_MIN: usize = 4;
const DEPTH_MAX: usize = 512;

/// Least of the reads at a time that a device begins with, and may have.
const DEVICE_DEPTH_MIN: usize = 16;

/// How often background work looks whether a disk is quiet.
const QUIET_POLL: Duration = Duration::from_millis(5);

/// Longest wait of background work for a quiet disk: one that never is must be read through too.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(500);

/// The part of a device's requests that reads may be. Writes, and requests that are cut in two, need the rest.
const REQUESTS_PART: usize = 2;

/// Shortest sample of a disk's rate, in time and in rounds of all reads that it has at a time.
const SAMPLE_TIME_MIN: Duration = Duration::from_millis(50);
const SAMPLE_ROUNDS_MIN: u64 = 4;

/// Reads after which it is looked at whether a sample is long enough.
const SAMPLE_STEP: u64 = 16;

/// The work of a read besides its bytes, in bytes that take a disk as long.
const READ_WORK: u64 = 64 << 10;

impl DiskQueues {
    pub(crate) fn new(depth_max: usize) -> Self {
        Self { of_devices: Mutex::default(), depth_max }
    }

    /// The reads of the disk that `file` is on. Asks the system: to be remembered with the file.
    pub(crate) fn of(&self, file: &File) -> DiskQueue {
        // A file that has no attributes cannot be read either.
        let device = file.metadata().map_or(0, |metadata| metadata.dev());
        let known = self.of_devices.lock().get(&device).cloned();
        known.unwrap_or_else(|| {
            // Without the lock: a disk that hangs must not stop the readers of others.
            let nowait_reads = NowaitReads::of(file);
            let of_device = depth_of(device);
            let most = of_device.unwrap_or(DEPTH_MAX).min(self.depth_max);
            let depth = of_device.unwrap_or(DEPTH_DEFAULT).min(most);
            tracing::debug!(device, depth, most, ?nowait_reads, "reads at a time of a disk");
            let depth = DiskDepth::new(depth, DEPTH_MIN.min(most), most);
            let new = || DiskQueue { shared: Arc::new(Shared::new(depth)), nowait_reads };
            self.of_devices.lock().entry(device).or_insert_with(new).clone()
        })
    }
}

impl DiskQueue {
    /// Waits for the place of a read of `len` bytes, in turn.
    ///
    /// # Errors
    /// Never: places are not closed.
    pub(crate) async fn place(&self, len: u64) -> io::Result<DiskPlace> {
        let places = || Arc::clone(&self.shared.places);
        let permit = match places().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.shared.waited.fetch_add(1, Relaxed);
                places().acquire_owned().await.map_err(io::Error::other)?
            }
        };
        self.shared.under_way.fetch_add(1, Relaxed);
        Ok(DiskPlace { permit: Some(permit), shared: Arc::clone(&self.shared), work: READ_WORK + len })
    }

    /// Waits until no client's read of the disk is under way, but not longer than [`QUIET_WAIT_MAX`]: for background work, before each
    /// piece of it.
    pub(crate) async fn quiet(&self) {
        let mut waited = Duration::ZERO;
        while self.under_way() > 0 && waited < QUIET_WAIT_MAX {
            tokio::time::sleep(QUIET_POLL).await;
            waited += QUIET_POLL;
        }
    }

    fn under_way(&self) -> usize {
        self.shared.under_way.load(Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.shared.learning.lock().depth.depth()
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.shared.places.available_permits()
    }
}

impl Shared {
    fn new(depth: DiskDepth) -> Self {
        Self {
            places: Arc::new(Semaphore::new(depth.depth())),
            under_way: AtomicUsize::new(0),
            excess: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            work: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            learning: Mutex::new(Learning { depth, since: clock::monotonic() }),
        }
    }

    fn note_ended(&self, work: u64) {
        self.work.fetch_add(work, Relaxed);
        let ended = self.ended.fetch_add(1, Relaxed) + 1;
        if !ended.is_multiple_of(SAMPLE_STEP) {
            return;
        }
        // Another thread that is there already does it.
        let Some(mut learning) = self.learning.try_lock() else { return };
        let time = clock::monotonic().saturating_duration_since(learning.since);
        let before = learning.depth.depth();
        if time < SAMPLE_TIME_MIN || ended < before as u64 * SAMPLE_ROUNDS_MIN {
            return;
        }
        let [ended, work, waited] = [&self.ended, &self.work, &self.waited].map(|count| count.swap(0, Relaxed));
        learning.since += time;
        learning.depth.handle_sample(Sample { work, time, is_crowded: waited * 2 >= ended });
        self.resize(before, learning.depth.depth());
    }

    /// Changes the number of places. The lock of what is learned is held.
    fn resize(&self, before: usize, depth: usize) {
        if depth > before {
            let more = depth - before;
            let fewer = |excess: usize| Some(excess.saturating_sub(more));
            let kept = self.excess.fetch_update(Relaxed, Relaxed, fewer).unwrap_or(0).min(more);
            self.places.add_permits(more - kept);
        } else if depth < before {
            let fewer = before - depth;
            let gone = self.places.forget_permits(fewer);
            self.excess.fetch_add(fewer - gone, Relaxed);
        }
    }
}

impl Drop for DiskPlace {
    fn drop(&mut self) {
        let Shared { excess, under_way, .. } = &*self.shared;
        under_way.fetch_sub(1, Relaxed);
        let one_less = |excess: usize| excess.checked_sub(1);
        if let Some(permit) = self.permit.take()
            && excess.fetch_update(Relaxed, Relaxed, one_less).is_ok()
        {
            permit.forget();
        }
        self.shared.note_ended(self.work);
    }
}

/// Reads at a time by the requests that the kernel queues for a block device: 64 for one disk behind a controller, about 1000 for NVMe.
fn depth_of(device: u64) -> Option<usize> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = format!("/sys/dev/block/{major}:{minor}");
    // A partition has the queue of its disk.
    let read = |queue: &str| std::fs::read_to_string(Path::new(&device).join(queue)).ok();
    let text = read("queue/nr_requests").or_else(|| read("../queue/nr_requests"))?;
    depth_by(&text)
}

fn depth_by(requests: &str) -> Option<usize> {
    let requests: usize = requests.trim().parse().ok()?;
    Some((requests / REQUESTS_PART).clamp(DEVICE_DEPTH_MIN, DEPTH_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_follows_the_queue_of_the_device() {
        for (text, depth) in
            [("64\n", 32), ("256", 128), ("2", DEVICE_DEPTH_MIN), ("1023\n", 511), ("100000", DEPTH_MAX)]
        {
            assert_eq!(depth_by(text), Some(depth));
        }
        assert_eq!(depth_by("none"), None);
        assert_eq!(depth_of(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn background_work_waits_for_readers_but_not_forever() {
        let queue = DiskQueues::new(3).of(&tempfile::tempfile().unwrap());
        let start = tokio::time::Instant::now();
        queue.quiet().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        let place = queue.place(1).await.unwrap();
        queue.quiet().await;
        assert_eq!(start.elapsed(), QUIET_WAIT_MAX);
        let read = async {
            tokio::time::sleep(QUIET_POLL).await;
            drop(place);
        };
        tokio::join!(queue.quiet(), read);
        assert!(start.elapsed() <= QUIET_WAIT_MAX + 2 * QUIET_POLL, "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn files_of_one_device_share_their_places() {
        let queues = DiskQueues::new(3);
        let file = || tempfile::tempfile().unwrap();
        let one = queues.of(&file());
        let place = one.place(1).await.unwrap();
        assert_eq!(queues.of(&file()).free(), 2);
        drop(place);
        assert_eq!(queues.of(&file()).free(), 3);
    }

    #[tokio::test]
    async fn places_follow_the_depth_whether_they_are_free_or_not() {
        let queue = DiskQueues::new(8).of(&tempfile::tempfile().unwrap());
        let mut places = Vec::new();
        for _ in 0..8 {
            places.push(queue.place(1).await.unwrap());
        }
        queue.shared.resize(8, 4);
        drop(places.split_off(5));
        assert_eq!((queue.free(), queue.under_way()), (0, 5), "one read too many is still under way");
        queue.shared.resize(4, 6);
        assert_eq!(queue.free(), 1);
        places.clear();
        assert_eq!((queue.free(), queue.under_way()), (6, 0));
        queue.shared.resize(6, 2);
        assert_eq!(queue.free(), 2);
    }
}
