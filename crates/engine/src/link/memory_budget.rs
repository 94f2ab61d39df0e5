//! One byte budget for all buffers.
//!
//! Memory is reserved before an origin is asked for bytes. Each chunk that arrives takes its share of the reservation along, so
//! that the budget is free again exactly when the last holder of the chunk has dropped it.
//!
//! Only origins that answer hold memory in advance. Others are asked without, at most once at a time before they have answered:
//! when their bytes arrive after all, they get memory of a part that is kept for that, or are dropped and requested again.

use crate::link::link_scheduler::{Answers, Link, Probe};
use bytes::Bytes;
use forebay_cache::Geometry;
use forebay_types::DirEntry;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which memory is counted, in bytes: fine enough for small reads, coarse enough for 32-bit permit counts.
const UNIT: u64 = 1024;

/// The part of the budget for bytes that arrive without memory reserved in advance: a quarter.
const UNRESERVED_PART: u64 = 4;

/// The part of the budget that bytes of fills hold on their way to clients, which may take them slowly: a quarter.
const DELIVERY_PART: u64 = 4;

/// Size of the maps of large files that are open, as a part of the budget on top of it: a quarter.
const MAPS_PART: u64 = 4;

/// Size of the large listings that are sent to clients, as a part of the budget on top of it: a quarter.
const LISTINGS_PART: u64 = 4;

/// Largest size of a listing in bytes that does not count: some ten thousand entries.
const SMALL_LISTING_BYTES: u64 = 1 << 20;

/// Largest size of the maps of one file, in bytes, that does not count: files of 13 GiB in blocks of 64 KiB.
const SMALL_MAP_BYTES: u64 = 128 << 10;

/// Sets of blocks of an open file: written, trusted, synced, recorded, and fetched ahead.
const SETS_PER_FILE: u64 = 5;

/// Bytes that all buffers together may hold.
#[derive(Clone)]
pub(crate) struct MemoryBudget {
    reserved: Pool,
    unreserved: Pool,
    /// Counted in the others too.
    deliveries: Pool,
    maps: Pool,
    listings: Pool,
}

/// The memory of the maps of an open file or of a listing, until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct HeldMemory {
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Clone)]
struct Pool {
    units: Arc<Semaphore>,
    total_units: u32,
}

/// Memory set aside for bytes that have not arrived yet.
pub(crate) struct Reservation {
    budget: MemoryBudget,
    held: Mutex<Held>,
}

struct Held {
    /// `None` while the memory is lent.
    permit: Option<OwnedSemaphorePermit>,
    /// Until the first byte arrives.
    probe: Option<Probe>,
    missing_bytes: u64,
}

