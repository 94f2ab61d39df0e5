//! Records of closed files in memory, by which these are opened again without a look at the records on disk.
//!
//! A key is here or in the table of open files, never in both: an open takes it out before it loads the file, and a removal of an
//! entry off the disk, or changes its record, forgets it first. That the data file is still the one that was closed is looked at when
//! it is opened. Uses that are not on disk yet wait here, and are written for many files together.

use crate::base::shards::{SHARDS, Shards};
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{DataFile, Disk, Entry, FileState, MayWait, OriginMark, VolumeId};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

/// The facts about a file that is closed: what its record on disk says, and the uses that it does not say yet.
#[derive(Clone, Debug)]
pub(crate) struct ClosedFile {
    pub(crate) volume: VolumeId,
    pub(crate) state: FileState,
    /// The record as its bytes, which take less memory.
    pub(crate) record: Box<[u8]>,
    /// Not as its text, which would be written at each close and read at each open.
    pub(crate) mark: Option<Box<OriginMark>>,
    pub(crate) owner: Option<Box<str>>,
    /// When the first use was that is not on disk yet.
    pub(crate) used_since: Option<Instant>,
    /// Whether the last use is noted for the index.
    pub(crate) is_noted: bool,
    pub(crate) is_published: bool,
    /// Held by the writing of the record that is under way.
    pub(crate) sync_turn: Option<Arc<Mutex<()>>>,
}

/// Files that were closed, up to a limit of memory: those closed last, in each part of the table.
#[derive(Debug)]
pub(crate) struct ClosedFiles {
    /// Memory of each part.
    bytes_max: usize,
    parts: Shards<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    files: HashMap<CacheKey, Place>,
    /// By the number of their close.
    order: BTreeMap<u64, CacheKey>,
    /// Those with uses that are not on disk, by the first of them.
    unsaved: BTreeMap<(Instant, u64), CacheKey>,
    /// Those with uses that the index may not know, by the number of their close.
    unnoted: BTreeMap<u64, CacheKey>,
    closes: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Place {
    number: u64,
    file: ClosedFile,
}

/// Bytes that a file takes besides its key and its record, in the tables and in their slack.
const FILE_BYTES: usize = 2 * size_of::<Place>() + 192;

/// Least memory of a part: fewer files are not worth a part of their own.
const PART_BYTES_MIN: usize = 256 << 10;

/// How far the memory may be exceeded by files whose uses wait to be written: beyond that these are lost.
const UNSAVED_SLACK: usize = 4;

impl ClosedFile {
    /// The record, if it can be read.
    pub(crate) fn cinfo(&self) -> Option<Cinfo> {
        Cinfo::decode(&self.record).ok()
    }

    /// The entry, if its data file is known to be still the one that was closed.
    pub(crate) fn open(&self, disk: &dyn Disk, key: &CacheKey, may_wait: MayWait) -> Option<Entry> {
        let data = disk.reopen(key, self.volume, &self.state, may_wait)?;
        Some(Entry { data, cinfo: self.cinfo()?, origin: self.origin().cloned() })
    }

    fn bytes(&self, key: &CacheKey) -> usize {
        let mark = self.mark.as_ref().map_or(0, |mark| size_of::<OriginMark>() + mark.texts_len());
        let owner = self.owner.as_ref().map_or(0, |owner| owner.len());
        FILE_BYTES + key.as_str().len() + self.record.len() + mark + owner
    }
}

impl ClosedFiles {
    /// A memory of about `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let parts = Shards::new((bytes_max / PART_BYTES_MIN).min(SHARDS), Mutex::default);
        Self { bytes_max: bytes_max / parts.len(), parts }
    }

