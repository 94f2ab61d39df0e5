//! The stores behind one interface.

mod fjall;
mod heed;
mod redb;

pub use fjall::Fjall;
pub use heed::Heed;
pub use redb::Redb;

use crate::shape::{Names, Record};
use anyhow::Result;

/// Bytes that a store may use for caching.
const CACHE_BYTES: usize = 64 << 20;

/// An index in a store. Every change is durable when its call returns.
pub trait Index {
    /// Adds entries, in one commit.
    fn load(&self, entries: &[(u64, Names, Record)]) -> Result<()>;
    /// The record of a number: its name first, then the record.
    fn get(&self, id: u64) -> Result<Option<Vec<u8>>>;
    /// Replaces records, in one commit.
    fn update(&self, entries: &[(u64, Names, Record)]) -> Result<()>;
    /// Walks all entries in the order of their names; their count.
    fn scan(&self) -> Result<u64>;
}
