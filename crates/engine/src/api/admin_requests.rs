//! Requests of administrators to the purge and to the scrub.

use crate::{
    Engine, Error, ScrubState,
    accounting::purge_ledger::{DiskUse, Evicted, PurgeReport, QuotaUse, Usage},
    entries::open_files::Retired,
    upkeep::removal::is_left_by_others,
};
use forebay_cache::{CacheKey, Footprint, headroom, plan_purge_to};
use forebay_index::Change;
use forebay_store::{Disk, StoreError, VolumeId};
use forebay_types::{Lfn, PurgeReason, Share};
use std::sync::Arc;

impl Engine {
    /// Removes entries until `fraction` (0 to 1) of what they use now remains. A `dry_run` only reports what would go.
    ///
    /// # Errors
    /// When the fraction is out of range, or the index is not in use.
    pub async fn purge_to(&self, fraction: f64, dry_run: bool) -> Result<PurgeReport, Error> {
        let share = Share::of_fraction(fraction)
            .ok_or_else(|| Error::Unsupported { what: format!("a purge to {fraction} of what is used") })?;
        let context = self.context();
        let purge_ledger = &context.purge_ledger;
        // Without an index no victim can be picked.
        context.catalog.as_ref().and_then(|catalog| catalog.index()).ok_or(Error::NoIndex)?;
        let goals = plan_purge_to(share, &purge_ledger.ledger.lock());
        let purge = &self.inner.purge;
        Ok(if dry_run { purge.preview(&goals).await } else { purge.purge(&goals).await })
    }

