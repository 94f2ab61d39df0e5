//! Several disks as one.

mod remembered;
pub(crate) mod volume;
pub(crate) mod watched_file;

pub use volume::{Clock, Opener, VolumeSpec};

use crate::{
    DataFile, Disk, Entry, FileState, MayWait, NewRecord, OriginMark, Scan, Space, StoreError, VolumeId, VolumeInfo,
    disk_set::{
        remembered::Remembered,
        volume::Volume,
        watched_file::{WatchedFile, WatchedScan},
    },
};
use forebay_cache::{
    CacheKey, Candidate, Cinfo, Health, HealthLimits, placement_hash, placement_order, weight_for_new,
};
use forebay_types::ValidatorMatch;
use std::{io, path::PathBuf, sync::Arc};

/// Several disks as one: each entry lies on one of them wholly.
///
/// A new entry goes where weight and room draw it. An entry is looked for on every disk at its first open, and from then on
/// where it was found. Of two copies, which there are when a disk comes back that was away, the better one is kept.
///
/// A disk that fails costs the entries it holds, nothing else; see [`forebay_cache::DiskHealth`].
#[derive(Debug)]
pub struct DiskSet {
    volumes: Vec<Arc<Volume>>,
    remembered: Remembered,
}

const VOLUMES_MAX: usize = 256;

/// A disk with less than one part in this many free gets new files only when the others are no better.
const FREE_SHARE_WANTED: u64 = 20;

impl DiskSet {
    /// Opens the disks. One that cannot be opened is offline, and is tried again for the life of the set.
    ///
    /// # Panics
    /// When there are no disks, or more than 256.
    ///
    /// # Errors
    /// When no disk can be opened.
    pub fn open(specs: Vec<VolumeSpec>, limits: HealthLimits, clock: Clock) -> Result<Self, StoreError> {
        assert!((1..=VOLUMES_MAX).contains(&specs.len()), "a set of {} disks", specs.len());
        let mut failures = Vec::new();
        let mut volumes = Vec::new();
        for (number, spec) in (0..).zip(specs) {
            let volume = Arc::new(Volume::new(VolumeId(number), spec, limits, clock));
            failures.extend(volume.open().err().map(|error| (Arc::clone(&volume), error)));
            volumes.push(volume);
        }
        if failures.len() == volumes.len()
            && let Some((_, error)) = failures.drain(..).next()
        {
            return Err(error);
        }
        for (volume, error) in failures {
            volume.note_absent(&error);
        }
        Ok(Self { volumes, remembered: Remembered::default() })
    }

    fn volume(&self, id: VolumeId) -> Option<&Arc<Volume>> {
        self.volumes.get(usize::from(id.0))
    }

    /// Disks that may be asked, the one first that is likeliest to have the key of `hash`.
    fn online(&self, hash: u64) -> Vec<&Arc<Volume>> {
        let candidate = |volume: &Arc<Volume>| Candidate { seed: volume.seed, weight: f64::from(volume.spec.weight) };
        let candidates: Vec<Candidate> = self.volumes.iter().map(candidate).collect();
        let order = placement_order(hash, &candidates).into_iter();
        order.filter_map(|position| self.volumes.get(position)).filter(|volume| volume.health().is_online()).collect()
    }

    /// Disks that a new entry may go to, the best one first.
    fn candidates_for_new(&self, hash: u64) -> Vec<&Arc<Volume>> {
        // With one disk there is no choice, so its room need not be measured.
        if let [only] = self.volumes.as_slice() {
            return if only.health().is_writable() { vec![only] } else { Vec::new() };
        }
        let mut volumes = Vec::new();
        let mut candidates = Vec::new();
        for volume in &self.volumes {
            let health = volume.health();
            if health.is_writable() {
                // A disk that cannot be measured weighs next to nothing, so that any other one is preferred.
                let (free_bytes, total_bytes) =
                    volume.measure().map_or((0, 0), |space| (space.free_bytes, space.total_bytes));
                let is_second_choice = health == Health::Degraded || free_bytes < total_bytes / FREE_SHARE_WANTED;
                volumes.push((volume, is_second_choice));
                let weight = weight_for_new(volume.spec.weight, free_bytes, total_bytes);
                candidates.push(Candidate { seed: volume.seed, weight });
            }
        }
        let order = placement_order(hash, &candidates);
        let mut chosen: Vec<_> = order.into_iter().filter_map(|position| volumes.get(position)).copied().collect();
        // The sort is stable: within both groups the drawn order stays.
        chosen.sort_by_key(|&(_, is_second_choice)| is_second_choice);
        chosen.into_iter().map(|(volume, _)| volume).collect()
    }

