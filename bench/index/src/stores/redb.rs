//! redb: a B-tree in one file, copy on write, no threads.

use super::{CACHE_BYTES, Index};
use crate::{
    below,
    shape::{Names, Record},
};
use anyhow::Result;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};
use std::path::Path;

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
const IDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ids");

pub struct Redb {
    database: Database,
    quick_repair: bool,
}

impl Redb {
    /// With `quick_repair` each commit also says what is free, so that an open after a crash need not find out.
    pub fn open(path: &Path, quick_repair: bool) -> Result<Self> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(below(path, "index"))?;
        Ok(Self { database, quick_repair })
    }

    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(self.quick_repair);
        Ok(transaction)
    }
}

impl Index for Redb {
    fn load(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let transaction = self.begin()?;
        {
            let (mut table, mut ids) = (transaction.open_table(ENTRIES)?, transaction.open_table(IDS)?);
            for (id, name, record) in entries {
                table.insert(name.as_bytes(), record.0.as_slice())?;
                ids.insert(id, name.as_bytes())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, id: u64) -> Result<Option<Vec<u8>>> {
        let transaction = self.database.begin_read()?;
        let Some(name) = transaction.open_table(IDS)?.get(id)? else { return Ok(None) };
        Ok(transaction.open_table(ENTRIES)?.get(name.value())?.map(|record| record.value().to_vec()))
    }

    fn update(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            for (_, name, record) in entries {
                table.insert(name.as_bytes(), record.0.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn scan(&self) -> Result<u64> {
        let transaction = self.database.begin_read()?;
        let mut count = 0;
        for entry in transaction.open_table(ENTRIES)?.iter()? {
            let (name, record) = entry?;
            count += u64::from(!name.value().is_empty() && !record.value().is_empty());
        }
        Ok(count)
    }
}
