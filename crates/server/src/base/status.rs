//! Failures as `root://` clients see them.

use forebay_engine::Error;
use forebay_front::{FailureKind, RefusalKind};
use forebay_proto::ErrorCode;
use forebay_types::{LfnError, Side};
use std::borrow::Cow;

/// An error response: its number on the wire and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    /// For a person to read.
    pub(crate) text: Cow<'static, str>,
    /// For the metrics.
    pub(crate) side: Side,
}

impl Failure {
    /// A fault in the client's request.
    pub(crate) fn client(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into(), side: Side::Client }
    }

    /// A fault of this program.
    pub(crate) fn internal(text: &'static str) -> Self {
        Self { code: ErrorCode::SERVER_ERROR, text: text.into(), side: Side::Internal }
    }

    /// A handle of no open file.
    pub(crate) fn not_open() -> Self {
        Self::client(ErrorCode::FILE_NOT_OPEN, "the handle does not refer to an open file")
    }
}

impl From<forebay_front::Failure> for Failure {
    fn from(failure: forebay_front::Failure) -> Self {
        Self { code: code_of(failure.kind), text: failure.text, side: failure.side }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        forebay_front::Failure::from(error).into()
    }
}

impl From<LfnError> for Failure {
    fn from(error: LfnError) -> Self {
        forebay_front::Failure::from(error).into()
    }
}

/// The number on the wire. Clients decide by it whether to try again, and where.
const fn code_of(kind: FailureKind) -> ErrorCode {
    match kind {
        FailureKind::TokenRefused | FailureKind::NotAuthorized => ErrorCode::NOT_AUTHORIZED,
        FailureKind::NameMissing => ErrorCode::ARG_MISSING,
        FailureKind::NameTooLong => ErrorCode::ARG_TOO_LONG,
        FailureKind::Invalid => ErrorCode::ARG_INVALID,
        FailureKind::Unsupported => ErrorCode::UNSUPPORTED,
        FailureKind::NotFound => ErrorCode::NOT_FOUND,
        FailureKind::IsDirectory => ErrorCode::IS_DIRECTORY,
        FailureKind::NotDirectory => ErrorCode::FS_ERROR,
        FailureKind::OriginRefused(kind) => refusal_code(kind),
        FailureKind::NoServer => ErrorCode::NO_SERVER,
        FailureKind::OriginTimedOut => ErrorCode::REQUEST_TIMED_OUT,
        FailureKind::Corrupt => ErrorCode::CHECKSUM_ERROR,
        FailureKind::Io => ErrorCode::IO_ERROR,
        FailureKind::NotCached => ErrorCode::TIMER_EXPIRED,
        FailureKind::Overloaded => ErrorCode::OVERLOADED,
        FailureKind::OutOfMemory => ErrorCode::NO_MEMORY,
        FailureKind::ShuttingDown => ErrorCode::CANCELLED,
        FailureKind::Internal => ErrorCode::SERVER_ERROR,
    }
}

