//! Which fill or check has which blocks of a file.

use crate::{base::latch::Latch, entries::fill::Fill};
use forebay_types::ByteRange;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The fills and the checks of one file that are under way. A block is in at most one of them.
#[derive(Default)]
pub(crate) struct Claims {
    /// Blocks found missing are claimed before the lock is released.
    pub(crate) fills: Mutex<Fills>,
    /// Blocks found to need a check are claimed before the lock is released. Locked after the fills where both are needed.
    pub(crate) checks: Mutex<Checks>,
}

/// Checks of one file that are under way, by the offset of their first block. A block is in at most one of them.
pub(crate) type Checks = BTreeMap<u64, Arc<Check>>;

/// Checks of all disks at the same time, and of one: each holds a thread and [`READ_LEN`](crate::entries::block_sums::READ_LEN) bytes.
pub(crate) const CHECKS_MAX: usize = 128;
pub(crate) const CHECKS_PER_DISK_MAX: usize = 32;

pub(crate) struct Check {
    pub(crate) blocks: ByteRange,
    pub(crate) ended: Latch,
}

/// Fills by the offset of their first block.
pub(crate) type Fills = BTreeMap<u64, Arc<Fill>>;

impl Claims {
    /// Gives the blocks of a fill free that has ended.
    pub(crate) fn release(&self, fill: &Arc<Fill>) {
        let mut fills = self.fills.lock();
        // The offset may belong to another fill by now: only the caller's own is removed.
        if fills.get(&fill.blocks().start()).is_some_and(|current| Arc::ptr_eq(current, fill)) {
            fills.remove(&fill.blocks().start());
        }
    }

    pub(crate) async fn all_released(&self) {
        loop {
            // The lock is released before the wait: the fill needs it to end.
            let fill = self.fills.lock().values().next().cloned();
            match fill {
                // A fill gives its blocks free before it ends.
                Some(fill) => fill.ended().await,
                None => return,
            }
        }
    }

    /// Gives the blocks of a check free that has ended.
    pub(crate) fn end_check(&self, check: &Arc<Check>) {
        let mut checks = self.checks.lock();
        // Checks that were given up may have been followed by others.
        if checks.get(&check.blocks.start()).is_some_and(|current| Arc::ptr_eq(current, check)) {
            checks.remove(&check.blocks.start());
        }
        drop(checks);
        // Out of the table before the waiters wake up: they plan again and must not find it.
        check.ended.set();
    }

    /// Ends all checks for those who wait: their disk may never answer.
    pub(crate) fn give_up_checks(&self) {
        let checks = std::mem::take(&mut *self.checks.lock());
        for check in checks.values() {
            check.ended.set();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fills.lock().is_empty() && self.checks.lock().is_empty()
    }
}

impl Check {
    /// Waits until each block of the check is trusted or missing.
    pub(crate) async fn ended(&self) {
        self.ended.wait().await;
    }
}

/// The check under way that the byte at `offset` is in.
pub(crate) fn covering(checks: &Checks, offset: u64) -> Option<&Arc<Check>> {
    // Checks do not overlap, so the last one that starts before the byte is the only candidate.
    let (_, check) = checks.range(..=offset).next_back()?;
    check.blocks.contains(offset).then_some(check)
}
