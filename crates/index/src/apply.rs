//! Applying changes, in one transaction.

use crate::{
    BlockSums, Change, DiskFacts, Generation, IndexError, Record,
    change::Facts,
    tables::{ENTRIES, KEYS, META, META_NEXT_ID, SUMS},
};
use forebay_cache::{CacheKey, EntryId};
use redb::{ReadableTable as _, Table, WriteTransaction};
use std::collections::BTreeMap;

/// The effect of a change on an entry's record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Applied {
    pub key: CacheKey,
    pub before: Option<Record>,
    /// Its record now. Another number than before: the files on disk are others.
    pub after: Option<Record>,
}

pub(crate) struct Writer<'t> {
    entries: Table<'t, &'static [u8], &'static [u8]>,
    keys: Table<'t, u64, &'static [u8]>,
    sums: Table<'t, (u64, u32), &'static [u8]>,
    meta: Table<'t, &'static str, u64>,
    next_id: u64,
}

impl<'t> Writer<'t> {
    pub(crate) fn begin(transaction: &'t WriteTransaction) -> Result<Self, IndexError> {
        let meta = transaction.open_table(META)?;
        // As the write before has left it: memory may not have heard of that one yet.
        let next_id = meta.get(META_NEXT_ID)?.map_or(0, |number| number.value());
        Ok(Self {
            entries: transaction.open_table(ENTRIES)?,
            keys: transaction.open_table(KEYS)?,
            sums: transaction.open_table(SUMS)?,
            meta,
            next_id,
        })
    }

    /// Applies one change; `None` when it makes no difference.
    pub(crate) fn apply(&mut self, key: &CacheKey, change: &Change) -> Result<Option<Applied>, IndexError> {
        let before = self.read(key)?;
        let mut now = if change.removed { None } else { before.clone() };
        if change.outdated {
            now = now
                .filter(|record| record.pinned_until.is_some() || record.owner.is_some())
                .map(|record| self.without_files(record));
        }
        if let (Some(since), Some(disk)) = (change.walked_since, &change.seen)
            && now.as_ref().is_some_and(|record| is_newer(record, disk, since))
        {
            return Ok(None);
        }
        if let Some(disk) = &change.seen {
            now = Some(match now {
                Some(record) if record.disk.generation == disk.generation => Record { disk: disk.clone(), ..record },
                replaced => {
                    let (pinned_until, owner) =
                        replaced.map_or((None, None), |record| (record.pinned_until, record.owner));
                    Record { pinned_until, owner, ..Record::new(self.take_id(), disk.clone()) }
                }
            });
        }
        if let Some(record) = &mut now {
            self.add_facts(record, change)?;
            record.keep_within_limits();
        }
        if now == before {
            return Ok(None);
        }
        if let Some(old) = before.as_ref().filter(|old| now.as_ref().is_none_or(|new| new.id != old.id)) {
            self.forget(old.id)?;
        }
        match &now {
            Some(record) => self.write(key, record, before.as_ref())?,
            None => drop(self.entries.remove(key.as_str().as_bytes())?),
        }
        Ok(Some(Applied { key: key.clone(), before, after: now }))
    }

    /// The number after the last that was given.
    pub(crate) fn finish(mut self) -> Result<u64, IndexError> {
        self.meta.insert(META_NEXT_ID, self.next_id)?;
        Ok(self.next_id)
    }

    /// Forgets the numbers whose names begin with `prefix`.
    pub(crate) fn clear_meta(&mut self, prefix: &str) -> Result<(), IndexError> {
        Ok(self.meta.retain(|name, _| !name.starts_with(prefix))?)
    }

    pub(crate) fn set_meta(&mut self, name: &str, value: u64) -> Result<(), IndexError> {
        self.meta.insert(name, value)?;
        Ok(())
    }

    fn read(&self, key: &CacheKey) -> Result<Option<Record>, IndexError> {
        let found = self.entries.get(key.as_str().as_bytes())?;
        found.map(|bytes| Record::decode(bytes.value())).transpose()
    }

    fn write(&mut self, key: &CacheKey, record: &Record, before: Option<&Record>) -> Result<(), IndexError> {
        let name = key.as_str().as_bytes();
        self.entries.insert(name, record.encode().as_slice())?;
        if before.is_none_or(|before| before.id != record.id) {
            self.keys.insert(record.id.0, name)?;
        }
        Ok(())
    }

    fn add_facts(&mut self, record: &mut Record, change: &Change) -> Result<(), IndexError> {
        if let Some(until) = change.pinned_until {
            record.pinned_until = until;
        }
        if let (None, Some(owner)) = (&record.owner, &change.owner) {
            record.owner = Some(owner.clone());
        }
        let Some((_, facts)) = change.facts.as_ref().filter(|(generation, _)| *generation == record.disk.generation)
        else {
            return Ok(());
        };
        if let Some(origin) = &facts.origin {
            record.origin = Some(origin.clone());
        }
        record.validated = facts.validated.or(record.validated);
        for sum in &facts.checksums {
            record.set_checksum(sum.clone());
        }
        self.add_block_sums(record.id, facts)
    }

    fn add_block_sums(&mut self, id: EntryId, facts: &Facts) -> Result<(), IndexError> {
        let mut chunks: BTreeMap<u32, Vec<(usize, Option<u32>)>> = BTreeMap::new();
        for (&block, &sum) in &facts.block_sums {
            let (chunk, place) = BlockSums::place_of(block);
            chunks.entry(chunk).or_default().push((place, sum));
        }
        for (chunk, changes) in chunks {
            let mut sums = {
                let found = self.sums.get((id.0, chunk))?;
                found.map_or_else(|| Ok(BlockSums::default()), |bytes| BlockSums::decode(bytes.value()))?
            };
            for (place, sum) in changes {
                sums.set(place, sum);
            }
            if sums.is_empty() {
                self.sums.remove((id.0, chunk))?;
            } else {
                self.sums.insert((id.0, chunk), sums.encode().as_slice())?;
            }
        }
        Ok(())
    }

    /// Forgets a number and the checksums that go with it.
    fn forget(&mut self, id: EntryId) -> Result<(), IndexError> {
        self.keys.remove(id.0)?;
        Ok(self.sums.retain_in((id.0, 0)..=(id.0, u32::MAX), |_, _| false)?)
    }

    /// A record of no files under the key of one whose files are gone.
    fn without_files(&mut self, gone: Record) -> Record {
        let generation = Generation { inode: 0, created: gone.disk.generation.created };
        let disk = DiskFacts { generation, present_bytes: 0, ..gone.disk };
        Record { pinned_until: gone.pinned_until, owner: gone.owner, ..Record::new(self.take_id(), disk) }
    }

    const fn take_id(&mut self) -> EntryId {
        let id = EntryId(self.next_id);
        self.next_id += 1;
        id
    }
}

/// Whether a record is newer than what a walk of the disk found that began when `since` was the next number.
fn is_newer(record: &Record, found: &DiskFacts, since: EntryId) -> bool {
    record.id >= since || (record.disk.generation == found.generation && record.disk.volume == found.volume)
}
