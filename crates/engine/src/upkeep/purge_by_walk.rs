//! A purge while the index, which names the entries, is not in use: the entries are found by a walk over their disk.

use crate::{
    entries::{file_context::FileContext, open_files::OpenFiles},
    upkeep::removal::{SLICE, remove_entries},
};
use forebay_cache::{CacheKey, Footprint, Goal, Scope};
use forebay_store::{Disk, StoreError, VolumeId, VolumeInfo};
use forebay_types::PurgeReason;
use std::{collections::BTreeMap, sync::Arc};

/// Names that are examined by one call.
const STEP_NAMES: usize = 256;

/// Names after which the walk ends if the entries found are enough: the whole of a large disk takes minutes, and the purge is urgent.
const NAMES_MAX: usize = 40_000;

/// Entries found that are remembered, those used least recently.
const CANDIDATES_MAX: usize = 10_000;

/// Entries by the time of their last use, in seconds of the Unix epoch.
type Candidates = BTreeMap<(i64, CacheKey), Footprint>;

/// What `goals` require of each of `volumes`; goals that no disk is named in require it of the one with most entries.
pub(crate) fn by_volume(volumes: &[VolumeInfo], goals: &[Goal]) -> BTreeMap<VolumeId, Footprint> {
    let used = |volume: &VolumeInfo| volume.space.map_or(0, |space| space.total_bytes.saturating_sub(space.free_bytes));
    let fullest = volumes.iter().filter(|volume| volume.health.is_online()).max_by_key(|volume| used(volume));
    let mut by_volume = BTreeMap::new();
    for goal in goals {
        let volume = match goal.scope {
            Scope::Disk(disk) => Some(VolumeId(disk)),
            Scope::All | Scope::Quota(_) => fullest.map(|volume| volume.id),
        };
        if let Some(volume) = volume {
            let (of_quotas, others) = by_volume.entry(volume).or_insert((Footprint::ZERO, Footprint::ZERO));
            // An entry that goes counts for all goals, but lies in one quota.
            match goal.scope {
                Scope::Quota(_) => *of_quotas += goal.to_free,
                Scope::All | Scope::Disk(_) => *others = larger(*others, goal.to_free),
            }
        }
    }
    by_volume.into_iter().map(|(volume, (of_quotas, others))| (volume, larger(of_quotas, others))).collect()
}

/// The larger number of bytes, and of inodes.
fn larger(one: Footprint, other: Footprint) -> Footprint {
    Footprint { bytes: one.bytes.max(other.bytes), inodes: one.inodes.max(other.inodes) }
}

/// Removes entries of `volume` until `to_free` is free: those used least recently of those that a walk finds. Pins, which only the
/// index has, do not count. Returns how many, and the space they took. Blocking.
pub(crate) fn purge_by_walk(
    context: &FileContext,
    open_files: &Arc<OpenFiles>,
    volume: VolumeId,
    to_free: Footprint,
) -> Result<(u64, Footprint), StoreError> {
    let Some(disk) = &context.disk else { return Ok((0, Footprint::ZERO)) };
    let others = context.volumes.lock().iter().map(|other| other.id).filter(|other| *other != volume).collect();
    let mut candidates = candidates(disk.as_ref(), volume, to_free)?.into_iter();
    let mut files = 0;
    let mut freed = Footprint::ZERO;
    loop {
        let mut slice = BTreeMap::new();
        let mut planned = freed;
        while slice.len() < SLICE
            && !is_enough(planned, to_free)
            && let Some(((_, key), footprint)) = candidates.next()
        {
            planned += footprint;
            slice.insert(key, footprint);
        }
        // Entries of a disk that has gone offline come back with it.
        if slice.is_empty() || !disk.is_online(volume) {
            return Ok((files, freed));
        }
        let footprint_of = |key: &CacheKey| slice.get(key).copied().unwrap_or(Footprint::ZERO);
        // The index cannot report their end: without this the next purge would free the same amount again.
        let note_gone = |key: &CacheKey| context.purge_ledger.note_gone_unreported(key, volume, footprint_of(key));
        for key in remove_entries(context, open_files, slice.keys().cloned(), &others, note_gone) {
            let footprint = footprint_of(&key);
            context.metrics.add_purged(PurgeReason::Space, footprint.bytes);
            files += 1;
            freed += footprint;
        }
    }
}

fn candidates(disk: &dyn Disk, volume: VolumeId, to_free: Footprint) -> Result<Candidates, StoreError> {
    let mut found = Candidates::new();
    let mut sum = Footprint::ZERO;
    let mut scan = disk.scan(volume, None)?;
    for step in 1.. {
        let slice = scan.next_slice(STEP_NAMES)?;
        for entry in slice.entries {
            let footprint = Footprint::of_entry(entry.cinfo.present_bytes());
            sum += footprint;
            found.insert((entry.last_use, entry.key), footprint);
        }
        while found.len() > CANDIDATES_MAX {
            found.pop_last();
        }
        if slice.is_last || (step * STEP_NAMES >= NAMES_MAX && is_enough(sum, to_free)) {
            break;
        }
    }
    Ok(found)
}

const fn is_enough(freed: Footprint, to_free: Footprint) -> bool {
    freed.bytes >= to_free.bytes && freed.inodes >= to_free.inodes
}
