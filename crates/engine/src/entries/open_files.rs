//! The table of files that are open, or wait for their last sync.

use crate::{
    Error,
    base::shards::{SHARDS, Shards},
    entries::{cached_file::CachedFile, closed_files::ClosedFiles, left_files::LeftFiles},
};
use forebay_cache::CacheKey;
use forebay_origin::SharedValue;
use forebay_telemetry::DropReason;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    future::Future,
    hash::{BuildHasherDefault, DefaultHasher},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};
use tokio::sync::Notify;

/// Files by cache key. Clients that open one file at the same time share one load.
pub(crate) struct OpenFiles {
    parts: Shards<Mutex<Part>>,
    /// Slots of all parts.
    slots: AtomicUsize,
    files_max: usize,
    wait_max: Duration,
    /// Files that were in the table before. Changes under the lock of a part, where a file goes from one to the other.
    closed: Arc<ClosedFiles>,
    /// Notified whenever files have left the table, or entries the disk.
    room: Notify,
    /// Opens that wait for that: without any, a close spares itself the lock of the notification.
    waiting: AtomicUsize,
}

/// The files of some of the keys. Nothing slow is done while it is locked: opens and closes of other files need it.
#[derive(Default)]
struct Part {
    slots: Slots,
    /// Keys without a slot, whose entries are being removed.
    reserved: BTreeSet<CacheKey>,
    /// Files that their last client has left a moment ago.
    left: LeftFiles,
}

