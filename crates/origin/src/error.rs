//! How an origin can fail.

use forebay_proto::ErrorCode;
use forebay_types::{Endpoint, Side};

/// Why an origin did not give what it was asked for. Cheap to clone: one failure may have to be told to several waiters.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginError {
    /// No connection could be made.
    #[error("origin {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The server.
        endpoint: Endpoint,
        /// The system's own words.
        reason: String,
    },
    /// The connection ended, or went silent, before the answer was complete.
    #[error("origin {endpoint} was lost while {doing}: {reason}")]
    Lost {
        /// The server.
        endpoint: Endpoint,
        /// What was under way.
        doing: &'static str,
        /// What happened.
        reason: String,
    },
    /// No answer within the time limit.
    #[error("origin {endpoint} did not answer within {seconds} s while {doing}")]
    TimedOut {
        /// The server.
        endpoint: Endpoint,
        /// What was under way.
        doing: &'static str,
        /// The limit in seconds.
        seconds: u64,
    },
    /// The origin answered with an error of its own.
    #[error("{text} (origin {endpoint})")]
    Refused {
        /// The server.
        endpoint: Endpoint,
        /// Its error number (`kXR_error`).
        code: u32,
        /// Its words.
        text: String,
    },
    /// Bytes did not match their checksum, also when asked for again.
    #[error("origin {endpoint} sent corrupt bytes at offset {offset}, also when asked again")]
    Corrupt {
        /// The server.
        endpoint: Endpoint,
        /// Offset of the bad page.
        offset: u64,
    },
    /// The origin sent fewer bytes than the file has.
    #[error("origin {endpoint} sent {received_bytes} of {expected_bytes} bytes at offset {offset}")]
    ShortRead {
        /// The server.
        endpoint: Endpoint,
        /// Where the read began.
        offset: u64,
        /// Bytes that came.
        received_bytes: u64,
        /// Bytes that should have come.
        expected_bytes: u64,
    },
    /// The file is not the one that was opened before.
    #[error("the file changed at origin {endpoint} while it was read")]
    Changed {
        /// The server.
        endpoint: Endpoint,
    },
    /// Redirected too often, or in a circle.
    #[error("origin {endpoint} redirects in a circle or more than {limit} times")]
    RedirectLoop {
        /// The server that was asked first.
        endpoint: Endpoint,
        /// Redirects followed at most.
        limit: u32,
    },
    /// The connection is not encrypted as it must be, or the server has not proven who it is.
    #[error("origin {endpoint} cannot be reached over TLS: {reason}")]
    Tls {
        /// The server.
        endpoint: Endpoint,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The server wants proof of who we are, and does not take what we have.
    #[error("origin {endpoint} does not let this cache in: {reason}")]
    Authentication {
        /// The server.
        endpoint: Endpoint,
        /// What it accepts, and what became of that.
        reason: String,
    },
    /// The peer does not speak the protocol as it should, or demands what this release cannot do.
    #[error("origin {endpoint}: {what}")]
    Protocol {
        /// The server.
        endpoint: Endpoint,
        /// What was wrong.
        what: String,
    },
}

impl OriginError {
    /// Whose side the error is on: always the origin's.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Origin
    }

    /// The server concerned.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Unreachable { endpoint, .. }
            | Self::Lost { endpoint, .. }
            | Self::TimedOut { endpoint, .. }
            | Self::Refused { endpoint, .. }
            | Self::Corrupt { endpoint, .. }
            | Self::ShortRead { endpoint, .. }
            | Self::Changed { endpoint }
            | Self::RedirectLoop { endpoint, .. }
            | Self::Tls { endpoint, .. }
            | Self::Authentication { endpoint, .. }
            | Self::Protocol { endpoint, .. } => endpoint,
        }
    }

    /// The server's own error number, when it gave one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(ErrorCode(*code)),
            _ => None,
        }
    }

    /// Whether the server has no such file.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if matches!(ErrorCode(*code), ErrorCode::NOT_FOUND))
    }

    /// Whether asking again later can help, be it the same server or another one.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::TimedOut { .. }
            | Self::Corrupt { .. }
            | Self::ShortRead { .. } => true,
            Self::Refused { code, .. } => matches!(
                ErrorCode(*code),
                ErrorCode::FILE_LOCKED
                    | ErrorCode::FILE_NOT_OPEN
                    | ErrorCode::FS_ERROR
                    | ErrorCode::IO_ERROR
                    | ErrorCode::NO_MEMORY
                    | ErrorCode::SERVER_ERROR
                    | ErrorCode::NO_SERVER
                    | ErrorCode::CANCELLED
                    | ErrorCode::CHECKSUM_ERROR
                    | ErrorCode::IN_PROGRESS
                    | ErrorCode::OVERLOADED
                    | ErrorCode::TOO_MANY_ERRORS
                    | ErrorCode::REQUEST_TIMED_OUT
                    | ErrorCode::TIMER_EXPIRED
            ),
            Self::Changed { .. }
            | Self::RedirectLoop { .. }
            | Self::Tls { .. }
            | Self::Authentication { .. }
            | Self::Protocol { .. } => false,
        }
    }

    /// Whether another server of the list may do better although asking this one again cannot help.
    pub(crate) const fn concerns_one_server(&self) -> bool {
        match self {
            Self::Protocol { .. } | Self::Tls { .. } | Self::Authentication { .. } | Self::RedirectLoop { .. } => true,
            Self::Refused { code, .. } => {
                matches!(ErrorCode(*code), ErrorCode::AUTH_FAILED | ErrorCode::TLS_REQUIRED | ErrorCode::NO_REPLICAS)
            }
            _ => self.is_retryable(),
        }
    }

    /// Whether a redirector that sent us to this server may know a better one. It may also be wrong on who has a file.
    pub(crate) const fn is_worth_asking_redirector(&self) -> bool {
        self.is_retryable() || self.is_not_found()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: ErrorCode) -> OriginError {
        OriginError::Refused { endpoint: Endpoint::new("origin", 1), code: code.0, text: "no".to_owned() }
    }

    #[test]
    fn a_servers_final_words_are_final() {
        for code in [ErrorCode::NOT_FOUND, ErrorCode::NOT_AUTHORIZED, ErrorCode::ARG_INVALID, ErrorCode::IS_DIRECTORY] {
            assert!(!refused(code).is_retryable(), "{code}");
            assert!(!refused(code).concerns_one_server(), "{code}");
        }
        for code in [ErrorCode::OVERLOADED, ErrorCode::IO_ERROR, ErrorCode::SERVER_ERROR] {
            assert!(refused(code).is_retryable(), "{code}");
        }
    }

    #[test]
    fn a_redirector_is_asked_again_when_its_server_has_no_such_file() {
        assert!(refused(ErrorCode::NOT_FOUND).is_worth_asking_redirector());
        assert!(!refused(ErrorCode::NOT_AUTHORIZED).is_worth_asking_redirector());
    }
}
