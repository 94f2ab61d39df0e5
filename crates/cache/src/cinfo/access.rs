//! Access records: who used a file when, coarser the longer ago.

/// Most records kept for a file.
pub const ACCESSES_KEPT: usize = 20;

/// One access period: from the first open of a file to the close of its last handle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// First open, in seconds of the Unix epoch.
    pub attached: i64,
    /// End of the period in seconds of the Unix epoch; `None` while it lasts, or when a crash ended it.
    pub detached: Option<i64>,
    pub opens: i32,
    /// Seconds from open to close, summed over those opens.
    pub duration_seconds: i32,
    /// How many other records were merged into this one.
    pub merged: i32,
    pub hit_bytes: u64,
    pub missed_bytes: u64,
    /// Bytes served from the origin and not kept.
    pub bypassed_bytes: u64,
}

impl Access {
    /// The record of a period that begins at `now`, in seconds of the Unix epoch.
    pub fn begun(now: i64) -> Self {
        Self { attached: now, ..Self::default() }
    }

    /// Merges `later`, the next record, into this one.
    const fn merge(&mut self, later: &Self) {
        self.detached = later.detached;
        self.opens = self.opens.saturating_add(later.opens);
        self.duration_seconds = self.duration_seconds.saturating_add(later.duration_seconds);
        self.merged = self.merged.saturating_add(later.merged).saturating_add(1);
        self.hit_bytes = self.hit_bytes.saturating_add(later.hit_bytes);
        self.missed_bytes = self.missed_bytes.saturating_add(later.missed_bytes);
        self.bypassed_bytes = self.bypassed_bytes.saturating_add(later.bypassed_bytes);
    }
}

/// Merges records until at most `limit` are left (never fewer than two), exactly as XCache does: periods whose gap is
/// small for its age go first, the newest record is left alone. `now` is in seconds of the Unix epoch.
///
/// Does nothing when there are no more than `limit`. Else the end of periods that a crash left open is estimated.
pub fn compact_accesses(accesses: &mut Vec<Access>, limit: usize, now: i64) {
    if accesses.len() <= limit {
        return;
    }
    close_crashed(accesses);
    while accesses.len() > limit {
        let Some(first) = closest_pair(accesses, now) else {
            return;
        };
        let later = accesses.remove(first + 1);
        if let Some(access) = accesses.get_mut(first) {
            access.merge(&later);
        }
    }
}

/// Estimates the end of each period but the newest that has none.
fn close_crashed(accesses: &mut [Access]) {
    let next_attached: Vec<i64> = accesses.iter().skip(1).map(|access| access.attached).collect();
    for (access, next_attached) in accesses.iter_mut().zip(next_attached) {
        if access.detached.is_none() {
            // XCache divides by the number of opens unguarded; a record of a crash may have none.
            let mean_seconds = access.duration_seconds.checked_div(access.opens).unwrap_or(0);
            let estimate = access.attached.saturating_add(i64::from(mean_seconds));
            access.detached = Some(estimate.min(next_attached));
        }
    }
}

/// The first record of the pair whose gap is smallest in relation to its age; pairs with the newest record do not count.
fn closest_pair(accesses: &[Access], now: i64) -> Option<usize> {
    let (_newest, older) = accesses.split_last()?;
    let gaps = older.iter().zip(older.iter().skip(1)).map(|(a, b)| relative_gap(a, b, now));
    let mut closest: Option<(usize, f64)> = None;
    for (position, gap) in gaps.enumerate() {
        if closest.is_none_or(|(_, smallest)| gap < smallest) {
            closest = Some((position, gap));
        }
    }
    closest.map(|(position, _)| position)
}

fn relative_gap(a: &Access, b: &Access, now: i64) -> f64 {
    let end = a.detached.unwrap_or(0);
    let age = (now.saturating_sub(b.attached) / 2).saturating_add(now.saturating_sub(end) / 2).max(1);
    b.attached.saturating_sub(end) as f64 / age as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(attached: i64, detached: i64) -> Access {
        Access {
            attached,
            detached: Some(detached).filter(|&time| time != 0),
            opens: 1,
            duration_seconds: 10,
            merged: 0,
            hit_bytes: 1,
            missed_bytes: 10,
            bypassed_bytes: 100,
        }
    }

    #[test]
    fn few_records_are_left_as_they_are() {
        let mut accesses = vec![access(1000, 0), access(2000, 0)];
        compact_accesses(&mut accesses, 2, 3000);
        assert_eq!(accesses, [access(1000, 0), access(2000, 0)]);
    }

    #[test]
    fn the_gap_that_is_smallest_for_its_age_is_closed_first() {
        // Gaps of 100, 10 and 100 seconds; then the newest.
        let mut accesses =
            vec![access(1000, 1010), access(1110, 1120), access(1130, 1140), access(1240, 1250), access(9000, 0)];
        compact_accesses(&mut accesses, 4, 10_000);
        let merged = Access {
            attached: 1110,
            detached: Some(1140),
            opens: 2,
            duration_seconds: 20,
            merged: 1,
            hit_bytes: 2,
            missed_bytes: 20,
            bypassed_bytes: 200,
        };
        assert_eq!(accesses, [access(1000, 1010), merged, access(1240, 1250), access(9000, 0)]);
    }

    #[test]
    fn equal_gaps_merge_the_oldest_pair() {
        let mut accesses = vec![access(100, 100), access(100, 100), access(100, 100), access(500, 0)];
        compact_accesses(&mut accesses, 3, 100);
        assert_eq!(accesses.iter().map(|access| access.merged).collect::<Vec<_>>(), [1, 0, 0]);
    }

    #[test]
    fn the_newest_record_is_never_merged() {
        let mut accesses: Vec<_> = (0..50).map(|n| access(1000 + n, 1000 + n)).collect();
        compact_accesses(&mut accesses, 0, 2000);
        assert_eq!(accesses.len(), 2);
        assert_eq!(accesses[1], access(1049, 1049));
        assert_eq!((accesses[0].merged, accesses[0].opens), (48, 49));
    }

    #[test]
    fn periods_left_open_by_a_crash_get_an_estimated_end() {
        let crashed = Access { opens: 2, duration_seconds: 60, ..access(1000, 0) };
        let never_opened = Access { opens: 0, duration_seconds: 60, ..access(5000, 0) };
        let overlapping = Access { opens: 1, duration_seconds: 600, ..access(6000, 0) };
        let mut accesses = vec![crashed, never_opened, overlapping, access(6100, 6200), access(9000, 0)];
        close_crashed(&mut accesses);
        let ends: Vec<_> = accesses.iter().map(|access| access.detached).collect();
        assert_eq!(ends, [Some(1030), Some(5000), Some(6100), Some(6200), None]);
    }
}
