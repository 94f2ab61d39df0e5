//! Who fetches which blocks of a file.

use crate::{entries::fill::Fill, transfer::block_check::Checks};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, sync::Arc};

/// The fills and the checks of one file that are under way. A block is in at most one of them.
#[derive(Default)]
pub(crate) struct Claims {
    fills: Mutex<Fills>,
    /// Locked behind the fills by who needs both.
    checks: Mutex<Checks>,
}

/// Fills by the offset of their first block.
pub(crate) type Fills = BTreeMap<u64, Arc<Fill>>;

impl Claims {
    /// Gives the blocks of a fill free that has ended.
    pub(crate) fn release(&self, fill: &Arc<Fill>) {
        let mut fills = self.fills();
        if fills.get(&fill.blocks().start()).is_some_and(|current| Arc::ptr_eq(current, fill)) {
            fills.remove(&fill.blocks().start());
        }
    }

    /// Waits until no fill is under way.
    pub(crate) async fn all_released(&self) {
        loop {
            let fill = self.fills().values().next().cloned();
            match fill {
                // A fill gives its blocks free before it ends.
                Some(fill) => fill.ended().await,
                None => return,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fills().is_empty() && self.checks().is_empty()
    }

    /// The checks, locked: whoever looks for blocks to be checked claims them before letting go.
    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock()
    }

    /// The fills, locked: whoever looks for missing blocks claims them before letting go.
    pub(crate) fn fills(&self) -> MutexGuard<'_, Fills> {
        self.fills.lock()
    }
}
