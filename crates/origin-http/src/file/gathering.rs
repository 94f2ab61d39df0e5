//! Collects short reads that begin together, so that one request asks for several of them.

use super::{joined_read::JoinedRead, read::RangeRead};
use crate::{
    options::{FAILED_JOINS_MAX, GATHERING_TURNS, JOINED_COUNT_MAX, JOINED_LEN_MAX, JOINED_RANGE_MAX, JOINED_SPREAD},
    pool::Connection,
};
use parking_lot::Mutex;
use std::sync::{Arc, atomic::Ordering::Relaxed};
use tokio::task::yield_now;

/// Reads of one file that no request asks for yet.
#[derive(Default)]
pub(super) struct Gathering {
    reads: Mutex<Vec<RangeRead>>,
}

impl RangeRead {
    /// Whether the read is short enough to share a request, and its servers are not known to refuse that.
    pub(super) fn can_be_joined(&self) -> bool {
        self.rest.len() <= JOINED_RANGE_MAX && self.shared.client.failed_joins.load(Relaxed) < FAILED_JOINS_MAX
    }
}

impl Gathering {
    /// Begins a read, together with those that begin at the same time.
    pub(super) fn add(self: &Arc<Self>, read: RangeRead) {
        let count = {
            let mut reads = self.reads.lock();
            reads.push(read);
            reads.len()
        };
        if count == 1 {
            tokio::spawn(Arc::clone(self).send());
        }
    }

    async fn send(self: Arc<Self>) {
        let mut known = 0;
        for _ in 0..GATHERING_TURNS {
            // All tasks that can run do so before this one continues: the reads of one request of a client are here then.
            yield_now().await;
            let count = self.reads.lock().len();
            if count == known || count >= JOINED_COUNT_MAX {
                break;
            }
            known = count;
        }
        let mut reads = std::mem::take(&mut *self.reads.lock());
        if reads.len() > 1 {
            reads.sort_unstable_by_key(|read| read.rest.start());
            spread(reads);
        } else if let Some(mut only) = reads.pop() {
            // In this task: it needs none of its own.
            only.take_kept_connection();
            only.run().await;
        }
    }
}

/// Divides reads, sorted by offset, among connections.
fn spread(mut reads: Vec<RangeRead>) {
    let Some(pool) = reads.first().map(|read| Arc::clone(&read.shared.client.pool)) else { return };
    let mut kept = kept_connections(&reads).into_iter();
    let bytes: u64 = reads.iter().map(|read| read.rest.len()).sum();
    let needed =
        reads.len().div_ceil(JOINED_COUNT_MAX).max(usize::try_from(bytes.div_ceil(JOINED_LEN_MAX)).unwrap_or(1));
    // Those that exist are faster than new ones: connecting takes round trips.
    let spread = if kept.len() == 0 { JOINED_SPREAD } else { kept.len() };
    let group_len = reads.len().div_ceil(spread.max(needed)).max(1);
    while !reads.is_empty() {
        let mut group: Vec<RangeRead> = reads.drain(..group_len.min(reads.len())).collect();
        if let Some(first) = group.first_mut() {
            first.kept = kept.next();
        }
        if group.len() == 1 {
            group.into_iter().for_each(RangeRead::start);
        } else if let Some(joined) = JoinedRead::new(group) {
            tokio::spawn(joined.run());
        }
    }
    // There may be fewer groups than connections.
    kept.for_each(|unused| pool.park(unused));
}

/// Unused connections for `reads`, at most one for each and for each request that may be sent now.
fn kept_connections(reads: &[RangeRead]) -> Vec<Connection> {
    let Some(RangeRead { shared, server, .. }) = reads.first() else { return Vec::new() };
    let target = shared.target(*server).0;
    let count_max = reads.len().min(shared.turns.available_permits());
    std::iter::from_fn(|| shared.client.kept_connection(&target)).take(count_max).collect()
}
