//! The index: one transactional file with a record of each entry of the cache, in addition to the cinfos.
//!
//! The data files and cinfo records are the truth; the index may be deleted at any time and is made again from them. It
//! holds what a cinfo cannot: an order without a walk of the tree, the origin's identity, pins, owners, checksums of whole
//! files, and a CRC32C of each block. All methods block.
//!
//! - [`Index`] is the file. [`Index::open`] never trusts a damaged one: it is moved aside and a new one begun.
//!   [`IndexPlace`] is where it is kept, for who opens it again and again.
//! - [`Change`] says what became of one entry; several of one entry merge, many are applied in one transaction.
//! - [`Record`] is what is known of an entry, [`BlockSums`] the checksums of a run of its blocks.
//!
//! The [`Generation`] of a record names the files on disk it is about: a record of another generation says nothing about them.

mod apply;
mod block_sums;
mod bytes;
mod change;
mod column_sets;
mod error;
mod index;
mod open;
mod record;
mod storage;
mod tables;

pub use apply::Applied;
pub use block_sums::{BlockSums, SUMS_PER_CHUNK};
pub use change::{Change, Facts};
pub use column_sets::{SetBounds, StoredSet};
pub use error::IndexError;
pub use index::{Index, ScrubProgress};
pub use open::{Found, IndexFile, IndexOptions, IndexPlace, VolatileIndex};
pub use record::{DiskFacts, Generation, OriginFacts, Record, TEXT_LEN_MAX};
pub use redb::{StorageBackend, backends::InMemoryBackend};
