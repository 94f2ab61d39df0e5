//! Failures in terms of no protocol. Each front maps [`FailureKind`] to its own status codes.

use forebay_engine::Error;
use forebay_origin::{OriginError, RefusalKind};
use forebay_types::{LfnError, Side};
use std::{borrow::Cow, io};

/// Why a request failed, as it is reported to the client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    pub kind: FailureKind,
    /// For a person to read.
    pub text: Cow<'static, str>,
    pub side: Side,
}

/// Kinds of failures, fine enough for the status codes of any protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailureKind {
    /// The request's token is not accepted.
    TokenRefused,
    /// The caller may not do this.
    NotAuthorized,
    NameMissing,
    NameTooLong,
    /// A malformed name or parameter.
    Invalid,
    Unsupported,
    NotFound,
    IsDirectory,
    NotDirectory,
    /// The origin's own refusal.
    OriginRefused(RefusalKind),
    /// No server could answer; trying again later may help.
    NoServer,
    OriginTimedOut,
    /// The bytes do not match their checksum.
    Corrupt,
    /// The disk or the origin failed within a request.
    Io,
    /// The client wants the file only if it is cached, and it is not.
    NotCached,
    /// A limit on open or waiting files is reached.
    Overloaded,
    OutOfMemory,
    ShuttingDown,
    /// A fault of this program, or of an origin that breaks its protocol.
    Internal,
}

impl FailureKind {
    /// The label in logs and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenRefused => "token_refused",
            Self::NotAuthorized => "not_authorized",
            Self::NameMissing => "name_missing",
            Self::NameTooLong => "name_too_long",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::IsDirectory => "is_directory",
            Self::NotDirectory => "not_directory",
            Self::OriginRefused(_) => "origin_refused",
            Self::NoServer => "no_server",
            Self::OriginTimedOut => "origin_timed_out",
            Self::Corrupt => "corrupt",
            Self::Io => "io",
            Self::NotCached => "not_cached",
            Self::Overloaded => "overloaded",
            Self::OutOfMemory => "out_of_memory",
            Self::ShuttingDown => "shutting_down",
            Self::Internal => "internal",
        }
    }
}

impl Failure {
    pub fn new(kind: FailureKind, side: Side, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), side }
    }

    /// A rule forbids the request.
    pub fn not_authorized(text: String) -> Self {
        Self::new(FailureKind::NotAuthorized, Side::Authorization, text)
    }

    /// A disk that does not return the bytes it holds.
    pub fn disk(error: &io::Error) -> Self {
        Self::new(FailureKind::Io, Side::Disk, format!("cannot read the disk: {error}"))
    }

    /// A fault of this program.
    pub fn internal(text: &'static str) -> Self {
        Self::new(FailureKind::Internal, Side::Internal, text)
    }

    /// The engine promises all bytes of a range or an error: a client would take a short answer for the end of the file.
    pub fn ended_early() -> Self {
        Self::internal("a read ended before its last byte")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = match &error {
            // The client asked for the origin's file: it gets the origin's words, without our own around them.
            Error::Origin(OriginError::Refused { text, .. }) => text.clone(),
            error => error.to_string(),
        };
        Self::new(kind_of(&error), error.side(), text)
    }
}

impl From<LfnError> for Failure {
    fn from(error: LfnError) -> Self {
        Error::Path(error).into()
    }
}

const fn kind_of(error: &Error) -> FailureKind {
    match error {
        Error::Path(error) => match error {
            LfnError::Relative | LfnError::Climbs => FailureKind::NotAuthorized,
            LfnError::TooLong => FailureKind::NameTooLong,
            LfnError::Missing => FailureKind::NameMissing,
            LfnError::Nul | LfnError::NotUtf8 => FailureKind::Invalid,
        },
        // The client learns that the name is not served, not what is.
        Error::NotExported { .. } | Error::ForwardingDenied { .. } | Error::NotReadable { .. } => {
            FailureKind::NotAuthorized
        }
        Error::Forwarding { .. } => FailureKind::Invalid,
        Error::Unsupported { .. } => FailureKind::Unsupported,
        Error::NotFound { .. } => FailureKind::NotFound,
        Error::IsDirectory { .. } => FailureKind::IsDirectory,
        Error::NotDirectory { .. } => FailureKind::NotDirectory,
        Error::Origin(error) => match error {
            OriginError::Refused { kind, .. } => FailureKind::OriginRefused(*kind),
            OriginError::Unreachable { .. } => FailureKind::NoServer,
            OriginError::TimedOut { .. } => FailureKind::OriginTimedOut,
            OriginError::Corrupt { .. } => FailureKind::Corrupt,
            OriginError::Lost { .. } | OriginError::ShortRead { .. } | OriginError::Changed { .. } => FailureKind::Io,
            // The origin does not admit this cache, or not for this client.
            OriginError::Authentication { .. } | OriginError::RedirectRefused { .. } | OriginError::Itself { .. } => {
                FailureKind::NotAuthorized
            }
            OriginError::RedirectLoop { .. } | OriginError::Tls { .. } | OriginError::Protocol { .. } => {
                FailureKind::Internal
            }
        },
        // Opening the file again helps, which clients try after an I/O error.
        Error::Changed { .. } | Error::Disk { .. } | Error::NoIndex | Error::BeingRemoved { .. } => FailureKind::Io,
        Error::Stale { .. } | Error::NoServer { .. } => FailureKind::NoServer,
        Error::NotCached { .. } => FailureKind::NotCached,
        Error::TooManyOpen { .. } | Error::TooManyWanted { .. } => FailureKind::Overloaded,
        Error::OutOfMemory { .. } => FailureKind::OutOfMemory,
        Error::ShuttingDown => FailureKind::ShuttingDown,
        Error::Internal { .. } => FailureKind::Internal,
    }
}
