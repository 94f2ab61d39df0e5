//! Log lines on refusals. Their rate is limited, because a persistent client must not fill the disk.

use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Lines within [`WINDOW`], of all clients together: enough to see the pattern, and 400 MiB a day at most.
const LINES_MAX: u32 = 20;

const WINDOW: Duration = Duration::from_secs(1);

/// Decides which refusals get a line of their own, and logs how many did not. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub struct RefusalLog(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl RefusalLog {
    /// Whether a refusal may be logged now. The number of refusals that were not is logged at the end of the window.
    pub fn has_room(&self) -> bool {
        let now = Instant::now();
        let mut lines = self.0.lock();
        let is_over = lines.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW);
        // While lines are left out, the window ends with their sum, not with the next refusal.
        if is_over && lines.left_out == 0 {
            *lines = Lines { began: Some(now), written: 0, left_out: 0 };
        }
        if lines.left_out == 0 && lines.written < LINES_MAX {
            lines.written += 1;
            return true;
        }
        lines.left_out += 1;
        if lines.left_out == 1 {
            // One task per window: the first line left out starts it.
            let end = lines.began.unwrap_or(now) + WINDOW;
            tokio::spawn(self.clone().sum_up(end));
        }
        false
    }

    async fn sum_up(self, end: Instant) {
        tokio::time::sleep_until(end).await;
        let left_out = std::mem::take(&mut *self.0.lock()).left_out;
        tracing::warn!(count = left_out, "more refusals that are not logged");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(log: &RefusalLog, refusals: u32) -> usize {
        (0..refusals).map(|_| usize::from(log.has_room())).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_beyond_the_rate_are_counted_in_one_line() {
        let log = RefusalLog::default();
        assert_eq!(lines_of(&log, LINES_MAX), 20);
        assert_eq!(lines_of(&log, 500), 0);
        assert_eq!(log.0.lock().left_out, 500);
        tokio::time::sleep(WINDOW).await;
        tokio::task::yield_now().await;
        assert_eq!(log.0.lock().left_out, 0, "their number was logged");
        assert_eq!(lines_of(&log, 500), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_below_the_rate_are_all_logged() {
        let log = RefusalLog::default();
        for _ in 0..10 {
            assert_eq!(lines_of(&log, LINES_MAX), 20);
            tokio::time::sleep(WINDOW).await;
        }
    }
}
