//! Places for work on each disk: a disk that hangs leaves threads to others.

use forebay_store::VolumeId;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Semaphore;

/// Places for one kind of work, of each disk. A place is held by the thread that works, also after the one that waits for it has given up.
#[derive(Debug)]
pub(crate) struct DiskPlaces {
    count: usize,
    of_disks: Mutex<BTreeMap<VolumeId, Arc<Semaphore>>>,
}

impl DiskPlaces {
    /// Places of `volumes`: `total` for all of them, but at most `max` for each.
    pub(crate) fn new(volumes: &[VolumeId], total: usize, max: usize) -> Self {
        let count = (total / volumes.len().max(1)).clamp(1, max);
        let of_disks = volumes.iter().map(|volume| (*volume, Arc::new(Semaphore::new(count)))).collect();
        Self { count, of_disks: Mutex::new(of_disks) }
    }

    /// The places of a disk; `None` if it is not known.
    pub(crate) fn of(&self, volume: VolumeId) -> Option<Arc<Semaphore>> {
        self.of_disks.lock().get(&volume).cloned()
    }

    /// Gives a disk that is back new places: threads that hang since then may never leave the old ones.
    pub(crate) fn renew(&self, volume: VolumeId) {
        if let Some(places) = self.of_disks.lock().get_mut(&volume) {
            *places = Arc::new(Semaphore::new(self.count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_share_the_places_and_one_that_is_back_has_all_of_its_own() {
        let volumes = [VolumeId(0), VolumeId(1)];
        for (total, max, count) in [(100, 20, 20), (100, 60, 50), (1, 9, 1)] {
            let places = DiskPlaces::new(&volumes, total, max);
            let of_first = places.of(volumes[0]).expect("places");
            assert_eq!(of_first.available_permits(), count);
            let _hanging = of_first.try_acquire_many(u32::try_from(count).expect("few")).expect("free");
            assert_eq!(places.of(volumes[1]).expect("places").available_permits(), count);
            places.renew(volumes[0]);
            assert_eq!(places.of(volumes[0]).expect("places").available_permits(), count);
        }
        assert!(DiskPlaces::new(&[], 10, 10).of(VolumeId(0)).is_none());
    }
}
