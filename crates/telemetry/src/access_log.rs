//! The access log: one structured event for each close, each hand-over, and each open that failed or was refused.
//!
//! Names that a peer has chosen are recorded as strings, which every format of [`crate::init_logging`] quotes and escapes, so
//! that no file name can forge a line.

use crate::file_events::{Client, CloseEvent, DirectEvent, FailedEvent, FileEvents, OpenPurpose, RefusedEvent};
use forebay_types::Outcome;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Target of access events, for filters such as `forebay::access=off`.
pub const ACCESS_TARGET: &str = "forebay::access";

/// Lines on refused opens within [`WINDOW`]: a client without any rights must not fill the disk.
const REFUSED_LINES_MAX: u32 = 20;

const WINDOW: Duration = Duration::from_secs(1);

/// Writes events of files to the log, at level INFO.
#[derive(Debug, Default)]
pub struct AccessLog {
    refused: Mutex<RefusedLines>,
}

#[derive(Debug, Default)]
struct RefusedLines {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl RefusedLines {
    /// Whether a line may be written now, and how many were left out before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            self.began = Some(now);
            self.written = 0;
        }
        if self.written == REFUSED_LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl FileEvents for AccessLog {
    fn direct(&self, event: &DirectEvent<'_>) {
        let DirectEvent { client, lfn, path, .. } = event;
        let who = who(client);
        // The bytes that it has read by a switch are in the event of its close.
        if event.open.is_none() {
            tracing::info!(target: ACCESS_TARGET, who = who.as_str(), lfn = lfn.as_str(), path = %path.display(), "direct");
        } else {
            tracing::info!(target: ACCESS_TARGET, who = who.as_str(), lfn = lfn.as_str(), path = %path.display(), "switched");
        }
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        // The open that it is about has a line of its own.
        if event.purpose == OpenPurpose::Check {
            return;
        }
        let origin = event.origin.map_or_else(String::new, ToString::to_string);
        tracing::info!(
            target: ACCESS_TARGET,
            who = who(event.client).as_str(),
            lfn = event.lfn.as_str(),
            origin = origin.as_str(),
            hit_bytes = event.account.bytes(Outcome::Hit),
            missed_bytes = event.account.bytes(Outcome::Missed),
            coalesced_bytes = event.account.bytes(Outcome::Coalesced),
            bypassed_bytes = event.account.bytes(Outcome::Bypassed),
            duration_ms = millis(event.duration),
            opens = event.opens,
            "closed"
        );
    }

    fn refused(&self, event: &RefusedEvent<'_>) {
        let Some(left_out) = self.refused.lock().admit(event.at) else { return };
        if left_out > 0 {
            tracing::info!(target: ACCESS_TARGET, count = left_out, "more opens refused");
        }
        let RefusedEvent { client, lfn, kind, reason, .. } = event;
        let who = who(client);
        tracing::info!(target: ACCESS_TARGET, who = who.as_str(), lfn = lfn.as_str(), kind, reason, "open refused");
    }

    fn failed(&self, event: &FailedEvent<'_>) {
        // A read that fails is often repeated at once; the close reports the bytes that the client has got.
        if event.open.is_some() {
            return;
        }
        tracing::info!(
            target: ACCESS_TARGET,
            who = who(event.client).as_str(),
            lfn = event.lfn.as_str(),
            side = event.side.as_str(),
            kind = event.kind,
            reason = event.reason,
            duration_ms = event.duration.map(millis),
            "open failed"
        );
    }
}

fn who(client: &Client) -> String {
    format!("{}@{}", client.user, client.host)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_beyond_the_rate_are_counted_on_the_next_line() {
        let mut lines = RefusedLines::default();
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let start = Instant::now();
        for _ in 0..REFUSED_LINES_MAX {
            assert_eq!(lines.admit(start), Some(0));
        }
        assert_eq!((lines.admit(start), lines.admit(start)), (None, None));
        assert_eq!(lines.admit(start + WINDOW), Some(2));
        assert_eq!(lines.admit(start + WINDOW), Some(0));
    }
}
