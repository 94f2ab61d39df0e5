//! Lines of the log on what was refused: only so many in a second, because whoever insists must not fill the disk.

use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Lines on refusals within [`WINDOW`], of all clients together: enough to see what goes on, and some 400 MiB a day at the very most.
const LINES_MAX: u32 = 20;

/// The time for which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Decides which refusals are logged line by line, and tells how many were not. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusalLog(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl RefusalLog {
    /// Whether a refusal may have a line now. How many had none is logged when the window is over.
    pub(crate) fn has_room(&self) -> bool {
        let now = Instant::now();
        let mut lines = self.lines();
        let is_over = lines.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW);
        if is_over && lines.left_out == 0 {
            *lines = Lines { began: Some(now), written: 0, left_out: 0 };
        }
        if lines.left_out == 0 && lines.written < LINES_MAX {
            lines.written += 1;
            return true;
        }
        lines.left_out += 1;
        if lines.left_out == 1 {
            let end = lines.began.unwrap_or(now) + WINDOW;
            tokio::spawn(self.clone().sum_up(end));
        }
        false
    }

    async fn sum_up(self, end: Instant) {
        tokio::time::sleep_until(end).await;
        let left_out = std::mem::take(&mut *self.lines()).left_out;
        tracing::warn!(count = left_out, "more refusals that are not logged");
    }

    fn lines(&self) -> parking_lot::MutexGuard<'_, Lines> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(log: &RefusalLog, refusals: u32) -> usize {
        (0..refusals).filter(|_| log.has_room()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_refusals_are_logged_in_a_second_and_the_rest_is_summed_up() {
        let log = RefusalLog::default();
        assert_eq!(lines_of(&log, LINES_MAX), 20);
        assert_eq!(lines_of(&log, 500), 0);
        assert_eq!(log.lines().left_out, 500);
        tokio::time::sleep(WINDOW).await;
        tokio::task::yield_now().await;
        assert_eq!(log.lines().left_out, 0, "they were told");
        assert_eq!(lines_of(&log, 500), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_now_and_then_are_all_logged() {
        let log = RefusalLog::default();
        for _ in 0..10 {
            assert_eq!(lines_of(&log, LINES_MAX), 20);
            tokio::time::sleep(WINDOW).await;
        }
    }
}
