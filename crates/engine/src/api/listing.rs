//! A directory listing on its way to a client.

use crate::{Error, entries::file_context::FileContext, link::memory_budget::HeldMemory};
use forebay_types::DirEntry;
use std::time::Duration;
use tokio::time::timeout;

/// The entries of a directory, and the memory that they hold until this is dropped.
#[derive(Debug)]
pub struct Listing {
    pub entries: Vec<DirEntry>,
    _memory: HeldMemory,
}

/// How long a listing that has been received waits for those that clients take slowly. It is given up then: it holds memory itself.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(10);

impl Listing {
    pub(crate) async fn new(entries: Vec<DirEntry>, context: &FileContext) -> Result<Self, Error> {
        let memory = timeout(MEMORY_WAIT_MAX, context.budget.reserve_listing(&entries)).await;
        let memory = memory.map_err(|_| Error::OutOfMemory { seconds: MEMORY_WAIT_MAX.as_secs() })?;
        Ok(Self { entries, _memory: memory })
    }
}
