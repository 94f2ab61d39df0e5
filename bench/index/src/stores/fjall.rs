//! fjall: a log-structured merge tree with threads of its own.

use super::{CACHE_BYTES, Index};
use crate::shape::{Names, Record};
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

pub struct Fjall {
    database: Database,
    entries: Keyspace,
    ids: Keyspace,
}

impl Fjall {
    pub fn open(path: &Path) -> Result<Self> {
        let database = Database::builder(path).cache_size(CACHE_BYTES as u64).open()?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
        let ids = database.keyspace("ids", KeyspaceCreateOptions::default)?;
        Ok(Self { database, entries, ids })
    }
}

impl Index for Fjall {
    fn load(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (id, name, record) in entries {
            batch.insert(&self.entries, name.as_bytes(), record.0.as_slice());
            batch.insert(&self.ids, id.to_be_bytes(), name.as_bytes());
        }
        Ok(batch.commit()?)
    }

    fn get(&self, id: u64) -> Result<Option<Vec<u8>>> {
        let Some(name) = self.ids.get(id.to_be_bytes())? else { return Ok(None) };
        Ok(self.entries.get(name)?.map(|record| record.to_vec()))
    }

    fn update(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (_, name, record) in entries {
            batch.insert(&self.entries, name.as_bytes(), record.0.as_slice());
        }
        Ok(batch.commit()?)
    }

    fn scan(&self) -> Result<u64> {
        let mut count = 0;
        for entry in self.entries.iter() {
            let (name, record) = entry.into_inner()?;
            count += u64::from(!name.is_empty() && !record.is_empty());
        }
        Ok(count)
    }
}
