//! One byte budget for all buffers.
//!
//! Memory is reserved before an origin is asked for bytes. Each chunk that arrives takes its share of the reservation along, so
//! that the budget is free again exactly when the last holder of the chunk has dropped it.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which memory is counted, in bytes: fine enough for small reads, coarse enough for 32-bit permit counts.
const UNIT: u64 = 1024;

/// Bytes that all buffers together may hold.
#[derive(Clone)]
pub(crate) struct MemoryBudget {
    units: Arc<Semaphore>,
    total_units: u32,
}

/// Memory set aside for bytes that have not arrived yet.
pub(crate) struct Reservation {
    permit: OwnedSemaphorePermit,
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
        let total_units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        // The semaphore has its own limit, which is lower than `u32::MAX` on 32-bit machines.
        let units = usize::try_from(total_units).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)), total_units }
    }

    /// Reserves memory for `bytes`, if that much is free now and no other reservation waits. More than the whole budget never is.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok().filter(|units| *units <= self.total_units)?;
        let permit = Arc::clone(&self.units).try_acquire_many_owned(units).ok()?;
        Some(Reservation { permit })
    }

    /// Reserves memory for `bytes` that no reader has requested yet: only while half of the budget stays free after it.
    pub(crate) fn try_reserve_spare(&self, bytes: u64) -> Option<Reservation> {
        let free = (self.units.available_permits() as u64).saturating_mul(UNIT);
        let kept_free = u64::from(self.total_units) / 2 * UNIT;
        // Both conditions: half of an odd total rounds down, and more than the free bytes never fits.
        (free.saturating_sub(bytes) >= kept_free && free >= bytes).then(|| self.try_reserve(bytes)).flatten()
    }

    /// Reserves memory for `bytes`, waiting in line until it is free. A request larger than the whole budget counts as the
    /// whole budget: it is served alone. `None` only when the engine is gone.
    pub(crate) async fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.total_units);
        let permit = Arc::clone(&self.units).acquire_many_owned(units).await.ok()?;
        Some(Reservation { permit })
    }

    /// Bytes reserved or held at this moment.
    pub(crate) fn used_bytes(&self) -> u64 {
        let free = self.units.available_permits() as u64;
        u64::from(self.total_units).saturating_sub(free) * UNIT
    }
}

impl Reservation {
    /// Ties a share of the reservation to bytes that have arrived.
    pub(crate) fn attach(&mut self, bytes: Bytes) -> Bytes {
        let units = usize::try_from((bytes.len() as u64).div_ceil(UNIT)).unwrap_or(usize::MAX);
        // Rounding each chunk up may need more units than were reserved: the last chunks take the rest.
        let permit = self.permit.split(units.min(self.permit.num_permits()));
        Bytes::from_owner(Accounted { bytes, _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_free_again_when_the_last_clone_is_dropped() {
        let budget = MemoryBudget::new(1 << 20);
        let mut reservation = budget.try_reserve(128 << 10).expect("the budget is untouched");
        let chunk = reservation.attach(Bytes::from(vec![7; 64 << 10]));
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
        let budget = MemoryBudget::new(1 << 20);
        let held = budget.try_reserve(1 << 20).expect("the budget is untouched");
        assert!(budget.try_reserve(1).is_none());
        drop(held);
        assert!(budget.try_reserve((1 << 20) + 1).is_none());
        let _all = budget.reserve(5 << 20).await.expect("no other reservation exists");
        assert_eq!(budget.used_bytes(), 1 << 20);
    }
}