/// In an order that is the same in each run, as simulations need it.
type Slots = HashMap<CacheKey, Slot, BuildHasherDefault<DefaultHasher>>;

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
            parts: Shards::new(SHARDS, Mutex::default),
            slots: AtomicUsize::new(0),
            files_max,
            wait_max,
            closed,
            room: Notify::new(),
            waiting: AtomicUsize::new(0),
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
        let mut has_looked_again = false;
        loop {
            let slot = self.slot_when_room(key).await?;
            let was_loaded = slot.get().is_some();
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
            // Once, and not after a load of its own: it may be that the disks take nothing this time either.
            if was_loaded && !has_looked_again && file.may_be_kept_by_now() {
                has_looked_again = true;
                drop(slot);
                self.remove_idle(&[file]);
                continue;
            }
            if !file.is_retired() {
                admit(Arc::clone(&file)).await?;
            }
            // Checked again after the admission, which may have found the file changed.
            if file.is_retired() {
                // Its disk entry has to be gone first: the new load would find the old blocks.
                let discarded = file.discarded().await;
                self.remove_exactly(&mut self.part(key), key, &file);
                if let Err(error) = discarded {
                    self.notify_room();
                    // A new load does not look for it on a disk that is gone.
                    if file.is_disk_online() {
                        return Err(error);
                    }
                }
                continue;
            }
            // Under the table's lock, so that a file is never attached to while it is taken out.
            let part = self.part(key);
            // The slot may have been taken out or replaced while the admission waited: then all begins again.
            if part.slots.get(key).is_some_and(|current| Arc::ptr_eq(current, &slot)) {
                file.attach();
                return Ok(file);
            }
        }
    }

    /// The file of `key`, if it is in the table and loaded.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<Arc<CachedFile>> {
        let slot = self.part(key).slots.get(key).cloned()?;
        slot.get().filter(|file| !file.is_retired())
    }

    /// Every loaded file, in no order. Slots whose load was given up by all waiting clients are dropped on the way.
    pub(crate) fn files(&self) -> Vec<Arc<CachedFile>> {
        let mut files = Vec::with_capacity(self.slots.load(SeqCst));
        for part in self.parts.iter() {
            let mut part = part.lock();
            let before = part.slots.len();
            // A slot that only the table owns and that has no file belongs to a load that was given up.
            part.slots.retain(|_, slot| slot.get().is_some() || Arc::strong_count(slot) > 1);
            let given_up = before - part.slots.len();
            self.slots.fetch_sub(given_up, SeqCst);
            files.extend(part.slots.values().filter_map(|slot| slot.get()));
            drop(part);
            if given_up > 0 {
                self.notify_room();
            }
        }
        files
    }

    /// Takes those of `files` out that no client has open or is about to, and no part of which is still to be synced.
    pub(crate) fn remove_idle(&self, files: &[Arc<CachedFile>]) {
        let removed = files.iter().filter(|file| self.remove_if_idle(file)).count();
        if removed > 0 {
            self.notify_room();
        }
    }

    /// The last client of a file has closed it. Takes another one out that was left before, if there are many.
    pub(crate) fn note_left(&self, file: &CachedFile) {
        let Some(key) = file.key() else { return };
        let first = {
            let mut part = self.part(key);
            let mention = part.left.mention(key, file.left_mention.load(Relaxed));
            file.left_mention.store(mention, Relaxed);
            let surplus = part.left.pop_surplus();
            let file = surplus.and_then(|(mention, key)| Some((mention, part.slots.get(&key)?.get()?)));
            // Loaded again since: another mention is its last one.
            file.filter(|(mention, file)| file.left_mention.load(Relaxed) == *mention).map(|(_, file)| file)
        };
        if let Some(first) = first {
            self.remove_idle(&[first]);
        }
    }

    fn notify_room(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.room.notify_waiters();
        }
    }

    fn remove_if_idle(&self, file: &Arc<CachedFile>) -> bool {
        let Some(key) = file.key() else { return false };
        if !file.is_idle() {
            return false;
        }
        // Without the lock, because it takes long: it counts only if nothing has changed since.
        let version = file.record_version();
        let closed = file.closed();
        // The trust is remembered first: the next open must find it, or checks all blocks again.
        file.remember_trust();
        let mut part = self.part(key);
        // A second owner is an open that waits in the slot and is about to attach.
        let is_its = |slot: &Slot| Arc::strong_count(slot) == 1 && slot.get().is_some_and(|it| Arc::ptr_eq(&it, file));
        let is_other = file.record_version() != version || (closed.is_some() && file.is_retired());
        if !part.slots.get(key).is_some_and(is_its) || is_other || !file.is_idle() {
            return false;
        }
        self.remove(&mut part, key);
        // Under the table's lock: an open that comes next must find it in one of both.
        if let Some(closed) = closed {
            self.closed.insert(key, closed);
        }
        true
    }

    /// Those of `keys` that could be reserved for removal.
    pub(crate) fn unused<'k>(&self, keys: impl IntoIterator<Item = &'k CacheKey>) -> BTreeSet<&'k CacheKey> {
        keys.into_iter().filter(|key| self.part(key).is_free(key)).collect()
    }

    /// Reserves entries for removal: all of `keys` except those that a client has open or opens, that are filled, not synced yet, or
    /// are being removed already.
    pub(crate) fn reserve_for_removal(self: &Arc<Self>, keys: impl IntoIterator<Item = CacheKey>) -> RemovalGuard {
        let mut taken = Vec::new();
        for key in keys {
            let mut part = self.part(&key);
            if part.is_free(&key) {
                part.reserved.insert(key.clone());
                self.remove(&mut part, &key);
                self.closed.take(&key);
                drop(part);
                taken.push(key);
            }
        }
        RemovalGuard::new(Arc::clone(self), taken)
    }

    /// Opens may come again: entries are gone.
    pub(crate) fn release(&self, keys: &[CacheKey]) {
        for key in keys {
            self.part(key).reserved.remove(key);
        }
        self.notify_room();
    }

    /// Retires the loaded file of `key`, unless a client has it open or is about to; `force` retires it anyway.
    pub(crate) fn retire(&self, key: &CacheKey, force: bool) -> Retired {
        let part = self.part(key);
        let Some(slot) = part.slots.get(key) else { return Retired::NotThere };
        let Some(file) = slot.get().filter(|file| force || (Arc::strong_count(slot) == 1 && !file.is_open())) else {
            return Retired::InUse;
        };
        file.retire(DropReason::Evicted);
        Retired::Now(file)
    }

    /// Forgets every file, so that their descriptors are closed.
    pub(crate) fn clear(&self) {
        for part in self.parts.iter() {
            let slots = std::mem::take(&mut part.lock().slots);
            self.slots.fetch_sub(slots.len(), SeqCst);
        }
    }

    fn part(&self, key: &CacheKey) -> MutexGuard<'_, Part> {
        self.parts.of(key).lock()
    }

    /// The slot of `key`, as soon as there is room for it.
    async fn slot_when_room(&self, key: &CacheKey) -> Result<Slot, Error> {
        // Mostly there is room: waiting for it begins with a lock that all opens share.
        if let Some(slot) = self.slot(key) {
            return Ok(slot);
        }
        let deadline = tokio::time::Instant::now() + self.wait_max;
        // Before the next look: a file that leaves after it finds this open waiting.
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let mut room = pin!(self.room.notified());
            // Registered before the look: room that is made in between wakes this open.
            room.as_mut().enable();
            if let Some(slot) = self.slot(key) {
                return Ok(slot);
            }
            if tokio::time::timeout_at(deadline, room).await.is_err() {
                // The reason decides the error: a removal that hangs is not a full table.
                if self.part(key).reserved.contains(key) {
                    return Err(Error::BeingRemoved { seconds: self.wait_max.as_secs() });
                }
                return Err(Error::TooManyOpen { limit: self.files_max });
            }
        }
    }

    /// The slot of `key`; `None` when its entry is being removed, or it is not there and there is no room for it.
    fn slot(&self, key: &CacheKey) -> Option<Slot> {
        let mut part = self.part(key);
        // Checked before the table: a reserved key has no slot until its entry is gone.
        if part.reserved.contains(key) {
            return None;
        }
        match part.slots.entry(key.clone()) {
            Entry::Occupied(entry) => Some(Arc::clone(entry.get())),
            Entry::Vacant(entry) => self.take_room().then(|| Arc::clone(entry.insert(Slot::default()))),
        }
    }

    /// Counts one more slot, unless there are as many as there may be.
    fn take_room(&self) -> bool {
        let one_more = |slots: usize| (slots < self.files_max).then_some(slots + 1);
        self.slots.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    fn remove(&self, part: &mut Part, key: &CacheKey) {
        if part.slots.remove(key).is_some() {
            self.slots.fetch_sub(1, SeqCst);
        }
    }

    /// Takes a file out; false when it was not there.
    fn remove_exactly(&self, part: &mut Part, key: &CacheKey, file: &Arc<CachedFile>) -> bool {
        let current = part.slots.get(key).and_then(|slot| slot.get());
        let is_there = current.is_some_and(|current| Arc::ptr_eq(&current, file));
        if is_there {
            self.remove(part, key);
        }
        is_there
    }

    /// Frees the slot of a failed load, unless another client is about to try again in it.
    fn forget_failed(&self, key: &CacheKey, slot: &Slot) {
        let mut part = self.part(key);
        // Two owners: the table and the caller. (The load let go of it when it ended.)
        let unused = slot.get().is_none() && Arc::strong_count(slot) <= 2;
        if unused && part.slots.get(key).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            self.remove(&mut part, key);
            self.notify_room();
        }
    }
}

impl Part {
    /// Whether an entry may be removed.
    fn is_free(&self, key: &CacheKey) -> bool {
        self.slots.get(key).is_none_or(is_unused) && !self.reserved.contains(key)
    }
}

/// An open that waits for room, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Whether no client has the file of a slot open or opens it, and nothing of it remains to be written.
fn is_unused(slot: &Slot) -> bool {
    Arc::strong_count(slot) == 1 && slot.get().is_none_or(|file| file.is_idle())
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