    fn part(&self, key: &CacheKey) -> MutexGuard<'_, Table> {
        self.parts.of(key).lock()
    }

    /// Puts a file here that has left the table of open files, under that table's lock.
    pub(crate) fn insert(&self, key: &CacheKey, file: ClosedFile) {
        let mut table = self.part(key);
        table.remove(key);
        table.insert(key.clone(), file);
        table.trim(self.bytes_max);
    }

    /// Takes a file out that is about to be opened, or whose entry is about to change.
    pub(crate) fn take(&self, key: &CacheKey) -> Option<ClosedFile> {
        self.part(key).remove(key)
    }

    /// The facts about a file.
    pub(crate) fn get(&self, key: &CacheKey) -> Option<ClosedFile> {
        self.part(key).files.get(key).map(|place| place.file.clone())
    }

    /// Forgets the files on a disk that is gone.
    pub(crate) fn forget_volume(&self, volume: VolumeId) {
        for part in self.parts.iter() {
            let mut table = part.lock();
            let gone = table.files.iter().filter(|(_, place)| place.file.volume == volume);
            let gone: Vec<CacheKey> = gone.map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(table.remove(key)));
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.parts.iter().for_each(|part| *part.lock() = Table::default());
    }

    /// Up to `limit` files whose uses are to be written: since `age`, or because their memory is needed. With their disks.
    pub(crate) fn due(&self, age: Duration, limit: usize) -> Vec<(CacheKey, VolumeId)> {
        let now = forebay_net::clock::monotonic();
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= age;
        let limit_of_part = limit.div_ceil(self.parts.len());
        let mut due = Vec::new();
        for part in self.parts.iter() {
            let table = part.lock();
            let old = table.unsaved.iter().take_while(|((since, _), _)| is_old(since)).map(|(_, key)| key);
            let is_too_much = table.bytes > self.bytes_max;
            let crowded = table.order.values().take(if is_too_much { limit_of_part } else { 0 });
            let keys: BTreeSet<&CacheKey> = old.chain(crowded).take(limit_of_part).collect();
            let place = |key: &CacheKey| table.files.get(key).filter(|place| place.file.used_since.is_some());
            due.extend(keys.into_iter().filter_map(|key| Some((key.clone(), place(key)?.file.volume))));
        }
        // Those of one directory together.
        due.sort_unstable();
        due
    }

    /// The file of `key`, whose record the holder of `turn` is about to write: an open in the meantime is held up at its first sync.
    pub(crate) fn begin_save(&self, key: &CacheKey, turn: &Arc<Mutex<()>>) -> Option<ClosedFile> {
        let mut table = self.part(key);
        let file = &mut table.files.get_mut(key)?.file;
        let is_free = file.sync_turn.is_none() && file.used_since.is_some();
        is_free.then(|| {
            file.sync_turn = Some(Arc::clone(turn));
            file.clone()
        })
    }

    /// The writing begun with `turn` has ended. A record that was written is noted by `note`; a file that cannot be written is forgotten.
    pub(crate) fn end_save(
        &self,
        key: &CacheKey,
        turn: &Arc<Mutex<()>>,
        is_saved: bool,
        note: impl FnOnce(&ClosedFile),
    ) {
        let mut table = self.part(key);
        let is_its = |place: &Place| place.file.sync_turn.as_ref().is_some_and(|current| Arc::ptr_eq(current, turn));
        // Opened in the meantime: what it holds is newer.
        let Some(place) = table.files.get(key).filter(|place| is_its(place)) else { return };
        if is_saved {
            // Under the lock: the note of a removal, which forgets the file first, comes after this one.
            note(&place.file);
            table.note_saved(key);
            table.trim(self.bytes_max);
        } else {
            table.remove(key);
        }
    }

    /// Has `note` note last uses for the index that it may not know, `limit` of them at most; true when it knows all of them then.
    pub(crate) fn note_some(&self, limit: usize, mut note: impl FnMut(&CacheKey, &ClosedFile)) -> bool {
        let mut noted = 0;
        for part in self.parts.iter() {
            while noted < limit {
                // Locked for one file only: opens need the table.
                let mut table = part.lock();
                let Some((_, key)) = table.unnoted.pop_first() else { break };
                table.note_told(&key, &mut note);
                noted += 1;
            }
        }
        noted < limit
    }

    /// As [`Self::note_some`], for the file of `key`.
    pub(crate) fn note_of(&self, key: &CacheKey, note: impl FnOnce(&CacheKey, &ClosedFile)) {
        let mut table = self.part(key);
        let number = table.files.get(key).map(|place| place.number);
        if number.is_some_and(|number| table.unnoted.remove(&number).is_some()) {
            table.note_told(key, note);
        }
    }
}

impl ClosedFile {
    /// Calls `note` with the facts for the index.
    pub(crate) fn tell(&self, note: impl FnOnce(forebay_store::FileIdentity, &Cinfo, Option<&OriginMark>)) {
        if let Some(cinfo) = self.cinfo() {
            note(self.state.identity, &cinfo, self.origin());
        }
    }