    /// Where the entry of the key was found last, if that may be asked.
    fn remembered(&self, hash: u64) -> Option<&Arc<Volume>> {
        self.volume(self.remembered.get(hash)?).filter(|volume| volume.health().is_online())
    }

    /// Looks on every disk, and keeps the best copy only. A disk that fails has no copy, unless it is the only one.
    fn find(&self, key: &CacheKey, hash: u64) -> Result<Option<Entry>, StoreError> {
        let online = self.online(hash);
        let mut best: Option<(&Arc<Volume>, Entry)> = None;
        let mut failure = None;
        for volume in &online {
            let entry = match volume.run(|disk| disk.open_entry(key)) {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                // An error of the entry itself is not hidden by the other disks; a broken disk counts as empty if
                // others are left.
                Err(error) if error.fault().is_none() || online.len() == 1 => {
                    failure = Some(error);
                    continue;
                }
                Err(_) => continue,
            };
            let worse = match &best {
                Some((_, kept)) if !is_better(&entry, kept) => Some(*volume),
                _ => best.replace((volume, entry)).map(|(first, _)| first),
            };
            // Two copies would drift apart, and an old one could come back once the newer is purged.
            if let Some(worse) = worse {
                remove_copy(worse, key);
            }
        }
        match (best, failure) {
            (Some((volume, entry)), _) => Ok(Some(watched(volume, entry))),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }
}

impl Disk for DiskSet {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        let hash = hash_of(key);
        if let Some(volume) = self.remembered(hash)
            && let Ok(Some(entry)) = volume.run(|disk| disk.open_entry(key))
        {
            return Ok(Some(watched(volume, entry)));
        }
        let found = self.find(key, hash)?;
        if let Some(entry) = &found {
            self.remembered.put(hash, entry.volume());
        }
        Ok(found)
    }

