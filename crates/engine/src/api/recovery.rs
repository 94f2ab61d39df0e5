//! Reads whose bytes the disk did not give: blocks that cannot be read are taken back, and their bytes come from the origin.

use crate::{
    Error, Handle, Read,
    api::opened::{Opened, Source},
    base::error::with_cause,
    entries::cached_file::CachedFile,
};
use forebay_telemetry::DropReason;
use forebay_types::{BlockIndex, ByteRange};
use std::{io, sync::Arc, time::Duration};

/// How long taking blocks back may take: a sync on the same disk may be in its way, of many files together, and may hang.
const FORGET_TIME_MAX: Duration = Duration::from_secs(60);

impl Handle {
    /// Reads `range` once more, because a file that [`Handle::hit`] or a read of this handle gave could not be read there:
    /// `error` says why. The blocks of the range are not used any more, and their bytes come from the origin. They were
    /// accounted when they were given the first time, and are not again.
    ///
    /// # Errors
    /// [`Error::Disk`] when there is no origin to ask.
    pub async fn recover(&self, range: ByteRange, error: &io::Error) -> Result<Read, Error> {
        let opened = self.opened();
        match &opened.source {
            Source::Cached(file) => {
                drop_unreadable(file, range, error).await;
                Ok(Read::start_again(opened, range))
            }
            Source::Local { .. } => Err(unreadable(opened, error)),
        }
    }
}

fn unreadable(opened: &Opened, error: &io::Error) -> Error {
    Error::Disk { lfn: opened.lfn().clone(), doing: "reading", reason: with_cause(error) }
}

/// Takes the blocks of `range` back: they are missing from now on. Their disk learns of it.
async fn drop_unreadable(file: &Arc<CachedFile>, range: ByteRange, error: &io::Error) {
    let context = &file.context;
    // A file that is not kept has no blocks to take back.
    let (Some(stored), Some(volume)) = (file.stored.as_ref(), file.volume()) else { return };
    // Counted before the blocks are taken back: a disk that hangs there is to be judged by this failure.
    file.note_read_failure();
    if let Some(disk) = &context.disk {
        disk.note_read_failure(volume, error);
    }
    let path = file.path_on_disk();
    let offset = range.start();
    let len = range.len();
    let path = path.display();
    tracing::error!(%path, offset, len, %error, "blocks on disk cannot be read: they are fetched again");
    let blocks: Vec<BlockIndex> = stored.map.geometry().blocks_of(range).map(BlockIndex).collect();
    let forgetting = {
        let file = Arc::clone(file);
        // On a worker: taking blocks back waits for a sync under way.
        context.options.workers.run(move || file.stored.as_ref().map(|stored| stored.forget(blocks)))
    };
    // Read before the wait: a file that was retired before is discarded already, which would end the wait at once.
    let was_retired = file.is_retired();
    let is_forgotten = tokio::select! {
        biased;
        forgotten = tokio::time::timeout(FORGET_TIME_MAX, forgetting) => matches!(forgotten, Ok(Ok(_))),
        // Mostly because the disk is offline: then all blocks were taken back.
        () = file.discarded(), if !was_retired => true,
    };
    // The blocks cannot be taken back in time: rather drop the whole file than serve them again.
    if !is_forgotten {
        file.retire(DropReason::DiskOffline);
    }
}
