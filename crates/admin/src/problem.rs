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
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:ident, $title:literal;)+) => {
        /// What kind of error it is. The name is the last part of the problem's `type`.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum ProblemKind {
            $($(#[doc = $doc])+ $variant,)+
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

            /// What it is in a few words.
            #[must_use]
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

problem_kinds! {
    /// The request cannot be understood.
    Invalid = "invalid", BAD_REQUEST, "The request cannot be understood";
    /// No token, or a wrong one.
    Unauthorized = "unauthorized", UNAUTHORIZED, "The token is missing or wrong";
    /// The API is off on this port, or not for this user.
    Forbidden = "forbidden", FORBIDDEN, "The API is not open to this caller";
    /// There is no such path below `/api/`.
    NoSuchPath = "no-such-path", NOT_FOUND, "The API has no such path";
    /// The cache has no such file.
    NotCached = "not-cached", NOT_FOUND, "The cache has no such file";
    /// There is no such job; it may have ended long ago, or before the server was started.
    NoSuchJob = "no-such-job", NOT_FOUND, "There is no such job";
    /// The path has other methods.
    Method = "method", METHOD_NOT_ALLOWED, "The path has other methods";
    /// The file is open.
    Open = "open", CONFLICT, "The file is open";
    /// The file is pinned.
    Pinned = "pinned", CONFLICT, "The file is pinned";
    /// The server keeps no files, or is not set up for this.
    NotSetUp = "not-set-up", CONFLICT, "The server is not set up for this";
    /// The server is draining.
    Draining = "draining", CONFLICT, "The server is draining";
    /// The request's body is too long.
    TooLong = "too-long", PAYLOAD_TOO_LARGE, "The body is too long";
    /// The request's body is no JSON.
    MediaType = "media-type", UNSUPPORTED_MEDIA_TYPE, "The body must be JSON";
    /// Too many jobs are running.
    TooManyJobs = "too-many-jobs", TOO_MANY_REQUESTS, "Too many jobs are running";
    /// A fault of the server or of its disk.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed";
    /// It may work later.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "This may work later";
}

impl Problem {
    /// An error of `kind`; `detail` tells what happened to this request.
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
    fn every_kind_has_a_name_of_its_own_and_an_error_status() {
        let names: BTreeSet<_> = ProblemKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ProblemKind::ALL.len());
        for kind in ProblemKind::ALL {
            let status = kind.status();
            assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
        }
    }
}
