//! Checks of blocks that were found on disk, before anybody gets them.
//!
//! Order of calls: the planner meets blocks that are not trusted and calls [`start`] under the lock of the file's claims; a
//! reader that comes to such bytes waits for the check with [`Check::ended`] and plans them again. By then each block is trusted,
//! or missing like one that was never there.

use crate::{
    base::latch::Latch,
    entries::{
        block_sums::{READ_LEN, of_block},
        cached_file::CachedFile,
        claims::{Check, Checks, covering},
        file_sync,
        stored_entry::StoredEntry,
    },
};
use forebay_cache::{Geometry, sum_chunk_of};
use forebay_telemetry::{BlockCheck, Metrics};
use forebay_types::{BlockIndex, ByteRange};
use std::{io, path::Path, sync::Arc, time::Duration};

/// How long a check right after a start waits for the index to be open: milliseconds, unless its disk hangs. Without it
/// without it no block can be judged.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(30);

/// A block that cannot be used.
struct Bad {
    index: BlockIndex,
    reason: Reason,
}

/// Why a block cannot be used.
pub(crate) enum Reason {
    Mismatch { expected: u32, found: u32 },
    Unreadable(io::Error),
}

/// Starts checks of those of `blocks` (whole blocks) that no check has under way.
pub(crate) fn start(file: &Arc<CachedFile>, checks: &mut Checks, blocks: ByteRange) {
    let mut start = blocks.start();
    while start < blocks.end() {
        if let Some(check) = covering(checks, start) {
            // Blocks of a check under way are skipped: each is read once.
            start = check.blocks.end();
            continue;
        }
        let next = checks.range(start..).next().map_or_else(|| blocks.end(), |(next, _)| blocks.end().min(*next));
        let check = Arc::new(Check { blocks: ByteRange::between(start, next), ended: Latch::default() });
        checks.insert(start, Arc::clone(&check));
        tokio::spawn(run(Arc::clone(file), check));
        start = next;
    }
}

/// Ends a check also when it breaks off: blocks of which nothing is known by then count as missing.
struct Ending<'a> {
    file: &'a CachedFile,
    check: &'a Arc<Check>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(stored) = self.file.stored.as_ref() {
            // A panic must not leave blocks that wait for a check for ever.
            let undecided: Vec<BlockIndex> = untrusted(stored, self.check.blocks).collect();
            if !undecided.is_empty() {
                stored.forget(undecided);
            }
        }
        self.file.claims.end_check(self.check);
    }
}

async fn run(file: Arc<CachedFile>, check: Arc<Check>) {
    let _ending = Ending { file: &file, check: &check };
    let context = &file.context;
    if let Some(catalog) = &context.catalog {
        catalog.settled(INDEX_WAIT_MAX).await;
    }
    let _place = tokio::select! {
        place = context.check_place(file.volume()) => place,
        // Others of its disk may never end.
        () = file.lost() => return,
    };
    let checked = Arc::clone(&file);
    let blocks = check.blocks;
    if context.options.workers.run(move || check_blocks(&checked, blocks)).await.is_err() {
        tracing::error!(lfn = file.lfn().as_str(), %blocks, "a check of blocks on disk broke off");
    }
}

/// Compares blocks with their sums and decides what becomes of each. Blocking.
fn check_blocks(file: &Arc<CachedFile>, blocks: ByteRange) {
    let Some(stored) = file.stored.as_ref() else { return };
    let mut buffer = vec![0; READ_LEN];
    let mut bad = Vec::new();
    for index in untrusted(stored, blocks) {
        match check_block(file, stored, index, &mut buffer) {
            Ok(result) => {
                stored.map.set_trusted(index);
                file.context.metrics.add_block_checks(result, 1);
            }
            Err(reason) => bad.push(Bad { index, reason }),
        }
    }
    // Together at the end: one record is written for all damaged blocks of the run.
    if !bad.is_empty() {
        drop_blocks(file, stored, &bad);
    }
}

/// Those of `blocks` that are on disk and not trusted.
fn untrusted(stored: &StoredEntry, blocks: ByteRange) -> impl Iterator<Item = BlockIndex> {
    let indices = stored.map.geometry().blocks_of(blocks).map(BlockIndex);
    indices.filter(|index| stored.map.is_written(*index) && !stored.map.is_trusted(*index))
}

/// Compares one block with its sum; a sum that is not known is learned.
fn check_block(
    file: &CachedFile,
    stored: &StoredEntry,
    index: BlockIndex,
    buffer: &mut [u8],
) -> Result<BlockCheck, Reason> {
    // Without an index nothing can be compared: the block is used as it is.
    let Some(known) = known_sum(file, stored, index) else { return Ok(BlockCheck::Skipped) };
    let range = stored.map.geometry().range_of(index);
    let (found, result) = judge(of_block(stored.data.as_ref(), range, buffer), known)?;
    if result == BlockCheck::Learned {
        stored.sums.lock().set(index, found);
    }
    Ok(result)
}

/// Compares the sum of what the disk gives with the one that is known, if one is.
pub(crate) fn judge(found: io::Result<u32>, known: Option<u32>) -> Result<(u32, BlockCheck), Reason> {
    let found = found.map_err(Reason::Unreadable)?;
    match known {
        Some(expected) if expected == found => Ok((found, BlockCheck::Intact)),
        Some(expected) => Err(Reason::Mismatch { expected, found }),
        None => Ok((found, BlockCheck::Learned)),
    }
}

/// The sum of a block, from memory or from the index. The outer `None`: there is no index that would know.
fn known_sum(file: &CachedFile, stored: &StoredEntry, index: BlockIndex) -> Option<Option<u32>> {
    // The outer lock is not held here: the index may read from its disk.
    if !stored.sums.lock().is_loaded(index) {
        let chunk = sum_chunk_of(index);
        let in_index = file.stored_sums(stored, chunk)?;
        stored.sums.lock().load(chunk, in_index);
    }
    Some(stored.sums.lock().get(index))
}

/// Takes damaged blocks out of the map and, before anybody writes them again, out of the cinfo. Blocking.
fn drop_blocks(file: &Arc<CachedFile>, stored: &StoredEntry, bad: &[Bad]) {
    let path = file.path_on_disk();
    for Bad { index, reason } in bad {
        report(&file.context.metrics, &path, stored.map.geometry(), *index, reason);
        if let Reason::Unreadable(_) = reason {
            file.note_read_failure();
        }
    }
    file.account.add_damaged_blocks(bad.len() as u64);
    // Forgotten before the sync: the record that it writes no longer names them.
    stored.forget(bad.iter().map(|bad| bad.index));
    file_sync::sync(file);
}

/// Counts and logs a block of the data file at `path` that cannot be used.
pub(crate) fn report(metrics: &Metrics, path: &Path, geometry: Geometry, index: BlockIndex, reason: &Reason) {
    let path = path.display();
    let block = index.0;
    let offset = geometry.range_of(index).start();
    match reason {
        Reason::Mismatch { expected, found } => {
            metrics.add_block_checks(BlockCheck::Damaged, 1);
            let expected = format!("{expected:08x}");
            let found = format!("{found:08x}");
            tracing::error!(%path, block, offset, expected, found, "a block on disk is damaged: it is fetched again");
        }
        Reason::Unreadable(error) => {
            metrics.add_block_checks(BlockCheck::Unreadable, 1);
            tracing::error!(%path, block, offset, %error, "a block on disk cannot be read: it is fetched again");
        }
    }
}
