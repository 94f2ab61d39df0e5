//! Prefetching while a link is idle: the reader works on the bytes it has, and no other reader waits for bytes.
//!
//! A job that reads tens of megabytes at once and then works on them for seconds, as ROOT's do, otherwise waits for the link whenever
//! it comes back.

use crate::{
    entries::{cached_file::CachedFile, fill::Fill},
    transfer::access_tracker::AccessTracker,
};
use std::{collections::VecDeque, sync::Arc};

/// Bytes of one fill in spare time: a read that comes meanwhile finds most of the link free soon.
pub(crate) const FILL_LEN: u64 = 512 << 10;

/// Result of a request to continue fetching.
pub(crate) enum Step {
    /// These were begun; none, when all of it is here.
    Begun(Vec<Arc<Fill>>),
    /// As much is under way over the link as may be.
    Full,
    /// There is nothing to fetch now, or nowhere to put it. The next read may change that.
    Done,
}

/// Fetches on for the reader that `tracker` follows, until there is nothing more, the file is closed, or a fill fails.
pub(crate) async fn run(file: Arc<CachedFile>, tracker: Arc<AccessTracker>) {
    tokio::select! {
        biased;
        // First in the biased order: a closed file ends the prefetch at once.
        () = tracker.closed() => (),
        () = fetch_on(&file, &tracker) => (),
    }
}

async fn fetch_on(file: &Arc<CachedFile>, tracker: &AccessTracker) {
    let mut under_way: VecDeque<Arc<Fill>> = VecDeque::new();
    loop {
        let went_well = match step(file, tracker, under_way.is_empty()).await {
            Step::Begun(fills) => {
                under_way.extend(fills);
                take_ended(&mut under_way)
            }
            Step::Full => match under_way.pop_front() {
                Some(oldest) => oldest.result().await.is_ok(),
                // Nothing of its own is under way: the step has waited for room already.
                None => true,
            },
            Step::Done => return,
        };
        // A failed fill may mean a failed origin: the next read decides whether to try again.
        if !went_well {
            return tracker.end_idle_prefetch();
        }
    }
}

/// Fetches the next bytes once no reader waits for any. A prefetcher without a fill under way waits until others make room.
async fn step(file: &Arc<CachedFile>, tracker: &AccessTracker, may_wait: bool) -> Step {
    let link = file.read_ahead.link();
    let _turn = link.turns.idle_turn().await;
    loop {
        link.turns.no_demand().await;
        let step = tracker.fetch_on(file);
        if !may_wait || !matches!(step, Step::Full) {
            return step;
        }
        // With room for one whole piece at least, the link is full of others'.
        link.idle_ended().await;
    }
}

/// Takes out the fills that have ended, of the oldest ones; false when one has failed.
fn take_ended(under_way: &mut VecDeque<Arc<Fill>>) -> bool {
    while let Some(ended) = under_way.front().and_then(|fill| fill.outcome()) {
        under_way.pop_front();
        if ended.is_err() {
            return false;
        }
    }
    true
}
