//! The checksums of blocks, as the index has them.

use crate::catalog::{Catalog, state::IndexState};
use forebay_cache::CacheKey;
use forebay_index::{Generation, Index, IndexError, Record};
use std::time::Duration;

/// How often it is asked whether the index is open by now.
const POLL: Duration = Duration::from_millis(10);

/// Positions in a chunk are the same in the index and in memory.
const _: () = assert!(forebay_index::SUMS_PER_CHUNK == forebay_cache::SUMS_PER_CHUNK);

impl Catalog {
    /// Waits until the index is open, or known not to be, for `wait_max` at most.
    pub(crate) async fn settled(&self, wait_max: Duration) {
        let opening = || self.index().is_none() && self.index_state() == IndexState::Loading;
        let settled = async {
            while opening() {
                tokio::time::sleep(POLL).await;
            }
        };
        // A caller that continues without the index finds that out when it asks.
        let _ = tokio::time::timeout(wait_max, settled).await;
    }

    /// The checksums in chunk number `chunk` of the blocks of an entry, by their position; `None` without an index to ask.
    /// Blocking.
    pub(crate) fn block_sums(&self, key: &CacheKey, generation: Generation, chunk: u64) -> Option<Vec<(usize, u32)>> {
        self.ask_here(|index| {
            // Of another generation: the sums would be those of a file that had the name before. No sums is an
            // answer.
            let Some(record) = index.get(key)?.filter(|record| record.disk.generation == generation) else {
                return Ok(Vec::new());
            };
            sums_of(index, &record, chunk)
        })
    }

    fn ask_here<T>(&self, question: impl FnOnce(&Index) -> Result<T, IndexError>) -> Option<T> {
        let index = self.index()?;
        question(&index).inspect_err(|error| self.give_up(&index, error)).ok()
    }
}

fn sums_of(index: &Index, record: &Record, chunk: u64) -> Result<Vec<(usize, u32)>, IndexError> {
    // A file has at most 2^31-1 blocks.
    let sums = index.block_sums(record.id, u32::try_from(chunk).unwrap_or(u32::MAX))?;
    let positions = 0..usize::try_from(forebay_index::SUMS_PER_CHUNK).unwrap_or(0);
    Ok(positions.filter_map(|position| Some((position, sums.get(position)?))).collect())
}