    /// Opens the data file, to keep it from being another one while its record is written. Blocking.
    pub(crate) fn open_data(&self, disk: &dyn Disk, key: &CacheKey) -> Option<Arc<dyn DataFile>> {
        disk.reopen(key, self.volume, &self.state, MayWait::Yes)
    }

    pub(crate) fn origin(&self) -> Option<&OriginMark> {
        self.mark.as_deref()
    }
}

impl Table {
    fn insert(&mut self, key: CacheKey, file: ClosedFile) {
        let number = self.closes;
        self.closes += 1;
        self.bytes += file.bytes(&key);
        self.order.insert(number, key.clone());
        if let Some(since) = file.used_since {
            self.unsaved.insert((since, number), key.clone());
        }
        if !file.is_noted {
            self.unnoted.insert(number, key.clone());
        }
        self.files.insert(key, Place { number, file });
    }

    fn remove(&mut self, key: &CacheKey) -> Option<ClosedFile> {
        let Place { number, file } = self.files.remove(key)?;
        self.bytes -= file.bytes(key);
        self.order.remove(&number);
        if let Some(since) = file.used_since {
            self.unsaved.remove(&(since, number));
        }
        self.unnoted.remove(&number);
        Some(file)
    }

    fn note_saved(&mut self, key: &CacheKey) {
        let Some(Place { number, file }) = self.files.get_mut(key) else { return };
        file.sync_turn = None;
        file.is_noted = true;
        if let Some(since) = file.used_since.take() {
            self.unsaved.remove(&(since, *number));
        }
        self.unnoted.remove(number);
    }

    fn note_told(&mut self, key: &CacheKey, note: impl FnOnce(&CacheKey, &ClosedFile)) {
        if let Some(Place { file, .. }) = self.files.get_mut(key) {
            file.is_noted = true;
            note(key, file);
        }
    }