    fn reopen(
        &self,
        key: &CacheKey,
        volume: VolumeId,
        state: &FileState,
        may_wait: MayWait,
    ) -> Option<Arc<dyn DataFile>> {
        let volume = self.volume(volume)?;
        let data = match may_wait {
            MayWait::Yes => volume.run(|disk| Ok(disk.reopen(key, volume.id, state, may_wait))).ok()??,
            // A call that does not wait cannot hang: there is nothing to watch.
            MayWait::No => volume.online_disk()?.reopen(key, volume.id, state, may_wait)?,
        };
        Some(Arc::new(WatchedFile { volume: Arc::clone(volume), data }))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        let hash = hash_of(key);
        // Until the creation ends, no lookup may take the old place for the right one.
        self.remembered.forget(hash);
        let mut first_error = None;
        for volume in self.candidates_for_new(hash) {
            match volume.run_syncing(|disk| disk.create_entry(key, cinfo.clone(), origin.clone())) {
                Ok(entry) => {
                    // A copy on another disk would win over the new entry as soon as it is more complete.
                    for other in self.online(hash).into_iter().filter(|other| other.id != volume.id) {
                        remove_copy(other, key);
                    }
                    self.remembered.put(hash, volume.id);
                    return Ok(watched(volume, entry));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or(StoreError::NoVolume))
    }

    fn create_entry_if_free(
        &self,
        key: &CacheKey,
        cinfo: Cinfo,
        origin: Option<OriginMark>,
    ) -> Result<Option<Entry>, StoreError> {
        let [only] = self.volumes.as_slice() else {
            // It may be on any of the disks.
            return match self.open_entry(key)? {
                Some(_) => Ok(None),
                None => self.create_entry(key, cinfo, origin).map(Some),
            };
        };
        if !only.health().is_writable() {
            return Err(StoreError::NoVolume);
        }
        let entry = only.run_syncing(|disk| disk.create_entry_if_free(key, cinfo, origin))?;
        self.remembered.put(hash_of(key), only.id);
        Ok(entry.map(|entry| watched(only, entry)))
    }

    fn volume_for_new(&self) -> Option<VolumeId> {
        match self.volumes.as_slice() {
            [only] if only.health().is_writable() => Some(only.id),
            _ => None,
        }
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        let of_one_disk = |files: &[&dyn DataFile]| {
            let volume = files.first().and_then(|file| self.volume(file.volume()));
            let missing = || files.iter().map(|_| Err(io::Error::other(StoreError::NoVolume))).collect();
            volume.map_or_else(missing, |volume| volume.sync_data_of(files))
        };
        files.chunk_by(|one, next| one.volume() == next.volume()).flat_map(of_one_disk).collect()
    }

    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        let disk = self.volume(data.volume()).and_then(|volume| volume.disk());
        disk.is_some_and(|disk| disk.gains_from_batch_sync(data))
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let of_one_disk = |records: &[NewRecord<'_>]| {
            let volume = records.first().and_then(|record| self.volume(record.data.volume()));
            let missing = || records.iter().map(|_| Err(StoreError::NoVolume)).collect();
            volume.map_or_else(missing, |volume| volume.write_cinfos(records))
        };
        records.chunk_by(|one, next| one.data.volume() == next.data.volume()).flat_map(of_one_disk).collect()
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        let hash = hash_of(key);
        self.remembered.forget(hash);
        let mut result = Ok(());
        // Every disk is asked, whatever becomes of the others.
        for volume in self.online(hash) {
            let hangs = volume.hangs();
            let removed = volume.run_syncing(|disk| disk.remove_entry(key));
            result = result.and(removed);
            // Except after a disk that was given up meanwhile: this removal may have hung, and the entry been created again elsewhere.
            if volume.hangs() != hangs || !volume.health().is_online() {
                return result.and_then(|()| Err(volume.offline()));
            }
        }
        result
    }

    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        // Their places are outdated as soon as the removal begins.
        keys.iter().for_each(|key| self.remembered.forget(hash_of(key)));
        let mut results: Vec<_> = keys.iter().map(|_| Ok(())).collect();
        // Asked of every disk, because a copy may have come back with a disk that was away.
        for volume in self.volumes.iter().filter(|volume| volume.health().is_online()) {
            for (result, removed) in results.iter_mut().zip(volume.remove_entries(keys)) {
                if result.is_ok() {
                    *result = removed;
                }
            }
        }
        results
    }

