//! Times in which a disk is not written, after it failed.

use forebay_store::VolumeId;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// How often it is reported that a disk is full, at most, in milliseconds.
const REPORT_PAUSE_MS: u64 = 60_000;

/// One pause for each disk.
pub(crate) struct Pauses(BTreeMap<VolumeId, Pause>);

impl Pauses {
    pub(crate) fn new(length: Duration, volumes: impl Iterator<Item = VolumeId>) -> Self {
        Self(volumes.map(|volume| (volume, Pause::new(length))).collect())
    }

    /// Begins or prolongs the pause of `volume`, of all disks when it is not known which one failed; `true` when a new one
    /// begins.
    pub(crate) fn start(&self, volume: Option<VolumeId>) -> bool {
        // Not `any`: every pause has to begin, also after the first new one.
        self.of(volume).map(|pause| pause.start(false)).filter(|is_new| *is_new).count() > 0
    }

    /// As [`Self::start`], because the disk is full; `true` when that is to be reported: purges make room for a moment at a time.
    pub(crate) fn start_for_room(&self, volume: Option<VolumeId>) -> bool {
        let report = |pause: &Pause| {
            pause.start(true);
            pause.is_due(&pause.reported_ms)
        };
        self.of(volume).map(report).filter(|is_due| *is_due).count() > 0
    }

    /// Whether a failure of an entry is to be reported.
    pub(crate) fn is_entry_failure_due(&self, volume: Option<VolumeId>) -> bool {
        self.of(volume).filter(|pause| pause.is_due(&pause.entry_failure_ms)).count() > 0
    }

    fn of(&self, volume: Option<VolumeId>) -> impl Iterator<Item = &Pause> {
        self.0.iter().filter(move |(id, _)| volume.is_none_or(|volume| **id == volume)).map(|(_, pause)| pause)
    }

    /// Whether `volume` waits for room and nothing else, or did until a purge made some.
    pub(crate) fn is_for_room(&self, volume: VolumeId) -> bool {
        self.of(Some(volume)).all(|pause| pause.is_for_room.load(Relaxed) || pause.until_ms.load(Relaxed) == 0)
    }

    /// Ends the pauses that only wait for room, because there is some now.
    pub(crate) fn end_of_full(&self) {
        self.0.values().for_each(Pause::end_of_full);
    }

    pub(crate) fn is_on(&self, volume: VolumeId) -> bool {
        self.0.get(&volume).is_some_and(Pause::is_on)
    }

    /// Whether no disk is to be written.
    pub(crate) fn are_all_on(&self) -> bool {
        self.0.values().all(Pause::is_on)
    }
}

/// A time in which nothing is written to the disk, after it failed: reads continue without keeping, and nothing is fetched
/// again and again because it could not be written.
struct Pause {
    origin: Instant,
    length: Duration,
    /// End of the pause in milliseconds after `origin`.
    until_ms: AtomicU64,
    /// When it was last reported that the disk is full, in milliseconds after `origin`, and one; 0 for never.
    reported_ms: AtomicU64,
    /// The same for failures of entries.
    entry_failure_ms: AtomicU64,
    /// It waits for nothing but room.
    is_for_room: AtomicBool,
}

impl Pause {
    fn new(length: Duration) -> Self {
        Self {
            origin: forebay_net::clock::monotonic(),
            length,
            until_ms: AtomicU64::new(0),
            reported_ms: AtomicU64::new(0),
            entry_failure_ms: AtomicU64::new(0),
            is_for_room: AtomicBool::new(false),
        }
    }

    /// Begins a pause, or prolongs the one that lasts; `true` when it is a new one.
    fn start(&self, is_for_room: bool) -> bool {
        let now_ms = self.now_ms();
        let length_ms = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        // A pause that had ended counts as new: the failure is logged once per pause.
        let is_new = self.until_ms.swap(now_ms.saturating_add(length_ms), Relaxed) <= now_ms;
        if is_new || !is_for_room {
            // A disk that also fails for another reason must not be written when there is space again.
            self.is_for_room.store(is_for_room, Relaxed);
        }
        is_new
    }

    /// Whether a report is due of which the last one was at `reported_ms`.
    fn is_due(&self, reported_ms: &AtomicU64) -> bool {
        let now_ms = self.now_ms().saturating_add(1);
        let last_ms = reported_ms.load(Relaxed);
        let is_due = last_ms == 0 || now_ms.saturating_sub(last_ms) >= REPORT_PAUSE_MS;
        if is_due {
            reported_ms.store(now_ms, Relaxed);
        }
        is_due
    }

    fn end_of_full(&self) {
        // Swapped: the flag is used up, so a later pause for another reason is not ended by it.
        if self.is_for_room.swap(false, Relaxed) {
            self.until_ms.store(0, Relaxed);
        }
    }

    fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Relaxed);
        // Zero means that there never was a pause: it must not depend on the clock.
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
        assert!(pause.start(false));
        assert!(pause.is_on());
        assert!(!pause.start(false));
        let over = Pause::new(Duration::ZERO);
        over.start(false);
        assert!(!over.is_on());
    }

    #[test]
    fn a_pause_for_want_of_room_ends_with_room_and_no_other_does() {
        let [full, failed] = [VolumeId(0), VolumeId(1)];
        let pauses = Pauses::new(Duration::from_secs(3600), [full, failed].into_iter());
        pauses.start(Some(failed));
        assert!(pauses.start_for_room(Some(full)) && !pauses.start_for_room(Some(full)), "reported once");
        pauses.start_for_room(Some(failed));
        assert!(pauses.is_for_room(full) && !pauses.is_for_room(failed));
        pauses.end_of_full();
        assert!(!pauses.is_on(full) && pauses.is_for_room(full) && pauses.is_on(failed));
        assert!(!pauses.start_for_room(Some(full)) && pauses.is_on(full), "it is full again");
        pauses.start(Some(full));
        pauses.end_of_full();
        assert!(pauses.is_on(full), "it has failed while it was full");
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
