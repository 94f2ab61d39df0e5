//! The cost of the surplus bytes of blocks while the cache turns over, and the bytes by which hits have paid for it.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Admits surplus, the bytes of blocks that no reader has requested, without limit while the cache only grows, and if hits
/// have paid for it while purges make room. The origin then sends no more than clients request.
#[derive(Default)]
pub(crate) struct SurplusAccount(Mutex<Option<TurnOver>>);

struct TurnOver {
    last_purge: Instant,
    /// Bytes saved up to here pay for nothing more.
    paid_up_to: u64,
}

/// Time after a purge for which the cache counts as turning over. Then surplus is fetched until the next purge, so that a working
/// set that fits is cached again even if there were no hits at all.
const TURN_OVER: Duration = Duration::from_secs(60);

/// Bytes that may be saved up: a long time of hits does not pay for a long time of waste.
const SAVED_MAX: u64 = 64 << 20;

impl SurplusAccount {
    /// A purge has removed entries, when clients had been saved `saved` bytes of their origins since the start.
    pub(crate) fn note_purged(&self, now: Instant, saved: u64) {
        let mut account = self.0.lock();
        let paid_up_to = account.as_ref().map_or(saved, |turn_over| turn_over.paid_up_to);
        *account = Some(TurnOver { last_purge: now, paid_up_to });
    }

    /// Whether `surplus` bytes may be fetched, now that `saved` bytes have been saved since the start.
    pub(crate) fn admits(&self, now: Instant, saved: u64, surplus: u64) -> bool {
        let mut account = self.0.lock();
        let Some(turn_over) = account.as_mut() else { return true };
        if now.saturating_duration_since(turn_over.last_purge) >= TURN_OVER {
            *account = None;
            return true;
        }
        turn_over.paid_up_to = turn_over.paid_up_to.max(saved.saturating_sub(SAVED_MAX));
        let is_paid = turn_over.paid_up_to.saturating_add(surplus) <= saved;
        if is_paid {
            turn_over.paid_up_to += surplus;
        }
        is_paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_is_free_until_a_purge_and_then_paid_by_hits() {
        let account = SurplusAccount::default();
        let now = forebay_net::clock::monotonic();
        assert!(account.admits(now, 0, u64::MAX));
        account.note_purged(now, 1000);
        assert!(!account.admits(now, 1000, 1) && account.admits(now, 1000, 0));
        assert!(account.admits(now, 1100, 100) && !account.admits(now, 1100, 1));
        account.note_purged(now, 1200);
        assert!(account.admits(now, 1200, 100), "saved bytes outlive a purge");
        assert!(account.admits(now + TURN_OVER, 1200, u64::MAX));
        assert!(account.admits(now, 1200, u64::MAX), "the cache counts as growing again");
    }

    #[test]
    fn a_long_time_of_hits_pays_for_a_bounded_surplus() {
        let account = SurplusAccount::default();
        let now = forebay_net::clock::monotonic();
        account.note_purged(now, 0);
        assert!(!account.admits(now, 1 << 40, SAVED_MAX + 1) && account.admits(now, 1 << 40, SAVED_MAX));
        assert!(!account.admits(now, 1 << 40, 1));
    }
}
