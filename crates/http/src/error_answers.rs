//! Failures as answers.

use forebay_front::{Failure, FailureKind, RefusalKind};
use forebay_http_proto::{Refusal, Status};
use forebay_types::Side;
use std::borrow::Cow;

/// A request that is answered with an error.
#[derive(Debug)]
pub(crate) struct ErrorAnswer {
    pub(crate) status: Status,
    pub(crate) text: Cow<'static, str>,
    pub(crate) side: Side,
    /// The value of `WWW-Authenticate`: what the client can do about it.
    pub(crate) challenge: Option<&'static str>,
    /// The failure that it comes from, if any.
    pub(crate) kind: Option<FailureKind>,
    /// Its name for clients of S3, if the status does not determine it.
    pub(crate) code: Option<&'static str>,
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// Seconds after which clients of an overloaded server may come back.
const RETRY_AFTER_S: &str = "5";

impl ErrorAnswer {
    pub(crate) fn of_client(status: Status, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            side: Side::Client,
            challenge: None,
            kind: None,
            code: None,
            fields: Vec::new(),
        }
    }

    /// The client has to prove its identity.
    pub(crate) fn unauthorized(text: impl Into<Cow<'static, str>>, challenge: &'static str) -> Self {
        let (status, side) = (Status::UNAUTHORIZED, Side::Authorization);
        Self { challenge: Some(challenge), side, ..Self::of_client(status, text) }
    }