    /// Forgets those closed first until the rest takes no more than `bytes_max`, or has uses that wait to be written.
    fn trim(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some((_, key)) = self.order.first_key_value()
        {
            let is_unsaved = self.files.get(key).is_some_and(|place| place.file.used_since.is_some());
            if is_unsaved && self.bytes <= bytes_max + bytes_max / UNSAVED_SLACK {
                break;
            }
            let key = key.clone();
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{ChecksumState, Geometry};
    use forebay_store::FileIdentity;
    use forebay_types::BlockSize;

    fn key(number: u64) -> CacheKey {
        CacheKey::from_text(&format!("/d/{number:04}")).unwrap()
    }

    fn file(used_since: Option<Instant>) -> ClosedFile {
        let geometry = Geometry::of_new_file(BlockSize::DEFAULT, 1000).unwrap();
        let mut record = Vec::new();
        Cinfo::new(geometry, 7, ChecksumState::Net).encode(&mut record);
        ClosedFile {
            volume: VolumeId(0),
            state: FileState { identity: FileIdentity { device: 1, inode: 2 }, len: 3, modified: (4, 5) },
            record: record.into(),
            mark: None,
            owner: None,
            used_since,
            is_noted: used_since.is_none(),
            is_published: false,
            sync_turn: None,
        }
    }

    fn now() -> Instant {
        forebay_net::clock::monotonic()
    }

    fn keys(files: Vec<(CacheKey, VolumeId)>) -> BTreeSet<CacheKey> {
        files.into_iter().map(|(key, _)| key).collect()
    }

    /// A memory for a hundred of these files, which is one part.
    fn memory() -> ClosedFiles {
        let files = ClosedFiles::new(100 * file(None).bytes(&key(0)));
        assert_eq!(files.parts.len(), 1);
        files
    }

    #[test]
    fn those_closed_first_are_forgotten_first() {
        let files = memory();
        for number in 0..150 {
            files.insert(&key(number), file(None));
            // Opened and closed all the time.
            let used = files.take(&key(0)).unwrap();
            files.insert(&key(0), used);
        }
        let table = files.part(&key(0));
        assert_eq!((table.files.len(), table.order.len()), (100, 100));
        assert!(table.files.contains_key(&key(0)) && table.files.contains_key(&key(149)));
        assert!(!table.files.contains_key(&key(1)));
    }

    #[test]
    fn uses_are_saved_before_their_files_are_forgotten_up_to_a_limit() {
        let files = memory();
        (0..110).for_each(|number| files.insert(&key(number), file(Some(now()))));
        let due = keys(files.due(Duration::from_secs(60), 10));
        assert_eq!(due, (0..10).map(key).collect());
        for key in &due {
            let turn = Arc::default();
            assert!(files.begin_save(key, &turn).is_some());
            assert!(files.begin_save(key, &Arc::default()).is_none(), "by one at a time");
            files.end_save(key, &turn, true, |_| ());
        }
        assert_eq!(files.part(&key(0)).files.len(), 100);
        assert!(files.due(Duration::from_secs(60), 10).is_empty());
        (200..400).for_each(|number| files.insert(&key(number), file(Some(now()))));
        assert_eq!(files.part(&key(0)).files.len(), 125, "the rest is lost");
    }

    #[test]
    fn old_uses_are_due_whatever_room_there_is() {
        let files = memory();
        files.insert(&key(1), file(Some(now())));
        files.insert(&key(2), file(None));
        assert!(files.due(Duration::from_secs(60), 10).is_empty());
        assert_eq!(keys(files.due(Duration::ZERO, 10)), [key(1)].into());
    }

    #[test]
    fn a_file_that_was_opened_while_it_was_saved_is_saved_again() {
        let files = memory();
        files.insert(&key(1), file(Some(now())));
        let turn = Arc::default();
        files.begin_save(&key(1), &turn).unwrap();
        let opened = files.take(&key(1)).unwrap();
        assert!(Arc::ptr_eq(opened.sync_turn.as_ref().unwrap(), &turn));
        files.insert(&key(1), ClosedFile { sync_turn: None, ..opened });
        files.end_save(&key(1), &turn, true, |_| panic!("what was written is not its last use"));
        assert_eq!(keys(files.due(Duration::ZERO, 10)), [key(1)].into());
    }

    #[test]
    fn the_index_is_told_of_each_use_once() {
        let files = memory();
        (0..5).for_each(|number| files.insert(&key(number), file(Some(now()))));
        files.insert(&key(5), file(None));
        let mut told = Vec::new();
        files.note_of(&key(5), |_, _| panic!("it is known"));
        files.note_of(&key(3), |key, _| told.push(key.clone()));
        files.note_of(&key(3), |_, _| panic!("it is known"));
        assert!(!files.note_some(2, |key, _| told.push(key.clone())));
        assert!(files.note_some(3, |key, _| told.push(key.clone())));
        assert_eq!(told, [3, 0, 1, 2, 4].map(key));
        let table = files.part(&key(0));
        assert_eq!(table.unsaved.len(), 5, "they are still to be written to their records");
    }

    #[test]
    fn a_large_memory_has_many_parts_and_they_are_one_to_callers() {
        let files = ClosedFiles::new(16 << 20);
        assert_eq!(files.parts.len(), SHARDS);
        (0..1000).for_each(|number| files.insert(&key(number), file(Some(now()))));
        let due = files.due(Duration::ZERO, usize::MAX);
        assert!(due.iter().map(|(key, _)| key).eq((0..1000).map(key).collect::<Vec<_>>().iter()), "in order");
        let some = files.due(Duration::ZERO, 100);
        assert!((50..=SHARDS * 2).contains(&some.len()), "{}", some.len());
        let mut told = BTreeSet::new();
        assert!(files.note_some(usize::MAX, |key, _| assert!(told.insert(key.clone()))));
        assert_eq!(told.len(), 1000);
        files.clear();
        assert!((0..1000).all(|number| files.take(&key(number)).is_none()));
    }

    #[test]
    fn nothing_is_left_of_what_is_taken_or_lost_with_its_disk() {
        let files = memory();
        files.insert(&key(1), file(Some(now())));
        files.insert(&key(2), ClosedFile { volume: VolumeId(1), ..file(Some(now())) });
        files.forget_volume(VolumeId(1));
        assert!(files.get(&key(2)).is_none());
        files.take(&key(1)).unwrap();
        let table = files.part(&key(0));
        assert_eq!((table.bytes, table.order.len(), table.unsaved.len(), table.unnoted.len()), (0, 0, 0, 0));
    }
}
