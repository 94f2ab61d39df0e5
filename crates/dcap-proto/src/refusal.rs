//! Refusals on the control connection.

forebay_types::named_enum! {
    /// The error that a call of the client's library returns. The library knows these names.
    pub enum Errno {
        NoEntry = "ENOENT",
        Io = "EIO",
        Access = "EACCES",
        Busy = "EBUSY",
        NotDirectory = "ENOTDIR",
        IsDirectory = "EISDIR",
        Invalid = "EINVAL",
        ReadOnly = "EROFS",
        Again = "EAGAIN",
    }
}

/// A refusal, as a client sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The number by which dCache reports the same failure.
    pub code: u32,
    /// For a person to read.
    pub text: String,
    pub errno: Errno,
}

impl Refusal {
    pub const DENIED: u32 = 10_018;
    pub const DUPLICATE_SESSION: u32 = 5;
    pub const INTERNAL: u32 = 44;
    /// Of an open, a name that does not exist.
    pub const NO_FILE: u32 = 2;
    /// Of a stat, the same.
    pub const NO_ENTRY: u32 = 10_001;
    pub const NOT_A_DIRECTORY: u32 = 22;
    /// The library returns [`Errno::Again`] for this number, whatever the name of the error is.
    pub const NOT_CACHED: u32 = 4;
    /// No data connection, or no server for the file.
    pub const NO_POOL: u32 = 33;
    pub const PROTOCOL: u32 = 669;
    pub const READ_FAILED: u32 = 204;
    pub const READ_ONLY: u32 = 1;
    pub const TIMED_OUT: u32 = 112;

    pub fn new(code: u32, errno: Errno, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), errno }
    }
}
