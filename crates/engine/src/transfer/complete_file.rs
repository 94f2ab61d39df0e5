//! Fetching what is missing of a whole file.

use crate::{
    Error,
    entries::{cached_file::CachedFile, fill::Fill, stored_entry::StoredEntry},
    link::admission::Purpose,
    transfer::planner::fetch,
};
use forebay_cache::{AheadSource, FillPolicy};
use forebay_telemetry::NotReadAhead;
use forebay_types::ByteRange;
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Fills of one completion that are under way at the same time.
const FILLS_MAX: usize = 4;

/// How far a completion looks for the next missing block at a time, in bytes.
const LOOK_AHEAD: u64 = 64 << 20;

/// How long a completion pauses that finds neither memory nor room on the link, and none of its own fills to wait for.
const RETRY: Duration = Duration::from_millis(100);

/// Starts completing a file in the background, if its settings say so and no task does it yet.
pub(crate) fn start_if_due(file: &Arc<CachedFile>) {
    // The swap comes last: only a completion that is due may take the flag.
    if is_due(file) && !file.read_ahead.is_completing.swap(true, Ordering::AcqRel) {
        tokio::spawn(run(Arc::clone(file)));
    }
}

/// Whether a file that a client has open is to be completed.
fn is_due(file: &CachedFile) -> bool {
    let settings = file.read_ahead.settings();
    let Some(stored) = file.stored.as_ref() else { return false };
    settings.is_to_be_completed(stored.map.written_count(), file.geometry.block_count())
        && !stored.map.is_complete()
        && !file.is_retired()
        && !file.keeps_nothing()
        && !file.context.admission.is_stopping()
}

/// Completes a file as long as its settings want that.
async fn run(file: Arc<CachedFile>) {
    loop {
        let outcome = {
            let _running = Running(&file);
            attend(&file).await
        };
        // A client may have come while the last one left.
        let is_to_go_on = outcome == Ok(Completed::NotWanted) && file.is_open() && is_due(&file);
        if !is_to_go_on || file.read_ahead.is_completing.swap(true, Ordering::AcqRel) {
            return;
        }
    }
}

/// Completes a file as long as a client has it open, or to its end when that is its policy and there is a place for it.
async fn attend(file: &Arc<CachedFile>) -> Result<Completed, Error> {
    let mut lingering = None;
    let is_wanted = || {
        let goes_on = file.is_open() || file.read_ahead.settings().fill == FillPolicy::ToEnd;
        if file.is_open() {
            // Given back: a client has the file open again, so the place is free for others.
            lingering = None;
        } else if goes_on && lingering.is_none() {
            lingering = file.context.admission.linger();
        }
        goes_on && (file.is_open() || lingering.is_some())
    };
    complete(file, is_wanted, &|_, _| ()).await.inspect_err(|error| {
        tracing::debug!(lfn = file.lfn().as_str(), %error, "a file stays incomplete");
    })
}

/// A completion under way; when it ends, also in a panic, another one may start.
struct Running<'a>(&'a CachedFile);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.read_ahead.is_completing.store(false, Ordering::Release);
    }
}

/// How a completion ended that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Completed {
    /// The whole file is in the cache.
    Whole,
    /// The rest is not wanted any more.
    NotWanted,
}

/// Fetches what is missing of a file, front to back, as long as it `is_wanted`; reports to `progress` the bytes in the
/// cache and the size of the file.
///
/// # Errors
/// When the origin fails, the file has changed, or what comes is not kept.
pub(crate) async fn complete(
    file: &Arc<CachedFile>,
    mut is_wanted: impl FnMut() -> bool,
    progress: &(dyn Fn(u64, u64) + Send + Sync),
) -> Result<Completed, Error> {
    let stored = file.stored.as_ref().ok_or_else(|| unkept(file))?;
    let mut pass = Pass::new(stored);
    loop {
        progress(present_bytes(file, stored), file.size());
        // Looked at before the errors: a file that became complete in spite of them is complete.
        if stored.map.is_complete() {
            return Ok(Completed::Whole);
        }
        check(file)?;
        if !is_wanted() {
            return Ok(Completed::NotWanted);
        }
        if !pass.start_next(file, stored)? {
            pass.wait(file, stored).await?;
        }
    }
}

/// One way through a file, from its beginning to its end.
struct Pass {
    /// Up to where nothing is missing that is not under way.
    offset: u64,
    under_way: VecDeque<Arc<Fill>>,
    /// Blocks that were in the cache when the pass began.
    written_before: u64,
}

impl Pass {
    fn new(stored: &StoredEntry) -> Self {
        Self { offset: 0, under_way: VecDeque::new(), written_before: stored.map.written_count() }
    }

    /// Starts the next fill; `false` when something has to be waited for before there is another one.
    fn start_next(&mut self, file: &Arc<CachedFile>, stored: &StoredEntry) -> Result<bool, Error> {
        while self.under_way.len() < FILLS_MAX && self.offset < file.size() {
            let looked_at = ByteRange::at(stored.map.present_run(self.offset), LOOK_AHEAD).clipped_to(file.size());
            let fetched = fetch(file, looked_at, Purpose::Completion, AheadSource::Runs, 1);
            match (fetched.fills.into_iter().next(), fetched.refused) {
                (Some(fill), _) => {
                    self.offset = fill.blocks().end();
                    self.under_way.push_back(fill);
                    return Ok(true);
                }
                // The disk takes nothing now: waiting would not end.
                (None, Some((_, NotReadAhead::Disk))) => return Err(not_kept(file)),
                (None, Some(_)) => return Ok(false),
                (None, None) => self.offset = looked_at.end(),
            }
        }
        Ok(false)
    }

    /// Waits for the oldest fill of this pass, else for one of another's. Begins again after the end, when blocks came to be
    /// missing again.
    async fn wait(&mut self, file: &Arc<CachedFile>, stored: &StoredEntry) -> Result<(), Error> {
        if let Some(fill) = self.under_way.pop_front() {
            return fill.result().await;
        }
        // Memory or the link is full, and none of the own fills frees any: tried again.
        if self.offset < file.size() {
            tokio::time::sleep(RETRY).await;
            return Ok(());
        }
        let others = file.claims.fills.lock().values().next().cloned();
        match others {
            Some(fill) => {
                // Deferred bytes of another's fill are wanted too: the file is to be whole.
                fill.want_all();
                fill.ended().await;
            }
            // A whole pass has brought nothing: the blocks are fetched and not kept, again and again.
            None if stored.map.written_count() == self.written_before => return Err(not_kept(file)),
            None => *self = Self::new(stored),
        }
        Ok(())
    }
}

/// Whether a file can be completed at all at this moment.
fn check(file: &CachedFile) -> Result<(), Error> {
    if file.context.admission.is_stopping() {
        return Err(Error::ShuttingDown);
    }
    if file.is_retired() {
        return Err(Error::Changed { lfn: file.lfn().clone() });
    }
    Ok(())
}

/// Of a file of which nothing is kept.
fn unkept(file: &CachedFile) -> Error {
    if file.is_unkept_for_now() {
        return not_kept(file);
    }
    // By a rule, or because of its size.
    Error::Unsupported { what: format!("keeping {}", file.lfn()) }
}

fn not_kept(file: &CachedFile) -> Error {
    Error::Disk { lfn: file.lfn().clone(), doing: "keeping", reason: "the cache does not take it now".to_owned() }
}

fn present_bytes(file: &CachedFile, stored: &StoredEntry) -> u64 {
    if stored.map.is_complete() {
        return file.size();
    }
    stored.map.written_count().saturating_mul(file.geometry.block_size()).min(file.size())
}