/// Bytes together with the memory they occupy in the budget.
struct Accounted {
    bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let unreserved = bytes / UNRESERVED_PART;
        Self {
            reserved: Pool::new(bytes - unreserved),
            unreserved: Pool::new(unreserved),
            deliveries: Pool::new(bytes / DELIVERY_PART),
            maps: Pool::new(bytes / MAPS_PART),
            listings: Pool::new(bytes / LISTINGS_PART),
        }
    }

    /// Waits for memory for a listing that has been received; one that is larger than all of it is sent alone.
    pub(crate) async fn reserve_listing(&self, entries: &[DirEntry]) -> HeldMemory {
        let names: usize = entries.iter().map(|entry| entry.name.capacity()).sum();
        let bytes = (names + size_of_val(entries)) as u64;
        if bytes <= SMALL_LISTING_BYTES {
            return HeldMemory::default();
        }
        HeldMemory { _permit: self.listings.acquire(bytes).await }
    }

    /// Takes memory for the maps of a file, if it is free now.
    pub(crate) fn try_reserve_maps(&self, geometry: Geometry) -> Option<HeldMemory> {
        let bytes = map_bytes(geometry);
        if bytes <= SMALL_MAP_BYTES {
            return Some(HeldMemory::default());
        }
        self.maps.try_acquire(bytes).map(|permit| HeldMemory { _permit: Some(permit) })
    }

    /// Waits for memory for the maps of a file; one that is larger than all of it is opened alone.
    pub(crate) async fn reserve_maps(&self, geometry: Geometry) -> HeldMemory {
        match self.try_reserve_maps(geometry) {
            Some(memory) => memory,
            None => HeldMemory { _permit: self.maps.acquire(map_bytes(geometry)).await },
        }
    }

    /// `bytes` of a fill, to be held by a client's connection until they are sent. `None` when clients hold too many.
    pub(crate) fn deliver(&self, bytes: &Bytes) -> Option<Bytes> {
        let permit = self.deliveries.try_acquire(bytes.len() as u64)?;
        Some(Bytes::from_owner(Accounted { bytes: bytes.clone(), _permit: Some(permit) }))
    }

    /// Whether there can ever be memory for `bytes`.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.reserved.bytes()
    }

    /// Reserves memory for `bytes` that come over `link`, if that much is free now and no other reservation waits. More than the
    /// whole budget never is.
    pub(crate) fn try_reserve(&self, link: &Arc<Link>, bytes: u64) -> Option<Reservation> {
        match link.answers() {
            Answers::Silent => Some(self.lent(None, bytes)),
            Answers::Coming => Some(self.reservation(self.reserved.try_acquire(bytes)?, bytes)),
            Answers::Unknown => {
                // Ample memory only, which other origins do not need: this one may hang.
                let reserved = self.try_reserve_spare(link, bytes);
                reserved.or_else(|| Some(self.lent(Some(link.probe()?), bytes)))
            }
        }
    }

    /// Reserves memory for `bytes` that no reader has requested yet: only while half of the budget stays free after it.
    pub(crate) fn try_reserve_spare(&self, link: &Link, bytes: u64) -> Option<Reservation> {
        let kept_free = u64::from(self.reserved.total_units) / 2 * UNIT;
        // An origin that does not answer is not asked for more than readers request.
        let is_spare = link.answers() != Answers::Silent
            && self.reserved.free_bytes().checked_sub(bytes).is_some_and(|free| free >= kept_free);
        is_spare.then(|| self.reserved.try_acquire(bytes)).flatten().map(|permit| self.reservation(permit, bytes))
    }

    /// Reserves memory for `bytes` that come over `link`, waiting in line until it is free. A request larger than the whole budget
    /// counts as the whole budget: it is served alone. `None` only when the engine is gone.
    pub(crate) async fn reserve(&self, link: &Arc<Link>, bytes: u64) -> Option<Reservation> {
        let mut changes = link.watch_answers();
        loop {
            changes.borrow_and_update();
            if let Some(reservation) = self.try_reserve(link, bytes) {
                return Some(reservation);
            }
            // Readers of an origin that may hang do not wait in the line of the others, but for its first answer.
            let in_line = async {
                match link.answers() {
                    Answers::Coming => self.reserved.acquire(bytes).await,
                    Answers::Unknown | Answers::Silent => {
                        link.probed().await;
                        None
                    }
                }
            };
            tokio::select! {
                biased;
                // Looked at again: the wait may have been long.
                permit = in_line => if let Some(permit) = permit.filter(|_| link.answers() == Answers::Coming) {
                    return Some(self.reservation(permit, bytes));
                },
                changed = changes.changed() => changed.ok()?,
            }
        }
    }

    /// Bytes reserved or held at this moment.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.reserved.used_bytes() + self.unreserved.used_bytes()
    }

    fn reservation(&self, permit: OwnedSemaphorePermit, missing_bytes: u64) -> Reservation {
        let held = Mutex::new(Held { permit: Some(permit), probe: None, missing_bytes });
        Reservation { budget: self.clone(), held }
    }

    /// A reservation of bytes that are not expected to come.
    fn lent(&self, probe: Option<Probe>, missing_bytes: u64) -> Reservation {
        let held = Mutex::new(Held { permit: None, probe, missing_bytes });
        Reservation { budget: self.clone(), held }
    }
}