    /// Removes an entry, unless a client has it open or it is pinned. With `force` it is removed in any case: a client that has the file open
    /// continues to read the blocks that were there.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn evict(&self, key: &CacheKey, force: bool) -> Result<Evicted, Error> {
        let context = self.context();
        let pinned_until = match &context.catalog {
            // With `force` the pin is not even read: it would not count.
            Some(catalog) if !force => catalog.record(key).await.flatten().and_then(|record| record.pinned_until),
            _ => None,
        };
        if pinned_until.is_some_and(|until| until > forebay_net::clock::now_unix()) {
            return Ok(Evicted::Pinned);
        }
        if !force && context.options.honours_access_times {
            // Looked at first: what stays is not closed to others.
            if self.inner.open_files.find(key).is_some_and(|file| file.is_open()) {
                return Ok(Evicted::Open);
            }
            let looking = Arc::clone(context);
            let key = key.clone();
            let looked = context.options.workers.run(move || is_left_by_others(&looking, &key)).await;
            if !looked.unwrap_or(false) {
                return Ok(Evicted::Open);
            }
        }
        // An open file is retired in its shared state, so that its fills and syncs stop first.
        let evicted = match self.inner.open_files.retire(key, force) {
            Retired::InUse => {
                // It was closed to others above, and stays: it may be opened to them again.
                let file = if force { None } else { self.inner.open_files.find(key) };
                if let Some(stored) = file.as_ref().and_then(|file| file.stored.as_ref()) {
                    stored.note_closed_to_others();
                }
                Evicted::Open
            }
            Retired::Now(file) => {
                let bytes = file.stored.as_ref().map_or(0, |stored| stored.map.written_bytes());
                // Waits for the disk: the answer means that the space is free.
                file.discarded().await?;
                Evicted::Removed { bytes }
            }
            Retired::NotThere => self.remove_unused(key).await?,
        };
        // The commit makes the removal known to the accounts before the answer.
        if let Evicted::Removed { bytes } = evicted {
            if let Some(catalog) = &context.catalog {
                // The accounts follow the index.
                catalog.commit().await;
            }
            self.metrics().add_purged(PurgeReason::Evicted, Footprint::of_entry(bytes).bytes);
        }
        Ok(evicted)
    }

    /// Keeps an entry from being purged until `until`, in seconds of the Unix epoch; false when there is no such entry.
    ///
    /// # Errors
    /// When the index is not in use.
    pub async fn pin(&self, key: &CacheKey, until: i64) -> Result<bool, Error> {
        self.set_pin(key, Some(until)).await
    }

    /// Ends the pin of an entry; false when there is no such entry.
    ///
    /// # Errors
    /// When the index is not in use.
    pub async fn unpin(&self, key: &CacheKey) -> Result<bool, Error> {
        self.set_pin(key, None).await
    }

    pub async fn usage(&self) -> Usage {
        let context = self.context();
        let purge_ledger = &context.purge_ledger;
        // Measured before the ledger is locked: a slow disk must not hold up writes.
        let disks = self.inner.purge.measure().await;
        let ledger = purge_ledger.ledger.lock();
        let rules = &purge_ledger.options.rules;
        let quotas = (0..).zip(&rules.quotas).map(|(number, quota)| QuotaUse {
            path: quota.path.as_str().to_owned(),
            used: ledger.quota_usage(number),
            min_bytes: quota.min_bytes,
            max_bytes: quota.max_bytes,
        });
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Usage {
            used: ledger.usage(),
            files: count(ledger.len()),
            pinned: count(ledger.pin_count()),
            headroom: headroom(rules, &disks, &ledger),
            disks: disks
                .iter()
                .map(|disk| DiskUse { volume: VolumeId(disk.disk), used: ledger.disk_usage(disk.disk) })
                .collect(),
            quotas: quotas.collect(),
        }
    }

    async fn remove_unused(&self, key: &CacheKey) -> Result<Evicted, Error> {
        let context = Arc::clone(self.context());
        let Some(disk) = context.disk.clone() else { return Ok(Evicted::NotCached) };
        let leaving = self.inner.open_files.reserve_for_removal([key.clone()]);
        let Some(key) = leaving.keys().first().cloned() else { return Ok(Evicted::Open) };
        let workers = context.options.workers.clone();
        let removed = workers.run(move || {
            // Held to the end: an open in the meantime waits, and finds the entry gone.
            let _leaving = leaving;
            let removed = remove_entry(disk.as_ref(), &key);
            if let Ok(Evicted::Removed { .. }) = removed {
                // Only after the removal has succeeded: the account must not forget bytes that are still on disk.
                context.purge_ledger.note_gone(&key);
                if let Some(catalog) = &context.catalog {
                    catalog.note_removed(&key);
                }
            }
            removed.map_err(|error| (key, error))
        });
        match removed.await {
            Ok(Ok(evicted)) => Ok(evicted),
            Ok(Err((key, error))) => Err(Error::disk(&Lfn::parse(key.as_str())?, "removing", error)),
            Err(_) => Err(Error::Internal { what: "removing an entry broke off" }),
        }
    }

    async fn set_pin(&self, key: &CacheKey, until: Option<i64>) -> Result<bool, Error> {
        // Noted, not written: the record is read back below, after its commit.
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        catalog.index().ok_or(Error::NoIndex)?;
        catalog.note(key, Change::pinned(until));
        Ok(catalog.record(key).await.ok_or(Error::NoIndex)?.is_some())
    }
}

/// Removes an entry that is not in use. Blocking.
fn remove_entry(disk: &dyn Disk, key: &CacheKey) -> Result<Evicted, StoreError> {
    // Opened for its size: the answer reports the bytes that are free now.
    let Some(entry) = disk.open_entry(key)? else { return Ok(Evicted::NotCached) };
    let bytes = entry.cinfo.present_bytes();
    disk.remove_entry(key)?;
    Ok(Evicted::Removed { bytes })
}

impl Engine {
    /// Begins a scrub, unless one is under way.
    ///
    /// # Errors
    /// When the index is not in use: it names what is to be read.
    pub fn start_scrub(&self) -> Result<(), Error> {
        // Refused now rather than never run: the scrub goes through the index.
        self.context().catalog.as_ref().and_then(|catalog| catalog.index()).ok_or(Error::NoIndex)?;
        self.inner.scrubber.request();
        Ok(())
    }

    pub fn scrub_state(&self) -> ScrubState {
        *self.inner.scrubber.state.lock()
    }
}
