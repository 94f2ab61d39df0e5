//! Times in which a disk is not written, after it failed.

use forebay_store::VolumeId;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// One pause for each disk.
pub(crate) struct Pauses(BTreeMap<VolumeId, Pause>);

impl Pauses {
    pub(crate) fn new(length: Duration, volumes: impl Iterator<Item = VolumeId>) -> Self {
        Self(volumes.map(|volume| (volume, Pause::new(length))).collect())
    }

    /// Begins or prolongs the pause of `volume`, of all disks when it is not known which one failed; `true` when a new one
    /// begins.
    pub(crate) fn start(&self, volume: Option<VolumeId>) -> bool {
        let of_it = self.0.iter().filter(|(id, _)| volume.is_none_or(|volume| **id == volume));
        of_it.fold(false, |is_new, (_, pause)| pause.start() || is_new)
    }

    pub(crate) fn is_on(&self, volume: VolumeId) -> bool {
        self.0.get(&volume).is_some_and(Pause::is_on)
    }

    /// Whether no disk is to be written.
    pub(crate) fn are_all_on(&self) -> bool {
        self.0.values().all(Pause::is_on)
    }
}

/// A time in which nothing is written to the disk, after it failed: reads go on without keeping, and nothing is fetched
/// again and again because it could not be written.
struct Pause {
    origin: Instant,
    length: Duration,
    /// End of the pause in milliseconds after `origin`.
    until_ms: AtomicU64,
}

impl Pause {
    fn new(length: Duration) -> Self {
        Self { origin: forebay_net::clock::monotonic(), length, until_ms: AtomicU64::new(0) }
    }

    /// Begins a pause, or prolongs the one that lasts; `true` when it is a new one.
    fn start(&self) -> bool {
        let now_ms = self.now_ms();
        let length_ms = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.swap(now_ms.saturating_add(length_ms), Relaxed) <= now_ms
    }

    fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Relaxed);
        until_ms != 0 && self.now_ms() < until_ms
    }

    fn now_ms(&self) -> u64 {
        let elapsed = forebay_net::clock::monotonic().saturating_duration_since(self.origin);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_once_and_ends_by_itself() {
        let pause = Pause::new(Duration::from_secs(3600));
        assert!(!pause.is_on());
        assert!(pause.start());
        assert!(pause.is_on());
        assert!(!pause.start());
        let over = Pause::new(Duration::ZERO);
        over.start();
        assert!(!over.is_on());
    }

    #[test]
    fn each_disk_pauses_for_itself() {
        let [first, second] = [VolumeId(0), VolumeId(1)];
        let pauses = Pauses::new(Duration::from_secs(3600), [first, second].into_iter());
        assert!(pauses.start(Some(first)));
        assert!(pauses.is_on(first) && !pauses.is_on(second) && !pauses.are_all_on());
        assert!(pauses.start(None), "the second disk's begins");
        assert!(!pauses.start(None) && pauses.are_all_on());
    }
}