const fn map_bytes(geometry: Geometry) -> u64 {
    geometry.block_count().div_ceil(8).saturating_mul(SETS_PER_FILE)
}

impl Pool {
    fn new(bytes: u64) -> Self {
        let total_units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        // The semaphore has its own limit, which is lower than `u32::MAX` on 32-bit machines.
        let units = usize::try_from(total_units).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)), total_units }
    }

    fn bytes(&self) -> u64 {
        u64::from(self.total_units) * UNIT
    }

    fn free_bytes(&self) -> u64 {
        (self.units.available_permits() as u64).saturating_mul(UNIT)
    }

    fn used_bytes(&self) -> u64 {
        self.bytes().saturating_sub(self.free_bytes())
    }

    fn try_acquire(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok().filter(|units| *units <= self.total_units)?;
        Arc::clone(&self.units).try_acquire_many_owned(units).ok()
    }

    async fn acquire(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.total_units);
        Arc::clone(&self.units).acquire_many_owned(units).await.ok()
    }
}

impl Reservation {
    /// Ties a share of the reservation to bytes that have arrived. `None` when it was lent, and no memory is free now.
    pub(crate) fn attach(&self, bytes: Bytes) -> Option<Bytes> {
        let mut held = self.held.lock();
        held.probe = None;
        if held.permit.is_none() {
            let MemoryBudget { reserved, unreserved, .. } = &self.budget;
            let bytes = held.missing_bytes.min(unreserved.bytes());
            held.permit = Some(reserved.try_acquire(bytes).or_else(|| unreserved.try_acquire(bytes))?);
        }
        held.missing_bytes = held.missing_bytes.saturating_sub(bytes.len() as u64);
        let units = usize::try_from((bytes.len() as u64).div_ceil(UNIT)).unwrap_or(usize::MAX);
        // Rounding each chunk up may need more units than were reserved: the last chunks take the rest.
        let permit = held.permit.as_mut().and_then(|permit| permit.split(units.min(permit.num_permits())));
        Some(Bytes::from_owner(Accounted { bytes, _permit: permit }))
    }

