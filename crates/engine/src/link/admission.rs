//! How many bytes may be under way that no reader has asked for.

use crate::{
    base::{latch::Latch, options::ReadAheadOptions},
    link::{
        link_scheduler::{Link, Links},
        memory_budget::{MemoryBudget, Reservation},
    },
};
use forebay_telemetry::{Metrics, NotReadAhead};
use forebay_types::OriginId;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// Admits what is fetched before anybody asks for it: within a part of the memory, and within what the link to the origin
/// carries, so that a read that is asked for does not queue behind it for long.
pub(crate) struct Admission {
    links: Links,
    ahead_bytes: AtomicU64,
    ahead_bytes_max: u64,
    origin_bytes_max: u64,
    lingering: AtomicUsize,
    stopping: Latch,
}

/// Purposes of bytes that no reader has requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A reader is about to come to them.
    ReadAhead,
    /// As above, when it is done with what it has read: the link has nothing else to do.
    Idle,
    /// The whole file is to be in the cache.
    Completion,
}

/// Bytes that are fetched ahead. Their memory is counted until this is dropped, and their part of the link until [`Self::leave_link`].
pub(crate) struct Permit {
    admission: Arc<Admission>,
    link: Arc<Link>,
    bytes: u64,
    is_under_way: AtomicBool,
    pub(crate) purpose: Purpose,
}

/// A file that is completed without a client that has it open, counted until this is dropped.
pub(crate) struct Lingering(Arc<Admission>);

/// Bytes that may always be under way ahead over one link, however little it seems to carry: one long fill.
const LINK_BYTES_MIN: u64 = 4 << 20;

/// Bytes that may always be under way in spare time: a read that comes meanwhile waits for them.
const IDLE_BYTES_MIN: u64 = 1 << 20;

/// Part of the memory for what is fetched ahead that bytes may hold until a reader comes to them: a half.
const HELD_PART: u64 = 2;

/// Files that are completed at the same time without a client that has them open.
const LINGERING_MAX: usize = 64;

impl Admission {
    pub(crate) fn new(options: &ReadAheadOptions, budget_bytes: u64, metrics: Metrics) -> Self {
        let percent = u64::from(options.memory_percent);
        Self {
            links: Links::new(metrics),
            ahead_bytes: AtomicU64::new(0),
            ahead_bytes_max: budget_bytes / 100 * percent,
            origin_bytes_max: options.origin_bytes_max,
            lingering: AtomicUsize::new(0),
            stopping: Latch::default(),
        }
    }

    pub(crate) fn link(&self, server: &OriginId) -> Arc<Link> {
        self.links.of(server)
    }

    /// Admits nothing from now on.
    pub(crate) fn stop(&self) {
        self.stopping.set();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_set()
    }

    /// Resolves when nothing is admitted any more.
    pub(crate) async fn stopping(&self) {
        self.stopping.wait().await;
    }

    /// Whether `bytes` more may stay in memory until a reader comes to them.
    pub(crate) fn may_hold(&self, bytes: u64) -> bool {
        self.ahead_bytes.load(Relaxed).saturating_add(bytes) <= self.ahead_bytes_max / HELD_PART
    }

    /// Admits `bytes` to be fetched ahead, with memory for them.
    ///
    /// # Errors
    /// Says which limit is reached.
    pub(crate) fn admit(
        self: &Arc<Self>,
        budget: &MemoryBudget,
        link: &Arc<Link>,
        purpose: Purpose,
        bytes: u64,
    ) -> Result<(Permit, Reservation), NotReadAhead> {
        // First: after the stop no memory or room is taken at all.
        if self.is_stopping() {
            return Err(NotReadAhead::Stopping);
        }
        if !add_within(&self.ahead_bytes, bytes, self.ahead_bytes_max) {
            return Err(NotReadAhead::Memory);
        }
        // Prefetches in idle time do not take the room of those for readers that are about to come.
        let link_bytes_max = self.link_bytes_max(link, purpose, bytes);
        if !add_within(link.bytes_under_way(purpose), bytes, link_bytes_max) {
            // Given back: the memory was counted before the link refused.
            self.ahead_bytes.fetch_sub(bytes, Relaxed);
            return Err(NotReadAhead::Origin);
        }
        let is_under_way = AtomicBool::new(true);
        let permit = Permit { admission: Arc::clone(self), link: Arc::clone(link), bytes, is_under_way, purpose };
        // After the permit exists: its drop gives back both counts if no memory is free.
        let reservation = budget.try_reserve_spare(link, bytes).ok_or(NotReadAhead::Memory)?;
        Ok((permit, reservation))
    }

