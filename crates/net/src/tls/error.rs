//! How TLS can fail.

use forebay_types::Side;
use openssl::error::ErrorStack;
use std::{fmt, io, path::PathBuf, time::Duration};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of ours cannot be used.
    #[error("{} {reason}", path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// OpenSSL refuses what it was set up with.
    #[error("TLS cannot be set up: {reason}")]
    SetUp { reason: String },
    /// The peer's certificate is not accepted.
    #[error("the certificate {subject} is refused: {reason}")]
    Distrusted {
        /// Whose certificate it is; perhaps that of a CA between the peer and us.
        subject: String,
        reason: DistrustReason,
    },
    #[error("the TLS handshake failed: {reason}")]
    Handshake { reason: String },
    /// The connection broke in the handshake.
    #[error("the connection broke in the TLS handshake: {0}")]
    Connection(#[from] io::Error),
    /// The peer did not finish the handshake in time.
    #[error("the TLS handshake was not finished within {limit:?}")]
    TimedOut { limit: Duration },
}

/// Why a certificate is not accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DistrustReason {
    /// Nobody we trust has issued it.
    UnknownCa {
        /// Where the certificates of trusted CAs are.
        ca_dir: PathBuf,
    },
    /// It is for other hosts.
    OtherHost {
        /// The host that we wanted.
        wanted: String,
        /// The hosts that it is for.
        hosts: Vec<String>,
    },
    Expired,
    /// Its time has not come yet.
    NotYetValid,
    /// Its CA has revoked it.
    Revoked,
    /// There is no revocation list that could tell whether it has been revoked, or only an outdated one.
    NoRevocationList {
        /// Where the revocation lists are.
        ca_dir: PathBuf,
    },
    /// Another reason, in OpenSSL's words.
    Other(String),
}

impl TlsError {
    /// Whose side the error is on: our own files', or the peer's (a client's, as seen by who serves).
    #[must_use]
    pub const fn side(&self) -> Side {
        match self {
            Self::File { .. } | Self::SetUp { .. } => Side::Internal,
            Self::Distrusted { .. } | Self::Handshake { .. } | Self::Connection(_) | Self::TimedOut { .. } => {
                Side::Client
            }
        }
    }

    /// Whether trying again can help: only when the connection was to blame.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Connection(_) | Self::TimedOut { .. } => true,
            Self::File { .. } | Self::SetUp { .. } | Self::Distrusted { .. } | Self::Handshake { .. } => false,
        }
    }
}

impl From<ErrorStack> for TlsError {
    fn from(errors: ErrorStack) -> Self {
        Self::SetUp { reason: reason_of(&errors) }
    }
}

/// OpenSSL's words for the first of `errors`.
pub(super) fn reason_of(errors: &ErrorStack) -> String {
    let first = errors.errors().first().and_then(openssl::error::Error::reason);
    first.unwrap_or("OpenSSL does not say why").to_owned()
}

impl fmt::Display for DistrustReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCa { ca_dir } => write!(
                f,
                "no CA in {} has issued it; install its CA there (in a directory under its hashed name: `openssl rehash`)",
                ca_dir.display()
            ),
            Self::OtherHost { wanted, hosts } if hosts.is_empty() => write!(f, "it is not for {wanted}"),
            Self::OtherHost { wanted, hosts } => write!(f, "it is for {}, not for {wanted}", hosts.join(", ")),
            Self::Expired => f.write_str("it has expired (or the clock of this host is fast)"),
            Self::NotYetValid => f.write_str("it is not valid yet (or the clock of this host is slow)"),
            Self::Revoked => f.write_str("its CA has revoked it"),
            Self::NoRevocationList { ca_dir } => {
                write!(f, "{} holds no current revocation list of its CA; run fetch-crl", ca_dir.display())
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}
