//! What a client is told when something failed.

use forebay_engine::Error;
use forebay_origin::OriginError;
use forebay_proto::ErrorCode;
use forebay_types::{LfnError, Side};
use std::{borrow::Cow, io};

/// An error as a client is told: its number on the wire and its text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// The number.
    pub(crate) code: ErrorCode,
    /// The text, for a person to read.
    pub(crate) text: Cow<'static, str>,
    /// Whose side it is on, for the metrics.
    pub(crate) side: Side,
}

impl Failure {
    /// A fault in what the client asked for.
    pub(crate) fn client(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into(), side: Side::Client }
    }

    /// A fault of our own.
    pub(crate) fn internal(text: &'static str) -> Self {
        Self { code: ErrorCode::SERVER_ERROR, text: text.into(), side: Side::Internal }
    }

    /// A handle that names no open file.
    pub(crate) fn not_open() -> Self {
        Self::client(ErrorCode::FILE_NOT_OPEN, "the handle does not refer to an open file")
    }

    /// A disk that does not give what it holds.
    pub(crate) fn disk(error: &io::Error) -> Self {
        Self { code: ErrorCode::IO_ERROR, text: format!("cannot read the disk: {error}").into(), side: Side::Disk }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = match &error {
            Error::Origin(OriginError::Refused { text, .. }) => text.clone(),
            error => error.to_string(),
        };
        Self { code: code_of(&error), text: text.into(), side: error.side() }
    }
}

impl From<LfnError> for Failure {
    fn from(error: LfnError) -> Self {
        Error::Path(error).into()
    }
}

/// The number on the wire for each way to fail.
const fn code_of(error: &Error) -> ErrorCode {
    match error {
        Error::Path(error) => match error {
            LfnError::Relative | LfnError::Climbs => ErrorCode::NOT_AUTHORIZED,
            LfnError::TooLong => ErrorCode::ARG_TOO_LONG,
            LfnError::Missing => ErrorCode::ARG_MISSING,
            LfnError::Nul | LfnError::NotUtf8 => ErrorCode::ARG_INVALID,
        },
        Error::NotExported { .. } | Error::ForwardingDenied { .. } | Error::NotReadable { .. } => {
            ErrorCode::NOT_AUTHORIZED
        }
        Error::Forwarding { .. } => ErrorCode::ARG_INVALID,
        Error::Unsupported { .. } => ErrorCode::UNSUPPORTED,
        Error::NotFound { .. } => ErrorCode::NOT_FOUND,
        Error::IsDirectory { .. } => ErrorCode::IS_DIRECTORY,
        Error::NotDirectory { .. } => ErrorCode::FS_ERROR,
        Error::Origin(error) => match error {
            OriginError::Refused { code, .. } => ErrorCode(*code),
            OriginError::Unreachable { .. } => ErrorCode::NO_SERVER,
            OriginError::TimedOut { .. } => ErrorCode::REQUEST_TIMED_OUT,
            OriginError::Corrupt { .. } => ErrorCode::CHECKSUM_ERROR,
            OriginError::Lost { .. } | OriginError::ShortRead { .. } | OriginError::Changed { .. } => {
                ErrorCode::IO_ERROR
            }
            OriginError::Authentication { .. } => ErrorCode::NOT_AUTHORIZED,
            OriginError::RedirectLoop { .. } | OriginError::Tls { .. } | OriginError::Protocol { .. } => {
                ErrorCode::SERVER_ERROR
            }
        },
        Error::Changed { .. } | Error::Disk { .. } | Error::NoIndex | Error::Leaving { .. } => ErrorCode::IO_ERROR,
        Error::Stale { .. } | Error::NoServer { .. } => ErrorCode::NO_SERVER,
        Error::NotCached { .. } => ErrorCode::TIMER_EXPIRED,
        Error::TooManyOpen { .. } | Error::TooManyWanted { .. } => ErrorCode::OVERLOADED,
        Error::OutOfMemory { .. } => ErrorCode::NO_MEMORY,
        Error::ShuttingDown => ErrorCode::CANCELLED,
        Error::Internal { .. } => ErrorCode::SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{Endpoint, Lfn};

    fn endpoint() -> Endpoint {
        Endpoint::new("origin", 1094)
    }

    #[test]
    fn an_origins_refusal_keeps_its_number_and_text() {
        let refused = OriginError::Refused { endpoint: endpoint(), code: 3011, text: "no such file".to_owned() };
        let failure = Failure::from(Error::Origin(refused));
        assert_eq!((failure.code, failure.text.as_ref()), (ErrorCode::NOT_FOUND, "no such file"));
        assert_eq!(failure.side, Side::Origin);
    }

    #[test]
    fn the_number_tells_the_client_whose_fault_it_is() {
        let lfn = || Lfn::parse("/f").unwrap();
        let reason = || "gone".to_owned();
        for (error, code) in [
            (Error::Path(LfnError::Climbs), ErrorCode::NOT_AUTHORIZED),
            (Error::Path(LfnError::TooLong), ErrorCode::ARG_TOO_LONG),
            (Error::Path(LfnError::NotUtf8), ErrorCode::ARG_INVALID),
            (Error::NotExported { lfn: lfn() }, ErrorCode::NOT_AUTHORIZED),
            (Error::ForwardingDenied { origin: endpoint() }, ErrorCode::NOT_AUTHORIZED),
            (Error::NotFound { lfn: lfn() }, ErrorCode::NOT_FOUND),
            (Error::IsDirectory { lfn: lfn() }, ErrorCode::IS_DIRECTORY),
            (Error::Changed { lfn: lfn() }, ErrorCode::IO_ERROR),
            (Error::Stale { lfn: lfn(), origin: endpoint(), seconds: 5, reason: reason() }, ErrorCode::NO_SERVER),
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