    /// Completing files leaves half of the link to readers.
    fn link_bytes_max(&self, link: &Link, purpose: Purpose, bytes: u64) -> u64 {
        let carried = link.estimate().window().unwrap_or(LINK_BYTES_MIN);
        let bytes_max = match purpose {
            Purpose::ReadAhead => carried.max(LINK_BYTES_MIN),
            Purpose::Idle => carried.max(IDLE_BYTES_MIN).max(bytes),
            Purpose::Completion => (carried / 2).max(LINK_BYTES_MIN),
        };
        bytes_max.min(self.origin_bytes_max)
    }

    /// A place among the files that are completed without a client that has them open.
    pub(crate) fn linger(self: &Arc<Self>) -> Option<Lingering> {
        let has_room = |lingering: usize| (lingering < LINGERING_MAX).then_some(lingering + 1);
        self.lingering.fetch_update(Relaxed, Relaxed, has_room).ok()?;
        Some(Lingering(Arc::clone(self)))
    }
}

impl Permit {
    /// The bytes have arrived, and stay in memory: the link has room for others.
    pub(crate) fn leave_link(&self) {
        if self.is_under_way.swap(false, Relaxed) {
            self.link.bytes_under_way(self.purpose).fetch_sub(self.bytes, Relaxed);
            self.link.note_room(self.purpose);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.ahead_bytes.fetch_sub(self.bytes, Relaxed);
        self.leave_link();
        // Also if they left the link before: there is room in memory now.
        self.link.note_room(self.purpose);
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.lingering.fetch_sub(1, Relaxed);
    }
}

/// Adds `bytes` to `sum`, unless that is more than `max` then.
fn add_within(sum: &AtomicU64, bytes: u64, max: u64) -> bool {
    sum.fetch_update(Relaxed, Relaxed, |sum| sum.checked_add(bytes).filter(|sum| *sum <= max)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Endpoint;

    const MIB: u64 = 1 << 20;

    fn admission(origin_bytes_max: u64) -> (Arc<Admission>, MemoryBudget) {
        let read_ahead = ReadAheadOptions { origin_bytes_max, ..ReadAheadOptions::default() };
        (Arc::new(Admission::new(&read_ahead, 100 * MIB, Metrics::new())), MemoryBudget::new(100 * MIB))
    }

    fn admit(
        admission: &Arc<Admission>,
        budget: &MemoryBudget,
        bytes: u64,
    ) -> Result<(Permit, Reservation), NotReadAhead> {
        admission.admit(budget, &admission.link(&Endpoint::new("origin", 1094).into()), Purpose::ReadAhead, bytes)
    }

    #[test]
    fn an_origin_carries_a_bounded_number_of_bytes_ahead() {
        let (admission, budget) = admission(3 * MIB);
        let held = admit(&admission, &budget, 3 * MIB).unwrap();
        assert_eq!(admit(&admission, &budget, 1).err(), Some(NotReadAhead::Origin));
        let other = admission.link(&Endpoint::new("other", 1094).into());
        assert!(admission.admit(&budget, &other, Purpose::Completion, MIB).is_ok());
        drop(held);
        assert!(admit(&admission, &budget, 3 * MIB).is_ok());
    }

    #[test]
    fn what_is_fetched_ahead_holds_a_share_of_the_memory() {
        let (admission, budget) = admission(u64::MAX);
        let link = admission.link(&Endpoint::new("origin", 1094).into());
        link.note(|estimate| estimate.note_latency(std::time::Duration::from_secs(10)));
        link.note(|estimate| estimate.note_rate(1 << 30, std::time::Duration::from_secs(1)));
        assert!(admit(&admission, &budget, 25 * MIB).is_ok());
        assert_eq!(admit(&admission, &budget, 25 * MIB + 1).err(), Some(NotReadAhead::Memory));
    }

    #[test]
    fn memory_that_reads_may_need_is_left_alone() {
        let (admission, budget) = admission(u64::MAX);
        let link = admission.link(&Endpoint::new("origin", 1094).into());
        link.note_delivered(1);
        let _reads = budget.try_reserve(&link, 71 * MIB / 2).unwrap();
        assert!(admit(&admission, &budget, 2 * MIB).is_ok());
        assert_eq!(admit(&admission, &budget, 2 * MIB + 1024).err(), Some(NotReadAhead::Memory));
        assert!(admit(&admission, &budget, 2 * MIB).is_ok(), "what was refused is not counted");
    }

    #[test]
    fn nothing_is_admitted_after_the_stop() {
        let (admission, budget) = admission(u64::MAX);
        admission.stop();
        assert_eq!(admit(&admission, &budget, 1).err(), Some(NotReadAhead::Stopping));
    }

    #[test]
    fn a_bounded_number_of_files_is_completed_unattended() {
        let (admission, _) = admission(u64::MAX);
        let held: Vec<_> = std::iter::repeat_with(|| admission.linger()).take(LINGERING_MAX).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(admission.linger().is_none());
        drop(held);
        assert!(admission.linger().is_some());
    }
}
