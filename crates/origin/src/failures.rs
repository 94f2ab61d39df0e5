//! Failed requests in the metrics of origins.

use crate::OriginError;
use forebay_telemetry::{Fault, OriginMetrics};

/// Counts the failure of a request other than a read, and notes whether its server has failed. `is_own` excludes credentials of clients:
/// a server that refuses those does not fail.
pub fn count_failure(metrics: &OriginMetrics, error: &OriginError, is_own: bool) {
    let (server, now) = (error.endpoint(), forebay_net::clock::monotonic());
    match error {
        OriginError::Unreachable { .. } | OriginError::TimedOut { .. } | OriginError::Tls { .. } => {
            metrics.add_failure_of(server, Fault::Down, error, now)
        }
        OriginError::Authentication { .. } if is_own => metrics.add_failure_of(server, Fault::Down, error, now),
        OriginError::Lost { .. } | OriginError::Protocol { .. } => {
            metrics.add_failure_of(server, Fault::Broken, error, now);
        }
        // It has answered: the refusal concerns one request.
        OriginError::Refused { .. } => {
            metrics.add_error();
            metrics.note_answer(server, false, now);
        }
        // They say nothing about whether the server can be used.
        OriginError::Authentication { .. }
        | OriginError::Corrupt { .. }
        | OriginError::ShortRead { .. }
        | OriginError::Changed { .. }
        | OriginError::RedirectLoop { .. }
        | OriginError::RedirectRefused { .. }
        | OriginError::Itself { .. } => metrics.add_error(),
    }
}
