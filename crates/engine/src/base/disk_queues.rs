//! How many reads each disk has at a time.

use forebay_net::NowaitReads;
use parking_lot::Mutex;
use std::{collections::HashMap, fs::File, io, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Duration};
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
    places: Arc<Semaphore>,
    depth: usize,
    /// Whether reads of its files can be limited to the page cache.
    pub(crate) nowait_reads: NowaitReads,
}

/// Reads at a time of a file system that is not on one block device: of the network, or of several disks.
const DEPTH_DEFAULT: usize = 128;

/// Bounds of the reads at a time that a device permits.
const DEPTH_MIN: usize = 16;
const DEPTH_MAX: usize = 512;

/// How often background work looks whether a disk is quiet.
const QUIET_POLL: Duration = Duration::from_millis(5);

/// Longest wait of background work for a quiet disk: one that never is must be read through too.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(500);

/// The part of a device's requests that reads may be. Writes, and requests that are cut in two, need the rest.
const REQUESTS_PART: usize = 2;

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
            let depth = depth_of(device).unwrap_or(DEPTH_DEFAULT).min(self.depth_max);
            tracing::debug!(device, depth, ?nowait_reads, "reads at a time of a disk");
            let new = || DiskQueue { places: Arc::new(Semaphore::new(depth)), depth, nowait_reads };
            self.of_devices.lock().entry(device).or_insert_with(new).clone()
        })
    }
}

impl DiskQueue {
    /// Waits for a place, in turn.
    ///
    /// # Errors
    /// Never: places are not closed.
    pub(crate) async fn place(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)
    }

    /// Waits until no client's read of the disk is under way, but not longer than [`QUIET_WAIT_MAX`]: for background work, before each
    /// piece of it.
    pub(crate) async fn quiet(&self) {
        let mut waited = Duration::ZERO;
        while self.places.available_permits() < self.depth && waited < QUIET_WAIT_MAX {
            tokio::time::sleep(QUIET_POLL).await;
            waited += QUIET_POLL;
        }
    }

    #[cfg(test)]
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.places.available_permits()
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
    Some((requests / REQUESTS_PART).clamp(DEPTH_MIN, DEPTH_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_follows_the_queue_of_the_device() {
        for (text, depth) in [("64\n", 32), ("256", 128), ("2", DEPTH_MIN), ("1023\n", 511), ("100000", DEPTH_MAX)] {
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
        let place = queue.place().await.unwrap();
        queue.quiet().await;
        assert_eq!(start.elapsed(), QUIET_WAIT_MAX);
        let read = async {
            tokio::time::sleep(QUIET_POLL).await;
            drop(place);
        };
        tokio::join!(queue.quiet(), read);
        assert!(start.elapsed() <= QUIET_WAIT_MAX + 2 * QUIET_POLL, "{:?}", start.elapsed());
    }

    #[test]
    fn files_of_one_device_share_their_places() {
        let queues = DiskQueues::new(3);
        let file = || tempfile::tempfile().unwrap();
        let one = queues.of(&file());
        let place = Arc::clone(&one.places).try_acquire_owned().unwrap();
        assert_eq!(queues.of(&file()).free(), 2);
        drop(place);
        assert_eq!(queues.of(&file()).free(), 3);
    }
}
