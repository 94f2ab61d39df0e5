//! Why an origin refuses a request.

/// The reason that an origin gives for a refusal, in terms of no protocol. A crate of an origin's protocol maps its numbers
/// to these, a front maps these to its own: the kinds are as fine as needed for a `root://` client to get the number that a
/// `root://` origin has sent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RefusalKind {
    /// There is no such file or directory.
    NotFound,
    /// The caller is known and may not do this.
    Denied,
    /// The origin does not accept the caller's proof of identity.
    NotAuthenticated,
    /// Only encrypted connections are served.
    TlsRequired,
    InvalidArgument,
    MissingArgument,
    ArgumentTooLong,
    /// The request makes no sense here or now.
    InvalidRequest,
    BadPayload,
    BadSignature,
    CannotDecrypt,
    /// The origin does not implement the request.
    Unsupported,
    /// No server of the origin's own can be reached.
    NoServer,
    /// No further server has the file.
    NoReplica,
    NotFile,
    IsDirectory,
    /// A name above the last one is that of a file.
    NotDirectory,
    Exists,
    NoAttribute,
    Locked,
    NotOpen,
    Conflict,
    InProgress,
    Cancelled,
    /// The origin serves too many requests already.
    Busy,
    TooManyErrors,
    TimedOut,
    TimerExpired,
    NoMemory,
    NoSpace,
    OverQuota,
    ReadOnly,
    IoError,
    FileSystemError,
    BadChecksum,
    /// The origin has a fault of its own.
    ServerError,
    Impossible,
    /// A reason that the protocol of the origin does not list.
    Other,
}

impl RefusalKind {
    /// Whether the same request may be granted later, by the same server or another one.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::NoServer
            | Self::Locked
            // A server that restarted has forgotten the handle; the file can be opened again.
            | Self::NotOpen
            | Self::InProgress
            | Self::Cancelled
            | Self::Busy
            | Self::TooManyErrors
            | Self::TimedOut
            | Self::TimerExpired
            | Self::NoMemory
            | Self::IoError
            | Self::FileSystemError
            | Self::BadChecksum
            | Self::ServerError => true,
            Self::NotFound
            | Self::Denied
            // Another server may accept these two, the same one will not.
            | Self::NotAuthenticated
            | Self::TlsRequired
            | Self::InvalidArgument
            | Self::MissingArgument
            | Self::ArgumentTooLong
            | Self::InvalidRequest
            | Self::BadPayload
            | Self::BadSignature
            | Self::CannotDecrypt
            | Self::Unsupported
            | Self::NoReplica
            | Self::NotFile
            | Self::IsDirectory
            | Self::NotDirectory
            | Self::Exists
            | Self::NoAttribute
            | Self::Conflict
            | Self::NoSpace
            | Self::OverQuota
            | Self::ReadOnly
            | Self::Impossible
            | Self::Other => false,
        }
    }
}