    /// Gives the memory back until the bytes arrive: their origin does not answer.
    pub(crate) fn lend(&self) {
        let mut held = self.held.lock();
        (held.permit, held.probe) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::link_scheduler::Links;
    use forebay_telemetry::Metrics;
    use forebay_types::Endpoint;

    const MIB: u64 = 1 << 20;

    fn new_link() -> Arc<Link> {
        Links::new(Metrics::new()).of(&Endpoint::new("origin", 1094).into())
    }

    fn answering_link() -> Arc<Link> {
        let link = new_link();
        link.note_delivered(1);
        link
    }

    #[test]
    fn memory_is_free_again_when_the_last_clone_is_dropped() {
        let budget = MemoryBudget::new(1 << 20);
        let reservation = budget.try_reserve(&answering_link(), 128 << 10).expect("the budget is untouched");
        let chunk = reservation.attach(Bytes::from(vec![7; 64 << 10])).expect("it is reserved");
        drop(reservation);
        assert_eq!(budget.used_bytes(), 64 << 10);
        let part = chunk.slice(..10);
        drop(chunk);
        assert_eq!(budget.used_bytes(), 64 << 10);
        drop(part);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn a_full_budget_grants_nothing_and_more_than_all_of_it_is_served_alone() {
        let budget = MemoryBudget::new(4 * MIB);
        let link = answering_link();
        let held = budget.try_reserve(&link, 3 * MIB).expect("the budget is untouched");
        assert!(budget.try_reserve(&link, 1).is_none());
        drop(held);
        assert!(budget.try_reserve(&link, 3 * MIB + 1).is_none());
        let _all = budget.reserve(&link, 5 * MIB).await.expect("no other reservation exists");
        assert_eq!(budget.used_bytes(), 3 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_that_has_not_answered_lately_is_asked_once_without_memory() {
        let budget = MemoryBudget::new(4 * MIB);
        let held = budget.try_reserve(&answering_link(), 3 * MIB).expect("the budget is untouched");
        let link = new_link();
        let probe = budget.try_reserve(&link, MIB).expect("the first is asked for at once");
        assert!(budget.try_reserve(&link, MIB).is_none());
        link.note_delivered(4);
        let _answer = probe.attach(Bytes::from_static(b"data")).expect("a part is kept for it");
        assert_eq!(budget.used_bytes(), 4 * MIB);
        drop(held);
        assert!(budget.try_reserve(&link, 3 * MIB).is_some(), "it answers");
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert!(budget.try_reserve(&link, 3 * MIB).is_some(), "a probe");
        assert_eq!(link.answers(), Answers::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_a_silent_origin_neither_wait_for_memory_nor_hold_any() {
        let budget = MemoryBudget::new(4 * MIB);
        let _held = budget.try_reserve(&answering_link(), 3 * MIB).expect("the budget is untouched");
        let link = new_link();
        let _probe = budget.try_reserve(&link, MIB).expect("the first is asked for at once");
        let (reserved, ()) = tokio::join!(budget.reserve(&link, MIB), link.silence());
        assert_eq!((reserved.is_some(), budget.used_bytes()), (true, 3 * MIB));
    }

    #[tokio::test(start_paused = true)]
    async fn lent_memory_is_taken_again_when_bytes_come_or_they_are_dropped() {
        let budget = MemoryBudget::new(4 * MIB);
        let link = answering_link();
        let reservation = budget.try_reserve(&link, MIB).expect("the budget is untouched");
        reservation.lend();
        let others: Vec<_> = (0..2).map(|_| budget.try_reserve(&new_link(), 3 * MIB).expect("a probe")).collect();
        let _reserved = budget.try_reserve(&link, 3 * MIB).expect("it was lent");
        let late = others.first().expect("two of them").attach(Bytes::from_static(b"late"));
        assert!(late.is_some() && reservation.attach(Bytes::from_static(b"later")).is_none());
        drop((late, others));
        assert!(reservation.attach(Bytes::from_static(b"at last")).is_some());
    }

    #[tokio::test]
    async fn the_maps_of_large_files_share_a_part_of_the_memory() {
        let of_size = |size| Geometry::of_new_file(forebay_types::BlockSize::DEFAULT, size).expect("a good size");
        let budget = MemoryBudget::new(64 * MIB);
        let small: Vec<_> = (0..1000).map(|_| budget.try_reserve_maps(of_size(1 << 30))).collect();
        assert!(small.iter().all(Option::is_some), "they do not count");
        let one = budget.try_reserve_maps(of_size(1 << 40)).expect("10 MiB are free");
        assert!(budget.try_reserve_maps(of_size(1 << 40)).is_none());
        drop(one);
        budget.reserve_maps(of_size(1 << 42)).await;
        assert!(budget.try_reserve_maps(of_size(1 << 40)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn large_listings_share_a_part_of_the_memory_and_small_ones_do_not_wait() {
        let of_len = |len| {
            let entry = || DirEntry { name: "file".to_owned(), stat: None, checksum: None };
            std::iter::repeat_with(entry).take(len).collect::<Vec<_>>()
        };
        let budget = MemoryBudget::new(16 * MIB);
        let large = of_len(100_000);
        let held = budget.reserve_listing(&large).await;
        let limit = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(limit, budget.reserve_listing(&large)).await.is_err());
        budget.reserve_listing(&of_len(1000)).await;
        drop(held);
        budget.reserve_listing(&large).await;
    }
}
