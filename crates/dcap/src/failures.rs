//! Failures as refusals of dCap.

use forebay_dcap_proto::{Errno, Refusal};
use forebay_front::{Failure, FailureKind, RefusalKind};

/// The kind of request that failed: dCache has different numbers for the same failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    Open,
    Stat,
}

impl Subject {
    /// The refusal of a request that failed.
    pub(crate) fn refusal(self, failure: &Failure) -> Refusal {
        let (code, errno) = self.numbers(failure.kind);
        Refusal::new(code, errno, failure.text.clone())
    }

    const fn numbers(self, kind: FailureKind) -> (u32, Errno) {
        match kind {
            FailureKind::TokenRefused
            | FailureKind::NotAuthorized
            | FailureKind::OriginRefused(
                RefusalKind::Denied | RefusalKind::NotAuthenticated | RefusalKind::TlsRequired,
            ) => (Refusal::DENIED, Errno::Access),
            FailureKind::NotFound | FailureKind::OriginRefused(RefusalKind::NotFound) => match self {
                Self::Open => (Refusal::NO_FILE, Errno::NoEntry),
                Self::Stat => (Refusal::NO_ENTRY, Errno::NoEntry),
            },
            FailureKind::IsDirectory | FailureKind::OriginRefused(RefusalKind::IsDirectory | RefusalKind::NotFile) => {
                (Refusal::READ_ONLY, Errno::IsDirectory)
            }
            FailureKind::NotDirectory | FailureKind::OriginRefused(RefusalKind::NotDirectory) => {
                (Refusal::NOT_A_DIRECTORY, Errno::NotDirectory)
            }
            FailureKind::NameMissing | FailureKind::NameTooLong | FailureKind::Invalid | FailureKind::Unsupported => {
                (Refusal::PROTOCOL, Errno::Invalid)
            }
            FailureKind::NotCached => (Refusal::NOT_CACHED, Errno::Again),
            FailureKind::OriginTimedOut => (Refusal::TIMED_OUT, Errno::Io),
            FailureKind::NoServer => (Refusal::NO_POOL, Errno::Io),
            FailureKind::Overloaded | FailureKind::OutOfMemory | FailureKind::ShuttingDown => {
                (Refusal::INTERNAL, Errno::Busy)
            }
            FailureKind::OriginRefused(_) | FailureKind::Corrupt | FailureKind::Io | FailureKind::Internal => {
                (Refusal::INTERNAL, Errno::Io)
            }
        }
    }
}
