//! The table of files that are open, or wait for their last sync.

use crate::{
    Error,
    entries::{cached_file::CachedFile, closed_files::ClosedFiles},
};
use forebay_cache::CacheKey;
use forebay_origin::SharedValue;
use forebay_telemetry::DropReason;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// Files by cache key. Clients that open one file at the same time share one load.
pub(crate) struct OpenFiles {
    slots: Mutex<BTreeMap<CacheKey, Slot>>,
    /// Keys without a slot, whose entries are being removed. Changes under the lock of the slots.
    reserved: Mutex<BTreeSet<CacheKey>>,
    files_max: usize,
    wait_max: Duration,
    /// Files that were in the table before. Changes under the lock of the slots, where a file goes from one to the other.
    closed: Arc<ClosedFiles>,
    /// Notified whenever files have left the table, or entries the disk.
    room: Notify,
}

pub(crate) enum Retired {
    /// The table does not have it.
    NotThere,
    /// A client has it open, or is about to.
    InUse,
    /// It is, from now on.
    Now(Arc<CachedFile>),
}

type Slot = Arc<SharedValue<Arc<CachedFile>, Error>>;

impl OpenFiles {
    /// A table of at most `files_max` files; an open of one more waits for room, for `wait_max` at most.
    pub(crate) fn new(files_max: usize, wait_max: Duration, closed: Arc<ClosedFiles>) -> Self {
        Self {
            slots: Mutex::new(BTreeMap::new()),
            reserved: Mutex::new(BTreeSet::new()),
            files_max,
            wait_max,
            closed,
            room: Notify::new(),
        }
    }

    /// The file of `key`, attached for one more client. When the table does not have it, `reopen` makes it at once, or else `load`;
    /// `admit` says whether the client may have it. When `admit` retires it, it is loaded again.
    ///
    /// A load continues when its client leaves: a second one never meets the rest of it on the disk.
    pub(crate) async fn attach<R, L, F, A, B>(
        &self,
        key: &CacheKey,
        reopen: R,
        load: L,
        admit: A,
    ) -> Result<Arc<CachedFile>, Error>
    where
        R: Fn() -> Option<Arc<CachedFile>>,
        L: Fn() -> F,
        F: Future<Output = Result<Arc<CachedFile>, Error>> + Send + 'static,
        A: Fn(Arc<CachedFile>) -> B,
        B: Future<Output = Result<(), Error>>,
    {
        loop {
            let slot = self.slot_when_room(key).await?;
            // Only now that the table has a slot for it: the entry is not removed any more.
            slot.make_at_once(&reopen);
            let loaded = slot.get_or_make(|_| true, &load).await;
            let file = match loaded.unwrap_or(Err(Error::Internal { what: "opening a file broke off" })) {
                Ok(file) => file,
                Err(error) => {
                    // A failed load must not stay: the next open tries again.
                    self.forget_failed(key, &slot);
                    return Err(error);
                }
            };
            if !file.is_retired() {
                admit(Arc::clone(&file)).await?;
            }
            // Checked again after the admission, which may have found the file changed.
            if file.is_retired() {
                // Its disk entry has to be gone first: the new load would find the old blocks.
                file.discarded().await;
                remove_exactly(&mut self.slots.lock(), &file);
                continue;
            }
            // Under the table's lock, so that a file is never attached to while it is taken out.
            let slots = self.slots.lock();
            // The slot may have been taken out or replaced while the admission waited: then all begins again.
            if slots.get(key).is_some_and(|current| Arc::ptr_eq(current, &slot)) {
                file.attach();
                return Ok(file);
            }
        }
    }

