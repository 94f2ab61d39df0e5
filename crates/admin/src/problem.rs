//! Errors of the API, as RFC 9457 describes them.

use forebay_types::Side;
use hyper::StatusCode;
use std::fmt;

/// An error of the API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    pub(crate) detail: String,
}

macro_rules! problem_kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $status:ident, $title:literal;)+) => {
        /// The kind of an error. The name is the last part of the problem's `type`.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum ProblemKind {
            $($(#[doc = $doc])* $variant,)+
        }

        impl ProblemKind {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            #[must_use]
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            #[must_use]
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            #[must_use]
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

problem_kinds! {
    Invalid = "invalid", BAD_REQUEST, "The request is invalid";
    Unauthorized = "unauthorized", UNAUTHORIZED, "The token is missing or wrong";
    /// The API is off on this port, or not for this user.
    Forbidden = "forbidden", FORBIDDEN, "The caller is not allowed to use the API";
    NoSuchPath = "no-such-path", NOT_FOUND, "The API has no such path";
    NotCached = "not-cached", NOT_FOUND, "The cache has no such file";
    NoSuchJob = "no-such-job", NOT_FOUND, "There is no such job";
    Method = "method", METHOD_NOT_ALLOWED, "The path does not support this method";
    Open = "open", CONFLICT, "The file is open";
    Pinned = "pinned", CONFLICT, "The file is pinned";
/// The server caches no files, or is not configured for this.
    NotSetUp = "not-set-up", CONFLICT, "The server is not configured for this";
    Draining = "draining", CONFLICT, "The server is draining";
    TooLong = "too-long", PAYLOAD_TOO_LARGE, "The body is too long";
    MediaType = "media-type", UNSUPPORTED_MEDIA_TYPE, "The body must be JSON";
    TooManyJobs = "too-many-jobs", TOO_MANY_REQUESTS, "Too many jobs are running";
/// An error of the server or of its disk.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Temporarily unavailable";
}

impl Problem {
    /// An error of `kind`; `detail` describes this occurrence.
    pub(crate) fn new(kind: ProblemKind, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string() }
    }

    pub(crate) fn invalid(detail: impl fmt::Display) -> Self {
        Self::new(ProblemKind::Invalid, detail)
    }
}

impl From<forebay_engine::Error> for Problem {
    fn from(error: forebay_engine::Error) -> Self {
        let kind = match error.side() {
            _ if error.is_retryable() => ProblemKind::Unavailable,
            Side::Client | Side::Authorization => ProblemKind::Invalid,
            Side::Origin | Side::Disk | Side::Internal => ProblemKind::Internal,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_unique_name_and_an_error_status() {
        let names: BTreeSet<_> = ProblemKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ProblemKind::ALL.len());
        for kind in ProblemKind::ALL {
            let status = kind.status();
            assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
        }
    }
}
