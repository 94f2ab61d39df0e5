//! Learned sets of columns: bytes under a text, which may be lost at any time.

use crate::{Index, IndexError, tables::COLUMN_SETS};
use redb::{ReadTransaction, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, Table, TableError};
use std::ops::Bound;

/// A set to be stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredSet {
    pub key: String,
    /// Seconds of the Unix epoch.
    pub last_use: i64,
    pub bytes: Vec<u8>,
}

/// Limits of all sets together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetBounds {
    /// Beyond this number those that were used least recently are removed, down to nine tenths of it.
    pub count_max: usize,
    /// Sets that were last used earlier are removed, in seconds of the Unix epoch. `None`: not looked for, which takes time.
    pub oldest: Option<i64>,
}

type Sets<'t> = Table<'t, &'static str, (i64, &'static [u8])>;

impl Index {
    /// # Errors
    /// When the index cannot be read.
    pub fn column_set(&self, key: &str) -> Result<Option<Vec<u8>>, IndexError> {
        self.read_sets(None, |transaction| {
            let table = transaction.open_table(COLUMN_SETS)?;
            Ok(table.get(key)?.map(|found| found.value().1.to_vec()))
        })
    }

    /// Up to `limit` sets after the key `after`, in the order of their keys.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn column_sets(&self, after: Option<&str>, limit: usize) -> Result<Vec<StoredSet>, IndexError> {
        self.read_sets(Vec::new(), |transaction| {
            let table = transaction.open_table(COLUMN_SETS)?;
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let stored = table.range::<&str>((from, Bound::Unbounded))?.take(limit).map(|found| {
                let (key, value) = found?;
                let (last_use, bytes) = value.value();
                Ok(StoredSet { key: key.value().to_owned(), last_use, bytes: bytes.to_vec() })
            });
            stored.collect()
        })
    }

    /// Stores sets, each in the place of an earlier one of its key.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn put_column_sets(&self, sets: &[StoredSet], bounds: SetBounds) -> Result<(), IndexError> {
        self.write_sets(|table| {
            for set in sets {
                table.insert(set.key.as_str(), (set.last_use, set.bytes.as_slice()))?;
            }
            if let Some(oldest) = bounds.oldest {
                table.retain(|_, (last_use, _)| last_use >= oldest)?;
            }
            let count = usize::try_from(table.len()?).unwrap_or(usize::MAX);
            if count > bounds.count_max {
                let excess = count - bounds.count_max / 10 * 9;
                remove_oldest(table, excess)?;
            }
            Ok(())
        })
    }

    /// Removes the sets whose keys are chosen; returns their number.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn remove_column_sets(&self, is_chosen: impl Fn(&str) -> bool) -> Result<u64, IndexError> {
        let mut removed = 0;
        self.write_sets(|table| {
            Ok(table.retain(|key, _| {
                let is_kept = !is_chosen(key);
                removed += u64::from(!is_kept);
                is_kept
            })?)
        })?;
        Ok(removed)
    }

    /// Reads the table; `without` it, if it was never written.
    fn read_sets<T>(
        &self,
        without: T,
        read: impl FnOnce(&ReadTransaction) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.guarded(|| {
            let transaction = self.database.begin_read()?;
            match transaction.open_table(COLUMN_SETS) {
                Ok(_) => read(&transaction),
                Err(TableError::TableDoesNotExist(_)) => Ok(without),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn write_sets(&self, write: impl FnOnce(&mut Sets<'_>) -> Result<(), IndexError>) -> Result<(), IndexError> {
        self.guarded(|| {
            let mut transaction = self.database.begin_write()?;
            // As for all commits of the index: an open after a crash does not read the whole file.
            transaction.set_quick_repair(true);
            write(&mut transaction.open_table(COLUMN_SETS)?)?;
            Ok(transaction.commit()?)
        })
    }
}

fn remove_oldest(table: &mut Sets<'_>, excess: usize) -> Result<(), IndexError> {
    let mut ages = Vec::new();
    for found in table.iter()? {
        let (key, value) = found?;
        ages.push((value.value().0, key.value().to_owned()));
    }
    ages.sort_unstable();
    for (_, key) in ages.into_iter().take(excess) {
        table.remove(key.as_str())?;
    }
    Ok(())
}