    #[must_use]
    pub(crate) const fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Status and name as clients of S3 know them.
    pub(crate) const fn for_s3(&self) -> (Status, &'static str) {
        let (status, code) = match self.status {
            // Clients of S3 have shown their proof, if any, with the request.
            Status::UNAUTHORIZED => (Status::FORBIDDEN, "AccessDenied"),
            // A directory is not an object.
            Status::CONFLICT => (Status::NOT_FOUND, "NoSuchKey"),
            Status::FORBIDDEN => (self.status, "AccessDenied"),
            Status::NOT_FOUND => (self.status, "NoSuchKey"),
            Status::METHOD_NOT_ALLOWED => (self.status, "MethodNotAllowed"),
            Status::PRECONDITION_FAILED => (self.status, "PreconditionFailed"),
            Status::URI_TOO_LONG => (self.status, "KeyTooLongError"),
            Status::RANGE_NOT_SATISFIABLE => (self.status, "InvalidRange"),
            Status::NOT_IMPLEMENTED => (self.status, "NotImplemented"),
            Status::UNAVAILABLE | Status::TOO_MANY_REQUESTS => (Status::UNAVAILABLE, "SlowDown"),
            Status(400..=499) => (self.status, "InvalidRequest"),
            _ => (self.status, "InternalError"),
        };
        match self.code {
            Some(code) => (status, code),
            None => (status, code),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    #[must_use]
    pub(crate) fn with_some(mut self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        self.fields.extend(value.map(|value| (name, value.into())));
        self
    }
}

impl From<Failure> for ErrorAnswer {
    fn from(Failure { kind, text, side }: Failure) -> Self {
        let status = status_of(kind);
        let answer = Self { side, kind: Some(kind), ..Self::of_client(status, text) };
        match status {
            Status::UNAUTHORIZED => Self { challenge: Some("Bearer error=\"invalid_token\""), ..answer },
            Status::UNAVAILABLE | Status::TOO_MANY_REQUESTS => answer.with("Retry-After", RETRY_AFTER_S),
            _ => answer,
        }
    }
}

impl From<Refusal> for ErrorAnswer {
    fn from(Refusal { status, text }: Refusal) -> Self {
        Self::of_client(status, text)
    }
}

impl From<forebay_types::LfnError> for ErrorAnswer {
    fn from(error: forebay_types::LfnError) -> Self {
        Failure::from(error).into()
    }
}

impl From<forebay_engine::Error> for ErrorAnswer {
    fn from(error: forebay_engine::Error) -> Self {
        Failure::from(error).into()
    }
}

const fn status_of(kind: FailureKind) -> Status {
    match kind {
        FailureKind::TokenRefused => Status::UNAUTHORIZED,
        FailureKind::NotAuthorized => Status::FORBIDDEN,
        FailureKind::NameTooLong => Status::URI_TOO_LONG,
        FailureKind::NameMissing | FailureKind::Invalid => Status::BAD_REQUEST,
        FailureKind::Unsupported => Status::NOT_IMPLEMENTED,
        FailureKind::NotFound => Status::NOT_FOUND,
        FailureKind::IsDirectory | FailureKind::NotDirectory => Status::CONFLICT,
        FailureKind::OriginRefused(kind) => status_of_refusal(kind),
        FailureKind::NoServer | FailureKind::Corrupt => Status::BAD_GATEWAY,
        FailureKind::OriginTimedOut | FailureKind::NotCached => Status::GATEWAY_TIMEOUT,
        FailureKind::Overloaded | FailureKind::OutOfMemory | FailureKind::ShuttingDown => Status::UNAVAILABLE,
        // Trying again helps: the origin has lost the connection, or the file has changed.
        FailureKind::Io => Status::BAD_GATEWAY,
        FailureKind::Internal => Status::INTERNAL,
    }
}

const fn status_of_refusal(kind: RefusalKind) -> Status {
    match kind {
        RefusalKind::NotFound | RefusalKind::NoReplica | RefusalKind::NoAttribute => Status::NOT_FOUND,
        RefusalKind::Denied
        | RefusalKind::NotAuthenticated
        | RefusalKind::TlsRequired
        | RefusalKind::ReadOnly
        | RefusalKind::BadSignature
        | RefusalKind::CannotDecrypt => Status::FORBIDDEN,
        RefusalKind::ArgumentTooLong => Status::URI_TOO_LONG,
        RefusalKind::Unsupported => Status::NOT_IMPLEMENTED,
        RefusalKind::IsDirectory
        | RefusalKind::NotDirectory
        | RefusalKind::NotFile
        | RefusalKind::Exists
        | RefusalKind::Conflict => Status::CONFLICT,
        RefusalKind::Busy | RefusalKind::InProgress | RefusalKind::Locked => Status::UNAVAILABLE,
        RefusalKind::TimedOut | RefusalKind::TimerExpired => Status::GATEWAY_TIMEOUT,
        RefusalKind::InvalidArgument
        | RefusalKind::MissingArgument
        | RefusalKind::InvalidRequest
        | RefusalKind::BadPayload
        | RefusalKind::NoServer
        | RefusalKind::NotOpen
        | RefusalKind::Cancelled
        | RefusalKind::TooManyErrors
        | RefusalKind::NoMemory
        | RefusalKind::NoSpace
        | RefusalKind::OverQuota
        | RefusalKind::IoError
        | RefusalKind::FileSystemError
        | RefusalKind::BadChecksum
        | RefusalKind::ServerError
        | RefusalKind::Impossible
        | RefusalKind::Other => Status::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_s3_get_the_names_that_they_know() {
        let s3 = |kind| ErrorAnswer::from(Failure::new(kind, Side::Origin, "text")).for_s3();
        for (kind, expected) in [
            (FailureKind::NotFound, (Status::NOT_FOUND, "NoSuchKey")),
            (FailureKind::IsDirectory, (Status::NOT_FOUND, "NoSuchKey")),
            (FailureKind::NotAuthorized, (Status::FORBIDDEN, "AccessDenied")),
            (FailureKind::TokenRefused, (Status::FORBIDDEN, "AccessDenied")),
            (FailureKind::Overloaded, (Status::UNAVAILABLE, "SlowDown")),
            (FailureKind::NoServer, (Status::BAD_GATEWAY, "InternalError")),
            (FailureKind::Invalid, (Status::BAD_REQUEST, "InvalidRequest")),
        ] {
            assert_eq!(s3(kind), expected, "{kind:?}");
        }
        let answer = ErrorAnswer::of_client(Status::FORBIDDEN, "text").with_code("RequestTimeTooSkewed");
        assert_eq!(answer.for_s3(), (Status::FORBIDDEN, "RequestTimeTooSkewed"));
    }

    #[test]
    fn failures_keep_their_side_and_say_what_helps() {
        let answer = |kind| ErrorAnswer::from(Failure::new(kind, Side::Origin, "text"));
        let overloaded = answer(FailureKind::Overloaded);
        assert_eq!((overloaded.status, overloaded.side), (Status::UNAVAILABLE, Side::Origin));
        assert_eq!(overloaded.fields, [("Retry-After", RETRY_AFTER_S.to_owned())]);
        assert!(answer(FailureKind::TokenRefused).challenge.is_some());
        for (kind, status) in [
            (FailureKind::NotFound, 404),
            (FailureKind::NotAuthorized, 403),
            (FailureKind::OriginTimedOut, 504),
            (FailureKind::NotCached, 504),
            (FailureKind::NoServer, 502),
            (FailureKind::NameTooLong, 414),
            (FailureKind::OriginRefused(RefusalKind::NotFound), 404),
            (FailureKind::OriginRefused(RefusalKind::Denied), 403),
            (FailureKind::OriginRefused(RefusalKind::Busy), 503),
        ] {
            let answer = answer(kind);
            assert_eq!((answer.status.0, answer.challenge), (status, None), "{kind:?}");
        }
    }
}
