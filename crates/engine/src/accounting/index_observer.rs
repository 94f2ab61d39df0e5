//! Keeps the purge ledger up to date with the index.

use crate::{accounting::purge_ledger::PurgeLedger, catalog::index_observer::IndexObserver};
use forebay_cache::{CacheKey, Ledger};
use forebay_index::{Applied, Record};

impl IndexObserver for PurgeLedger {
    fn begin(&self) {
        *self.ledger.lock() = Ledger::new(&self.options.rules);
    }

    fn found(&self, key: &CacheKey, record: &Record) {
        insert(&mut self.ledger.lock(), key, record);
    }

    fn changed(&self, applied: &Applied) {
        let mut ledger = self.ledger.lock();
        let before = applied.before.as_ref();
        // Another id under the same key is another entry: the old one leaves the ledger before the new one enters it.
        if let Some(before) = before.filter(|before| applied.after.as_ref().is_none_or(|after| after.id != before.id)) {
            ledger.removed(before.id);
        }
        let Some(after) = &applied.after else { return };
        match before.filter(|before| before.id == after.id) {
            Some(before) => {
                ledger.resized(after.id, &applied.key, after.disk.present_bytes);
                // A record counts at least one use, its creation, which the ledger has noted with the insertion.
                let uses = after.disk.uses.saturating_sub(before.disk.uses.max(1));
                if uses > 0 || after.disk.last_use > before.disk.last_use {
                    ledger.used(after.id, milliseconds(after.disk.last_use), uses);
                }
                if before.owner != after.owner {
                    ledger.owned(after.id, &applied.key, after.owner.as_deref());
                }
                if before.pinned_until != after.pinned_until {
                    pin(&mut ledger, after);
                }
            }
            None => insert(&mut ledger, &applied.key, after),
        }
    }
}

fn insert(ledger: &mut Ledger, key: &CacheKey, record: &Record) {
    let disk = &record.disk;
    ledger.insert(record.id, key, disk.volume, disk.present_bytes, milliseconds(disk.last_use), disk.uses);
    if record.owner.is_some() {
        ledger.owned(record.id, key, record.owner.as_deref());
    }
    pin(ledger, record);
}

fn pin(ledger: &mut Ledger, record: &Record) {
    match record.pinned_until {
        // An old pin ends when the next purge begins.
        Some(until) => ledger.pin(record.id, until),
        None => ledger.unpin(record.id),
    }
}

/// Saturates: a damaged record may hold any time.
pub(crate) const fn milliseconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1000)
}
