//! Status codes as refusals.

use forebay_origin::RefusalKind;
use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The reason that a status stands for.
pub(crate) const fn refusal_kind(status: StatusCode) -> RefusalKind {
    match status.as_u16() {
        401 | 407 => RefusalKind::NotAuthenticated,
        403 => RefusalKind::Denied,
        404 | 410 => RefusalKind::NotFound,
        405 | 501 => RefusalKind::Unsupported,
        408 | 504 => RefusalKind::TimedOut,
        409 => RefusalKind::Conflict,
        414 => RefusalKind::ArgumentTooLong,
        423 => RefusalKind::Locked,
        429 | 503 => RefusalKind::Busy,
        507 => RefusalKind::NoSpace,
        400..=499 => RefusalKind::InvalidRequest,
        500..=599 => RefusalKind::ServerError,
        _ => RefusalKind::Other,
    }
}

/// The pause that a server asks for before the next request, at `now`: in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn pauses_are_seconds_or_dates() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", None),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn only_passing_states_are_worth_another_attempt() {
        for (status, is_retryable) in [(404, false), (403, false), (429, true), (500, true), (503, true), (412, false)]
        {
            assert_eq!(refusal_kind(StatusCode::from_u16(status).unwrap()).is_retryable(), is_retryable, "{status}");
        }
    }
}
