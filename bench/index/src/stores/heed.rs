//! heed: LMDB, a B-tree in a file that is mapped.

use super::Index;
use crate::shape::{Names, Record};
use anyhow::Result;
use heed::{
    Database, Env, EnvOpenOptions,
    byteorder::BigEndian,
    types::{Bytes, U64},
};
use std::path::Path;

/// Address space for the file: it cannot grow beyond.
const MAP_BYTES: usize = 8 << 30;

pub struct Heed {
    env: Env,
    entries: Database<Bytes, Bytes>,
    ids: Database<U64<BigEndian>, Bytes>,
}

impl Heed {
    pub fn open(path: &Path) -> Result<Self> {
        // SAFETY: nothing else opens or changes the file while this process runs.
        let env = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).max_dbs(2).open(path)? };
        let mut transaction = env.write_txn()?;
        let entries = env.create_database(&mut transaction, Some("entries"))?;
        let ids = env.create_database(&mut transaction, Some("ids"))?;
        transaction.commit()?;
        Ok(Self { env, entries, ids })
    }
}

impl Index for Heed {
    fn load(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (id, name, record) in entries {
            self.entries.put(&mut transaction, name.as_bytes(), &record.0)?;
            self.ids.put(&mut transaction, id, name.as_bytes())?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, id: u64) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn()?;
        let Some(name) = self.ids.get(&transaction, &id)? else { return Ok(None) };
        Ok(self.entries.get(&transaction, name)?.map(<[u8]>::to_vec))
    }

    fn update(&self, entries: &[(u64, Names, Record)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (_, name, record) in entries {
            self.entries.put(&mut transaction, name.as_bytes(), &record.0)?;
        }
        Ok(transaction.commit()?)
    }

    fn scan(&self) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        let mut count = 0;
        for entry in self.entries.iter(&transaction)? {
            let (name, record) = entry?;
            count += u64::from(!name.is_empty() && !record.is_empty());
        }
        Ok(count)
    }
}
