//! A cache of the disks that entries were found on.

use crate::VolumeId;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries whose place is remembered, at most; 512 KiB. Others are looked for on every disk.
const SLOTS: usize = 1 << 16;

/// Bits of a slot for the disk; the others identify the key, together with the slot's number.
const VOLUME_BITS: u64 = 0xffff;

/// Where entries were found last. A hint: nothing goes wrong when it is, but time.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// The hash of a key, its lowest bits replaced by the number of the disk plus one; 0 when empty.
    slots: Vec<AtomicU64>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Remembered {
    pub(crate) fn get(&self, hash: u64) -> Option<VolumeId> {
        let value = self.slot(hash)?.load(Relaxed);
        if value & !VOLUME_BITS != hash & !VOLUME_BITS {
            return None;
        }
        u16::try_from((value & VOLUME_BITS).checked_sub(1)?).ok().map(VolumeId)
    }

    pub(crate) fn put(&self, hash: u64, volume: VolumeId) {
        if let Some(slot) = self.slot(hash) {
            slot.store(hash & !VOLUME_BITS | (u64::from(volume.0) + 1), Relaxed);
        }
    }

    pub(crate) fn forget(&self, hash: u64) {
        if self.get(hash).is_some()
            && let Some(slot) = self.slot(hash)
        {
            slot.store(0, Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
    }

    fn slot(&self, hash: u64) -> Option<&AtomicU64> {
        self.slots.get(usize::try_from(hash % SLOTS as u64).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_remembered_until_they_are_forgotten() {
        let remembered = Remembered::default();
        let hash = 0xabcd_0000_1234;
        let same_slot = 0xabce_0000_1234;
        assert_eq!(remembered.get(hash), None);
        assert_eq!(remembered.get(0), None);
        remembered.put(hash, VolumeId(0));
        assert_eq!((remembered.get(hash), remembered.get(same_slot)), (Some(VolumeId(0)), None));
        remembered.forget(same_slot);
        assert_eq!(remembered.get(hash), Some(VolumeId(0)));
        remembered.put(same_slot, VolumeId(255));
        assert_eq!((remembered.get(hash), remembered.get(same_slot)), (None, Some(VolumeId(255))));
        remembered.clear();
        assert_eq!(remembered.get(same_slot), None);
    }
}
