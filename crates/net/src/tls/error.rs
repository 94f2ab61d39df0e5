//! Errors of TLS.

use forebay_types::Side;
use openssl::error::ErrorStack;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Why TLS failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A configured file cannot be used.
    #[error("{} {reason}", path.display())]
    File {
        path: PathBuf,
        /// The problem, and a remedy.
        reason: String,
    },
    /// OpenSSL refuses its settings.
    #[error("cannot configure TLS: {reason}")]
    SetUp { reason: String },
    #[error("the certificate {subject} is refused: {reason}")]
    Distrusted {
        /// Subject of the certificate, possibly of an intermediate CA.
        subject: String,
        reason: DistrustReason,
    },
    #[error("the TLS handshake failed: {reason}")]
    Handshake { reason: String },
    #[error("the connection failed in the TLS handshake: {0}")]
    Connection(#[from] io::Error),
    #[error("the TLS handshake did not complete within {limit:?}")]
    TimedOut { limit: Duration },
}

/// Why a certificate is rejected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DistrustReason {
    UnknownCa {
        /// Directory of the trusted CAs.
        ca_dir: PathBuf,
    },
    OtherHost {
        /// The requested host.
        wanted: String,
        /// The hosts in the certificate.
        hosts: Vec<String>,
    },
    Expired,
    NotYetValid,
    Revoked,
    /// Its revocation list is missing or outdated.
    NoRevocationList {
        /// Directory of the revocation lists.
        ca_dir: PathBuf,
    },
    /// Another reason, as reported by OpenSSL.
    Other(String),
}

impl TlsError {
    pub(super) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), reason: reason.into() }
    }

    /// Whose side the error is on: this host's files, or the peer's (to a server, the client).
    pub const fn side(&self) -> Side {
        match self {
            Self::File { .. } | Self::SetUp { .. } => Side::Internal,
            Self::Distrusted { .. } | Self::Handshake { .. } | Self::Connection(_) | Self::TimedOut { .. } => {
                Side::Client
            }
        }
    }
}

impl From<ErrorStack> for TlsError {
    fn from(errors: ErrorStack) -> Self {
        Self::SetUp { reason: reason_of(&errors) }
    }
}

/// OpenSSL's text for the first of `errors`.
pub(super) fn reason_of(errors: &ErrorStack) -> String {
    let first = errors.errors().first().and_then(openssl::error::Error::reason);
    first.unwrap_or("OpenSSL does not say why").to_owned()
}

impl fmt::Display for DistrustReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCa { ca_dir } => write!(
                f,
                "its CA is not in {}; install it there (in a directory under its hashed name: `openssl rehash`)",
                ca_dir.display()
            ),
            Self::OtherHost { wanted, hosts } if hosts.is_empty() => write!(f, "it is not for {wanted}"),
            Self::OtherHost { wanted, hosts } => write!(f, "it is for {}, not for {wanted}", hosts.join(", ")),
            Self::Expired => f.write_str("it has expired (or the clock of this host is fast)"),
            Self::NotYetValid => f.write_str("it is not valid yet (or the clock of this host is slow)"),
            Self::Revoked => f.write_str("its CA has revoked it"),
            Self::NoRevocationList { ca_dir } => {
                write!(f, "{} has no current revocation list of its CA; run fetch-crl", ca_dir.display())
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}