    fn settle_removals(&self) -> Result<(), StoreError> {
        let online = self.volumes.iter().filter(|volume| volume.health().is_online());
        online.map(|volume| volume.settle_removals()).fold(Ok(()), Result::and)
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        // Every disk is asked: a failure of one says nothing about a file on another.
        let volumes = self.online(hash_of(key));
        let asked: Vec<_> = volumes.iter().map(|volume| volume.run(|disk| disk.close_to_others(key, since))).collect();
        if asked.iter().any(|may_go| matches!(may_go, Ok(false))) {
            return Ok(false);
        }
        asked.into_iter().try_fold(true, |all, may_go| Ok(all && may_go?))
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        let hash = hash_of(key);
        let touch = |volume: &Arc<Volume>| {
            // The access time is only a hint: not worth an error on a disk that cannot be written.
            if volume.health().is_writable() { volume.run(|disk| disk.touch(key, now)) } else { Ok(()) }
        };
        if let Some(volume) = self.remembered(hash) {
            return touch(volume);
        }
        let mut result = Err(StoreError::NoVolume);
        for volume in self.online(hash) {
            result = touch(volume);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn space(&self) -> Result<Space, StoreError> {
        let mut sum = Space::default();
        for space in self.volumes.iter().filter_map(|volume| volume.measure()) {
            sum.total_bytes = sum.total_bytes.saturating_add(space.total_bytes);
            sum.free_bytes = sum.free_bytes.saturating_add(space.free_bytes);
            sum.total_inodes = sum.total_inodes.saturating_add(space.total_inodes);
            sum.free_inodes = sum.free_inodes.saturating_add(space.free_inodes);
        }
        Ok(sum)
    }

    /// Where it was found last, else where it would be looked for first.
    fn local_path(&self, key: &CacheKey) -> PathBuf {
        let hash = hash_of(key);
        let volume = self.remembered(hash).or_else(|| self.online(hash).first().copied());
        let disk = volume.and_then(|volume| volume.disk());
        disk.map_or_else(|| PathBuf::from(key.as_str()), |disk| disk.local_path(key))
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        self.volumes.iter().map(|volume| volume.info()).collect()
    }

    fn is_online(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_some_and(|volume| volume.health().is_online())
    }

    fn is_writable(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_some_and(|volume| volume.health().is_writable())
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_some_and(|volume| volume.health() == Health::Full)
    }

    fn note_read_failure(&self, volume: VolumeId, error: &io::Error) {
        if let Some(volume) = self.volume(volume) {
            volume.note_failure(error);
        }
    }

    fn scan(&self, volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError> {
        let volume = self.volume(volume).ok_or(StoreError::NoVolume)?;
        let scan = volume.run(|disk| disk.scan(volume.id, changed_since))?;
        Ok(Box::new(WatchedScan { volume: Arc::clone(volume), scan }))
    }

    fn due_probes(&self) -> Vec<VolumeId> {
        self.volumes.iter().filter(|volume| volume.begin_probe()).map(|volume| volume.id).collect()
    }

    fn probe(&self, volume: VolumeId) -> Result<(), StoreError> {
        let volume = self.volume(volume).ok_or(StoreError::NoVolume)?;
        let probed = volume.probe();
        if probed.is_ok() {
            // It may hold other copies of what was found elsewhere meanwhile.
            self.remembered.clear();
        }
        probed
    }
}

fn hash_of(key: &CacheKey) -> u64 {
    placement_hash(key.as_str().as_bytes())
}

fn watched(volume: &Arc<Volume>, entry: Entry) -> Entry {
    Entry { data: Arc::new(WatchedFile { volume: Arc::clone(volume), data: entry.data }), ..entry }
}

/// Removes a copy that is not to be used. Where that fails the copy is judged again when it is found again.
fn remove_copy(volume: &Volume, key: &CacheKey) {
    if let Err(error) = volume.run_syncing(|disk| disk.remove_entry(key)) {
        tracing::debug!(%key, disk = %volume.spec.path.display(), %error, "a copy of an entry is left on a second disk");
    }
}

/// Whether `entry` is better than `kept`, another copy of the same key on another disk.
///
/// Of two copies of the same content the complete one is better. Otherwise, or when both are complete or neither is, the one
/// that was created later: it is what the origin gave last. Equal copies are equally good.
pub(crate) fn is_better(entry: &Entry, kept: &Entry) -> bool {
    let (is_complete, is_kept_complete) = (entry.cinfo.is_complete(), kept.cinfo.is_complete());
    if is_complete != is_kept_complete && is_same_content(entry, kept) {
        return is_complete;
    }
    // Of different contents the newer one is more likely to be the origin's.
    entry.cinfo.created > kept.cinfo.created
}

/// Whether two copies are known to be of one content: of one size, and with validators of one server that agree.
fn is_same_content(entry: &Entry, kept: &Entry) -> bool {
    entry.origin.as_ref().zip(kept.origin.as_ref()).is_some_and(|(one, other)| {
        one.origin == other.origin && one.validator.compare(&other.validator) == ValidatorMatch::Same
    }) && entry.cinfo.geometry.file_size() == kept.cinfo.geometry.file_size()
}