    /// The file of `key`, if it is in the table and loaded.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<Arc<CachedFile>> {
        let slot = self.slots.lock().get(key).cloned()?;
        slot.get().filter(|file| !file.is_retired())
    }

    /// Every loaded file. Slots whose load was given up by all waiting clients are dropped on the way.
    pub(crate) fn files(&self) -> Vec<Arc<CachedFile>> {
        let mut slots = self.slots.lock();
        // A slot that only the table owns and that has no file belongs to a load that was given up.
        slots.retain(|_, slot| slot.get().is_some() || Arc::strong_count(slot) > 1);
        slots.values().filter_map(|slot| slot.get()).collect()
    }

    /// Takes a file out, unless a client has it open or is about to, or a part of it is not synced yet.
    pub(crate) fn remove_if_idle(&self, file: &Arc<CachedFile>) {
        let mut slots = self.slots.lock();
        // A second owner is an open that waits in the slot and is about to attach.
        let is_awaited = file.key().and_then(|key| slots.get(key)).is_some_and(|slot| Arc::strong_count(slot) > 1);
        if !is_awaited && file.is_idle() {
            // The trust is remembered first: the next open must find it, or checks all blocks again.
            file.remember_trust();
            let was_there = remove_exactly(&mut slots, file);
            // Under the table's lock: an open that comes next must find it in one of both.
            if was_there && let Some((key, closed)) = file.key().zip(file.closed()) {
                self.closed.insert(key, closed);
            }
            self.room.notify_waiters();
        }
    }

    /// Those of `keys` that could be reserved for removal.
    pub(crate) fn unused<'k>(&self, keys: impl IntoIterator<Item = &'k CacheKey>) -> BTreeSet<&'k CacheKey> {
        let slots = self.slots.lock();
        let reserved = self.reserved.lock();
        let is_free = |key: &&CacheKey| slots.get(*key).is_none_or(is_unused) && !reserved.contains(*key);
        keys.into_iter().filter(is_free).collect()
    }

    /// Reserves entries for removal: all of `keys` except those that a client has open or opens, that are filled, not synced yet, or
    /// are being removed already.
    pub(crate) fn reserve_for_removal(self: &Arc<Self>, keys: impl IntoIterator<Item = CacheKey>) -> RemovalGuard {
        let mut slots = self.slots.lock();
        let mut reserved = self.reserved.lock();
        let mut taken = Vec::new();
        for key in keys {
            if slots.get(&key).is_none_or(is_unused) && reserved.insert(key.clone()) {
                slots.remove(&key);
                self.closed.take(&key);
                taken.push(key);
            }
        }
        // Released before the guard is made: dropping a guard locks both again.
        drop((reserved, slots));
        RemovalGuard::new(Arc::clone(self), taken)
    }

    /// Opens may come again: entries are gone.
    pub(crate) fn release(&self, keys: &[CacheKey]) {
        let slots = self.slots.lock();
        let mut reserved = self.reserved.lock();
        for key in keys {
            reserved.remove(key);
        }
        // Released before the notification: the opens that wake up take these locks.
        drop((reserved, slots));
        self.room.notify_waiters();
    }

    /// Retires the loaded file of `key`, unless a client has it open or is about to; `force` retires it anyway.
    pub(crate) fn retire(&self, key: &CacheKey, force: bool) -> Retired {
        let slots = self.slots.lock();
        let Some(slot) = slots.get(key) else { return Retired::NotThere };
        let Some(file) = slot.get().filter(|file| force || (Arc::strong_count(slot) == 1 && !file.is_open())) else {
            return Retired::InUse;
        };
        file.retire(DropReason::Evicted);
        Retired::Now(file)
    }

    /// Forgets every file, so that their descriptors are closed.
    pub(crate) fn clear(&self) {
        self.slots.lock().clear();
    }

    /// The slot of `key`, as soon as there is room for it.
    async fn slot_when_room(&self, key: &CacheKey) -> Result<Slot, Error> {
        let deadline = tokio::time::Instant::now() + self.wait_max;
        loop {
            let mut room = pin!(self.room.notified());
            // Registered before the look: room that is made in between wakes this open.
            room.as_mut().enable();
            if let Some(slot) = self.slot(key) {
                return Ok(slot);
            }
            if tokio::time::timeout_at(deadline, room).await.is_err() {
                // The reason decides the error: a removal that hangs is not a full table.
                if self.reserved.lock().contains(key) {
                    return Err(Error::BeingRemoved { seconds: self.wait_max.as_secs() });
                }
                return Err(Error::TooManyOpen { limit: self.files_max });
            }
        }
    }

    /// The slot of `key`; `None` when its entry is being removed, or it is not there and there is no room for it.
    fn slot(&self, key: &CacheKey) -> Option<Slot> {
        let mut slots = self.slots.lock();
        // Checked before the table: a reserved key has no slot until its entry is gone.
        if self.reserved.lock().contains(key) {
            return None;
        }
        let has_room = slots.len() < self.files_max;
        match slots.entry(key.clone()) {
            Entry::Occupied(entry) => Some(Arc::clone(entry.get())),
            Entry::Vacant(entry) => has_room.then(|| Arc::clone(entry.insert(Slot::default()))),
        }
    }

    /// Frees the slot of a failed load, unless another client is about to try again in it.
    fn forget_failed(&self, key: &CacheKey, slot: &Slot) {
        let mut slots = self.slots.lock();
        // Two owners: the table and the caller. (The load let go of it when it ended.)
        let unused = slot.get().is_none() && Arc::strong_count(slot) <= 2;
        if unused && slots.get(key).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(key);
            self.room.notify_waiters();
        }
    }
}

/// Whether no client has the file of a slot open or opens it, and nothing of it remains to be written.
fn is_unused(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1 && slot.get().is_none_or(|file| file.is_idle())
}

/// Takes a file out; false when it was not there.
fn remove_exactly(slots: &mut BTreeMap<CacheKey, Slot>, file: &Arc<CachedFile>) -> bool {
    let Some(key) = file.key() else { return false };
    let is_there = slots.get(key).and_then(|slot| slot.get()).is_some_and(|current| Arc::ptr_eq(&current, file));
    if is_there {
        slots.remove(key);
    }
    is_there
}

/// Keys whose entries are being removed; opens of them wait until this is dropped.
pub(crate) struct RemovalGuard {
    open_files: Arc<OpenFiles>,
    keys: Vec<CacheKey>,
}

impl RemovalGuard {
    pub(crate) const fn new(open_files: Arc<OpenFiles>, keys: Vec<CacheKey>) -> Self {
        Self { open_files, keys }
    }

    /// Keys that may be removed: those in use are not among them.
    pub(crate) fn keys(&self) -> &[CacheKey] {
        &self.keys
    }
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        self.open_files.release(&self.keys);
    }
}
