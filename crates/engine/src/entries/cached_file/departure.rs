//! The way of a file out of the table, and out of the cache.

use super::CachedFile;
use crate::{Error, entries::stored_entry::StoredEntry};
use forebay_index::Change;
use forebay_store::StoreError;
use forebay_telemetry::{DiskOperation, DropReason};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Failed syncs in a row after which a file that no client has open is closed: the unrecorded blocks are fetched again. Otherwise
/// every file opened while the disk is full would stay open itself.
const SYNC_ATTEMPTS_MAX: u32 = 5;

/// How long an open waits for the fills of the retired file of the same name: an origin that hangs delays no other open.
const FILLS_WAIT_MAX: Duration = Duration::from_secs(10);

impl CachedFile {
    /// The same file, which is not kept only because the disks take nothing now.
    pub(crate) fn for_now(self) -> Self {
        Self { is_unkept_for_now: true, ..self }
    }

    /// Whether it is not kept only because the disks took nothing when it was opened.
    pub(crate) const fn is_unkept_for_now(&self) -> bool {
        self.is_unkept_for_now
    }

    /// Whether another open may find a disk that keeps it.
    pub(crate) fn may_be_kept_by_now(&self) -> bool {
        self.is_unkept_for_now && !self.is_open() && !self.context.pauses.are_all_on()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.users() > 0
    }

    pub(crate) fn users(&self) -> u64 {
        self.users.load(Ordering::Acquire)
    }

    /// Whether the file may leave the table: no client has it open, and all of it that is to be on disk is there, or cannot be
    /// brought there. A retired file may leave once it is off the disk, even while clients have it open.
    pub(crate) fn is_idle(&self) -> bool {
        // The record comes last: the last client changes it when it leaves.
        let is_done = |stored: &StoredEntry| {
            let record = stored.record.lock();
            // A record that is being written since the file was closed before must not meet the one that is written next.
            !stored.sync_turn.is_locked() && (record.is_clean() || record.failed_syncs >= SYNC_ATTEMPTS_MAX)
        };
        if self.is_retired() {
            return self.discarded.is_set();
        }
        !self.is_open()
            && !self.read_ahead.is_completing()
            && self.claims.is_empty()
            && self.stored.as_ref().is_none_or(is_done)
    }

    pub(crate) fn is_disk_online(&self) -> bool {
        let disk = self.context.disk.as_ref().zip(self.volume());
        disk.is_some_and(|(disk, volume)| disk.is_online(volume))
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.is_set()
    }

    /// Takes the file out of the cache; clients that have it open continue to read the blocks that are there.
    pub(crate) fn retire(self: &Arc<Self>, reason: DropReason) {
        // A retired file that is unchanged at its origin is still served from there to its readers.
        let is_outdated = matches!(reason, DropReason::Changed | DropReason::Gone);
        if is_outdated && self.stored.is_some() {
            self.is_outdated.store(true, Ordering::Release);
        }
        // Several tasks may find the same fault: the first one drops the file.
        if !self.retired.set() {
            // The removal of the entry may hang there.
            if reason == DropReason::DiskOffline {
                if !self.discarded.is_set() {
                    // Set once: by the removal, if that has failed.
                    let _ = self.not_removed.set(self.disk_is_offline());
                }
                self.lose();
            }
            return;
        }
        tracing::warn!(lfn = self.lfn().as_str(), reason = reason.as_str(), "dropping a file from the cache");
        self.context.metrics.add_file_dropped(reason);
        if self.stored.is_some() {
            // A file that is not kept has no mark: opened again it might be another content.
            self.close_at_origin();
        }
        // There is no disk to remove anything from: waiting for it could take for ever.
        if reason == DropReason::DiskOffline {
            self.lose();
            return;
        }
        // In a task of its own: the caller may be a reader, which must not wait for the disk.
        let file = Arc::clone(self);
        tokio::spawn(async move {
            let discarding = Arc::clone(&file);
            let discarded = file.context.options.workers.run(move || discarding.discard_on_disk(reason)).await;
            let discarded = discarded.unwrap_or_else(|_| {
                tracing::error!(lfn = file.lfn().as_str(), "dropping a file from the cache broke off");
                Err(Error::Internal { what: "dropping a file from the cache broke off" })
            });
            if let Err(error) = discarded {
                // Set once: a file is discarded once.
                let _ = file.not_removed.set(error);
            }
            // The fills have it open at the origin, and an open of its name there leads to the same file again.
            if is_outdated && tokio::time::timeout(FILLS_WAIT_MAX, file.claims.all_released()).await.is_err() {
                tracing::warn!(lfn = file.lfn().as_str(), "a dropped file is still being fetched");
            }
            file.discarded.set();
        });
    }

    fn disk_is_offline(&self) -> Error {
        Error::disk(self.lfn(), "removing", StoreError::Offline { path: self.path_on_disk() })
    }

    /// Gives up what is on a disk that is gone. The entry stays there, to be found again when the disk comes back.
    fn lose(&self) {
        if let Some(stored) = &self.stored {
            // Sealed first: a creation under way must not add a file after the blocks are forgotten.
            stored.seal();
            stored.forget_all();
        }
        // After the blocks are forgotten: those who wait for checks plan again.
        self.lost.set();
        self.claims.give_up_checks();
        self.discarded.set();
    }

    /// Waits until the file's disk is gone.
    pub(crate) async fn lost(&self) {
        self.lost.wait().await;
    }

    pub(crate) async fn retired(&self) {
        self.retired.wait().await;
    }

    /// Waits until a retired file is off the disk; an outdated one also until its fills have ended.
    ///
    /// # Errors
    /// When its entry could not be removed, and is still there.
    pub(crate) async fn discarded(&self) -> Result<(), Error> {
        self.discarded.wait().await;
        self.not_removed.get().cloned().map_or(Ok(()), Err)
    }

    fn discard_on_disk(&self, reason: DropReason) -> Result<(), Error> {
        let (Some(stored), Some(key), Some(disk)) = (&self.stored, self.key(), &self.context.disk) else {
            return Ok(());
        };
        // A creation under way would otherwise put the entry back after its removal.
        stored.seal_and_wait();
        // Notes of the entry made until now come before the note of its end, and none comes after it.
        drop(stored.noting.lock());
        let removed = disk.remove_entry(key);
        // Its disk was given up meanwhile, and this may have ended late: what is noted now could be about a successor on another disk.
        if self.lost.is_set() {
            return Ok(());
        }
        // It was passed over: the entry comes back with its disk.
        if !self.is_disk_online() {
            return Err(self.disk_is_offline());
        }
        if let Err(error) = removed {
            self.context.note_store_failure(DiskOperation::Remove, self.volume(), &error);
            // Still accounted and still in the index: its bytes are on disk as before.
            return Err(Error::disk(self.lfn(), "removing", error));
        }
        self.context.purge_ledger.note_gone(key);
        if let Some(catalog) = &self.context.catalog {
            match reason {
                DropReason::Changed => catalog.note(key, Change::outdated()),
                _ => catalog.note_removed(key),
            }
        }
        Ok(())
    }
}