/// The number on the wire for each refusal of an origin: for a `root://` origin the one that it has sent.
const fn refusal_code(kind: RefusalKind) -> ErrorCode {
    match kind {
        RefusalKind::NotFound => ErrorCode::NOT_FOUND,
        RefusalKind::Denied => ErrorCode::NOT_AUTHORIZED,
        RefusalKind::NotAuthenticated => ErrorCode::AUTH_FAILED,
        RefusalKind::TlsRequired => ErrorCode::TLS_REQUIRED,
        RefusalKind::InvalidArgument => ErrorCode::ARG_INVALID,
        RefusalKind::MissingArgument => ErrorCode::ARG_MISSING,
        RefusalKind::ArgumentTooLong => ErrorCode::ARG_TOO_LONG,
        RefusalKind::InvalidRequest => ErrorCode::INVALID_REQUEST,
        RefusalKind::BadPayload => ErrorCode::BAD_PAYLOAD,
        RefusalKind::BadSignature => ErrorCode::SIGNATURE_ERROR,
        RefusalKind::CannotDecrypt => ErrorCode::DECRYPT_ERROR,
        RefusalKind::Unsupported => ErrorCode::UNSUPPORTED,
        RefusalKind::NoServer => ErrorCode::NO_SERVER,
        RefusalKind::NoReplica => ErrorCode::NO_REPLICAS,
        RefusalKind::NotFile => ErrorCode::NOT_FILE,
        RefusalKind::IsDirectory => ErrorCode::IS_DIRECTORY,
        RefusalKind::Exists => ErrorCode::IT_EXISTS,
        RefusalKind::NoAttribute => ErrorCode::ATTR_NOT_FOUND,
        RefusalKind::Locked => ErrorCode::FILE_LOCKED,
        RefusalKind::NotOpen => ErrorCode::FILE_NOT_OPEN,
        RefusalKind::Conflict => ErrorCode::CONFLICT,
        RefusalKind::InProgress => ErrorCode::IN_PROGRESS,
        RefusalKind::Cancelled => ErrorCode::CANCELLED,
        RefusalKind::Busy => ErrorCode::OVERLOADED,
        RefusalKind::TooManyErrors => ErrorCode::TOO_MANY_ERRORS,
        RefusalKind::TimedOut => ErrorCode::REQUEST_TIMED_OUT,
        RefusalKind::TimerExpired => ErrorCode::TIMER_EXPIRED,
        RefusalKind::NoMemory => ErrorCode::NO_MEMORY,
        RefusalKind::NoSpace => ErrorCode::NO_SPACE,
        RefusalKind::OverQuota => ErrorCode::OVER_QUOTA,
        RefusalKind::ReadOnly => ErrorCode::FS_READ_ONLY,
        RefusalKind::IoError => ErrorCode::IO_ERROR,
        // The number that stock servers answer with: none of the others says it.
        RefusalKind::FileSystemError | RefusalKind::NotDirectory => ErrorCode::FS_ERROR,
        RefusalKind::BadChecksum => ErrorCode::CHECKSUM_ERROR,
        RefusalKind::ServerError | RefusalKind::Other => ErrorCode::SERVER_ERROR,
        RefusalKind::Impossible => ErrorCode::IMPOSSIBLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_origin::OriginError;
    use forebay_origin_root::refusal_kind;
    use forebay_types::{Endpoint, Lfn};

    fn endpoint() -> Endpoint {
        Endpoint::new("origin", 1094)
    }

    #[test]
    fn the_refusal_of_a_root_origin_reaches_the_client_with_number_and_text() {
        for &code in ErrorCode::ALL {
            assert_eq!(refusal_code(refusal_kind(code)), code, "{code}");
        }
        assert_eq!(refusal_code(refusal_kind(ErrorCode(4711))), ErrorCode::SERVER_ERROR, "an undefined number");
        let (kind, text) = (refusal_kind(ErrorCode::NOT_FOUND), "no such file".to_owned());
        let refused = OriginError::Refused { endpoint: endpoint(), kind, text };
        let failure = Failure::from(Error::Origin(refused));
        assert_eq!((failure.code, failure.text.as_ref()), (ErrorCode::NOT_FOUND, "no such file"));
        assert_eq!(failure.side, Side::Origin);
    }

    #[test]
    fn each_error_has_its_number() {
        let lfn = || Lfn::parse("/f").unwrap();
        let reason = || "gone".to_owned();
        for (error, code) in [
            (Error::Path(LfnError::Climbs), ErrorCode::NOT_AUTHORIZED),
            (Error::Path(LfnError::TooLong), ErrorCode::ARG_TOO_LONG),
            (Error::Path(LfnError::NotUtf8), ErrorCode::ARG_INVALID),
            (Error::NotExported { lfn: lfn() }, ErrorCode::NOT_AUTHORIZED),
            (Error::ForwardingDenied { origin: endpoint().into() }, ErrorCode::NOT_AUTHORIZED),
            (Error::NotFound { lfn: lfn() }, ErrorCode::NOT_FOUND),
            (Error::IsDirectory { lfn: lfn() }, ErrorCode::IS_DIRECTORY),
            (Error::Changed { lfn: lfn() }, ErrorCode::IO_ERROR),
            (
                Error::Stale { lfn: lfn(), origin: endpoint().into(), seconds: 5, reason: reason() },
                ErrorCode::NO_SERVER,
            ),
            (Error::NotCached { lfn: lfn() }, ErrorCode::TIMER_EXPIRED),
            (Error::TooManyOpen { limit: 1 }, ErrorCode::OVERLOADED),
            (Error::ShuttingDown, ErrorCode::CANCELLED),
            (OriginError::Unreachable { endpoint: endpoint(), reason: reason() }.into(), ErrorCode::NO_SERVER),
            (
                OriginError::TimedOut { endpoint: endpoint(), doing: "opening", seconds: 5 }.into(),
                ErrorCode::REQUEST_TIMED_OUT,
            ),
            (OriginError::Corrupt { endpoint: endpoint(), offset: 0 }.into(), ErrorCode::CHECKSUM_ERROR),
            (OriginError::RedirectLoop { endpoint: endpoint(), limit: 16 }.into(), ErrorCode::SERVER_ERROR),
            (OriginError::Tls { endpoint: endpoint(), reason: String::new() }.into(), ErrorCode::SERVER_ERROR),
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.code, code, "{}", failure.text);
            assert!(!failure.text.is_empty());
        }
    }
}
