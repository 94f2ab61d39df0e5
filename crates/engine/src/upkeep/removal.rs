//! Removal of entries that are not in use, from the disk, the index and the accounts.

use crate::{
    entries::{file_context::FileContext, open_files::OpenFiles},
    upkeep::disk_work::offline_disks,
};
use forebay_cache::{CacheKey, Victim};
use forebay_index::Index;
use forebay_store::VolumeId;
use forebay_telemetry::DiskOperation;
use std::{collections::BTreeSet, sync::Arc};

/// Victims that are removed in one go, on one worker: some milliseconds, so that reads are not held up, and enough that many
/// of them lie in one directory.
pub(crate) const SLICE: usize = 64;

pub(crate) struct Removed {
    pub(crate) gone: Vec<Victim>,
    /// In use, or not removable.
    pub(crate) stay: Vec<Victim>,
}

/// Removes the victims that are not in use; none of them is on the disks `without`. Blocking.
pub(crate) fn remove(
    context: &FileContext,
    table: &Arc<OpenFiles>,
    victims: Vec<Victim>,
    without: &BTreeSet<VolumeId>,
) -> Removed {
    let Some(index) = context.catalog.as_ref().and_then(|catalog| catalog.index()) else { return stay(victims) };
    let Some(named) = names(&index, &victims) else { return stay(victims) };
    let keys = named.iter().filter_map(|(_, key)| key.clone());
    let went = remove_entries(context, table, keys, without, |key| context.purge_ledger.note_gone(key));
    let mut removed = Removed { gone: Vec::new(), stay: Vec::new() };
    for (victim, key) in named {
        // A victim without a key in the index is gone already.
        let is_gone = key.is_none_or(|key| went.contains(&key));
        if is_gone { removed.gone.push(victim) } else { removed.stay.push(victim) }
    }
    removed
}

/// Removes entries that are not in use; returns those that are gone, and has each accounted by `note_gone`. None of them is on the disks
/// `without`. Blocking.
pub(crate) fn remove_entries(
    context: &FileContext,
    table: &Arc<OpenFiles>,
    keys: impl IntoIterator<Item = CacheKey>,
    without: &BTreeSet<VolumeId>,
    note_gone: impl Fn(&CacheKey),
) -> BTreeSet<CacheKey> {
    let (Some(disk), Some(catalog)) = (&context.disk, &context.catalog) else { return BTreeSet::new() };
    let leaving = table.reserve_for_removal(keys);
    // After the reservation: no client is sent to the file from then on.
    let keys: Vec<CacheKey> = leaving.keys().iter().filter(|key| is_left_by_others(context, key)).cloned().collect();
    let results = disk.remove_entries(&keys);
    let mut went = BTreeSet::new();
    // A disk that is offline was passed over, and its entries come back with it.
    let is_disk_lost = !offline_disks(context).is_subset(without);
    for (key, result) in keys.into_iter().zip(results) {
        match result {
            // It may be on that disk. If not, it is picked again.
            Ok(()) if is_disk_lost => {}
            Ok(()) => {
                // After the removal: the accounts must not forget bytes that are still on disk.
                note_gone(&key);
                catalog.note_removed(&key);
                went.insert(key);
            }
            Err(error) => context.note_store_failure(DiskOperation::Remove, None, &error),
        }
    }
    went
}

/// Whether no client is known to read the file of an entry directly; from now on none is sent there either.
/// Blocking.
pub(crate) fn is_left_by_others(context: &FileContext, key: &CacheKey) -> bool {
    let options = &context.options;
    if !options.honours_access_times {
        return true;
    }
    let Some(disk) = &context.disk else { return true };
    let lease = i64::try_from(options.direct_lease.as_secs()).unwrap_or(i64::MAX);
    let closed = disk.close_to_others(key, forebay_net::clock::now_unix().saturating_sub(lease));
    // A file whose times cannot be read cannot be read by others either.
    closed.unwrap_or(true)
}

/// The victims with their keys; `None` when the index cannot be read.
pub(crate) fn names(index: &Index, victims: &[Victim]) -> Option<Vec<(Victim, Option<CacheKey>)>> {
    let ids: Vec<_> = victims.iter().map(|victim| victim.id).collect();
    let keys = index.keys(&ids).ok()?;
    Some(victims.iter().copied().zip(keys).collect())
}

const fn stay(victims: Vec<Victim>) -> Removed {
    Removed { gone: Vec::new(), stay: victims }
}
