//! The protocol's numbers and their names: requests, response status, errors, queries. Unknown numbers are kept.

use std::{fmt, io};

/// Declares a family of numbers with names: a newtype that keeps unknown numbers.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident($bits:ty) { $($(#[$code_doc:meta])* $code:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub struct $name(pub $bits);

        impl $name {
            $($(#[$code_doc])* pub const $code: Self = Self($value);)*

            /// Every named number.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The protocol's name for this number, without `kXR_`; `unknown` for a number without a name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                    _ => "unknown",
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", self.as_str(), self.0)
            }
        }
    };
}

codes! {
    /// What a request asks for.
    RequestCode(u16) {
        /// One step of authentication.
        AUTH = 3000, "auth";
        /// A question: checksum, configuration, space, …
        QUERY = 3001, "query";
        /// Changes a mode.
        CHMOD = 3002, "chmod";
        /// Closes a file.
        CLOSE = 3003, "close";
        /// Lists a directory.
        DIRLIST = 3004, "dirlist";
        /// Never implemented anywhere.
        GPFILE = 3005, "gpfile";
        /// Tells versions and abilities.
        PROTOCOL = 3006, "protocol";
        /// Opens a session.
        LOGIN = 3007, "login";
        /// Makes a directory.
        MKDIR = 3008, "mkdir";
        /// Renames.
        MV = 3009, "mv";
        /// Opens a file.
        OPEN = 3010, "open";
        /// Asks for a sign of life.
        PING = 3011, "ping";
        /// Checkpoint of a file.
        CHKPOINT = 3012, "chkpoint";
        /// Reads a range.
        READ = 3013, "read";
        /// Removes a file.
        RM = 3014, "rm";
        /// Removes a directory.
        RMDIR = 3015, "rmdir";
        /// Makes writes durable.
        SYNC = 3016, "sync";
        /// Tells what is known of a file.
        STAT = 3017, "stat";
        /// Sets something of the session.
        SET = 3018, "set";
        /// Writes a range.
        WRITE = 3019, "write";
        /// File attributes.
        FATTR = 3020, "fattr";
        /// Asks to stage files.
        PREPARE = 3021, "prepare";
        /// Kinds of several paths.
        STATX = 3022, "statx";
        /// Ends another session.
        ENDSESS = 3023, "endsess";
        /// Makes this connection a parallel stream of a session.
        BIND = 3024, "bind";
        /// Reads several ranges.
        READV = 3025, "readv";
        /// Writes pages with checksums.
        PGWRITE = 3026, "pgwrite";
        /// Tells which servers have a file.
        LOCATE = 3027, "locate";
        /// Truncates a file.
        TRUNCATE = 3028, "truncate";
        /// Signature of the next request.
        SIGVER = 3029, "sigver";
        /// Reads pages with checksums.
        PGREAD = 3030, "pgread";
        /// Writes several ranges.
        WRITEV = 3031, "writev";
        /// Clones ranges of files.
        CLONE = 3032, "clone";
    }
}

codes! {
    /// What kind of response a frame is.
    Status(u16) {
        /// Final answer.
        OK = 0, "ok";
        /// Part of an answer.
        OKSOFAR = 4000, "oksofar";
        /// Unsolicited message.
        ATTN = 4001, "attn";
        /// One more step of authentication.
        AUTHMORE = 4002, "authmore";
        /// Final error.
        ERROR = 4003, "error";
        /// Go to another server.
        REDIRECT = 4004, "redirect";
        /// Ask again later.
        WAIT = 4005, "wait";
        /// The answer comes later by itself.
        WAITRESP = 4006, "waitresp";
        /// A response with its own checksum.
        STATUS = 4007, "status";
    }
}

codes! {
    /// Why a request failed.
    ErrorCode(u32) {
        /// An argument is wrong.
        ARG_INVALID = 3000, "ArgInvalid";
        /// An argument is missing.
        ARG_MISSING = 3001, "ArgMissing";
        /// An argument is too long.
        ARG_TOO_LONG = 3002, "ArgTooLong";
        /// The file is locked.
        FILE_LOCKED = 3003, "FileLocked";
        /// The handle names no open file.
        FILE_NOT_OPEN = 3004, "FileNotOpen";
        /// The file system failed in a way that has no number of its own.
        FS_ERROR = 3005, "FSError";
        /// The request is not possible here or now.
        INVALID_REQUEST = 3006, "InvalidRequest";
        /// Input or output failed.
        IO_ERROR = 3007, "IOError";
        /// Out of memory.
        NO_MEMORY = 3008, "NoMemory";
        /// Out of space.
        NO_SPACE = 3009, "NoSpace";
        /// Not allowed.
        NOT_AUTHORIZED = 3010, "NotAuthorized";
        /// No such file.
        NOT_FOUND = 3011, "NotFound";
        /// The server failed.
        SERVER_ERROR = 3012, "ServerError";
        /// Not supported.
        UNSUPPORTED = 3013, "Unsupported";
        /// No server can be reached.
        NO_SERVER = 3014, "noserver";
        /// Not a file.
        NOT_FILE = 3015, "NotFile";
        /// A directory.
        IS_DIRECTORY = 3016, "isDirectory";
        /// Cancelled.
        CANCELLED = 3017, "Cancelled";
        /// It exists.
        IT_EXISTS = 3018, "ItExists";
        /// A checksum does not match.
        CHECKSUM_ERROR = 3019, "ChkSumErr";
        /// In progress.
        IN_PROGRESS = 3020, "inProgress";
        /// Over the quota.
        OVER_QUOTA = 3021, "overQuota";
        /// A signature does not verify.
        SIGNATURE_ERROR = 3022, "SigVerErr";
        /// Decryption failed.
        DECRYPT_ERROR = 3023, "DecryptErr";
        /// The server is overloaded.
        OVERLOADED = 3024, "Overloaded";
        /// The file system can only be read.
        FS_READ_ONLY = 3025, "fsReadOnly";
        /// The payload is wrong.
        BAD_PAYLOAD = 3026, "BadPayload";
        /// No such attribute.
        ATTR_NOT_FOUND = 3027, "AttrNotFound";
        /// TLS is required.
        TLS_REQUIRED = 3028, "TLSRequired";
        /// There is no further replica.
        NO_REPLICAS = 3029, "noReplicas";
        /// Authentication failed.
        AUTH_FAILED = 3030, "AuthFailed";
        /// Impossible.
        IMPOSSIBLE = 3031, "Impossible";
        /// In conflict with something else.
        CONFLICT = 3032, "Conflict";
        /// Too many errors.
        TOO_MANY_ERRORS = 3033, "TooManyErrs";
        /// The request took too long.
        REQUEST_TIMED_OUT = 3034, "ReqTimedOut";
        /// A timer expired.
        TIMER_EXPIRED = 3035, "TimerExpired";
    }
}

codes! {
    /// What a query asks.
    QueryKind(u16) {
        /// Statistics as XML.
        STATS = 1, "stats";
        /// State of a prepare request.
        PREPARE = 2, "prep";
        /// Checksum of a file.
        CHECKSUM = 3, "cksum";
        /// Extended attributes of a file.
        XATTR = 4, "xattr";
        /// Space of a path.
        SPACE = 5, "space";
        /// Cancels a running checksum.
        CHECKSUM_CANCEL = 6, "ckscan";
        /// Configuration values.
        CONFIG = 7, "config";
        /// Visa of an open file.
        VISA = 8, "visa";
        /// Plug-in information on an open file.
        FILE_INFO = 9, "finfo";
        /// Plug-in information on a file system.
        FS_INFO = 10, "fsinfo";
        /// Defined by a plug-in, no file.
        OPAQUE = 16, "opaque";
        /// Defined by a plug-in, with a path.
        OPAQUE_FILE = 32, "opaquf";
        /// Defined by a plug-in, with a handle.
        OPAQUE_HANDLE = 64, "opaqug";
    }
}

impl ErrorCode {
    /// The code that tells a client of a failed system call, as the protocol maps error numbers.
    ///
    /// The number decides when the error carries one, its kind otherwise.
    #[must_use]
    pub fn from_io(error: &io::Error) -> Self {
        error.raw_os_error().map_or_else(|| Self::from_io_kind(error.kind()), Self::from_errno)
    }

    /// The code for a kind of I/O error; [`ErrorCode::FS_ERROR`] for those the protocol does not know.
    #[must_use]
    pub const fn from_io_kind(kind: io::ErrorKind) -> Self {
        use io::ErrorKind as Kind;
        match kind {
            Kind::InvalidInput | Kind::InvalidData => Self::ARG_INVALID,
            Kind::InvalidFilename => Self::ARG_TOO_LONG,
            Kind::OutOfMemory => Self::NO_MEMORY,
            Kind::StorageFull => Self::NO_SPACE,
            Kind::PermissionDenied => Self::NOT_AUTHORIZED,
            Kind::NotFound => Self::NOT_FOUND,
            Kind::Unsupported => Self::UNSUPPORTED,
            Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable => Self::NO_SERVER,
            Kind::IsADirectory => Self::IS_DIRECTORY,
            Kind::AlreadyExists | Kind::DirectoryNotEmpty => Self::IT_EXISTS,
            Kind::ExecutableFileBusy => Self::IN_PROGRESS,
            Kind::QuotaExceeded => Self::OVER_QUOTA,
            Kind::ReadOnlyFilesystem => Self::FS_READ_ONLY,
            Kind::TimedOut => Self::REQUEST_TIMED_OUT,
            Kind::UnexpectedEof | Kind::WriteZero | Kind::ConnectionReset | Kind::BrokenPipe => Self::IO_ERROR,
            _ => Self::FS_ERROR,
        }
    }

    /// The code for an error number of Linux; [`ErrorCode::FS_ERROR`] for those the protocol does not list.
    #[must_use]
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            1 | 13 => Self::NOT_AUTHORIZED,     // EPERM, EACCES
            2 => Self::NOT_FOUND,               // ENOENT
            5 => Self::IO_ERROR,                // EIO
            9 => Self::FILE_NOT_OPEN,           // EBADF
            12 | 105 => Self::NO_MEMORY,        // ENOMEM, ENOBUFS
            14 => Self::SERVER_ERROR,           // EFAULT
            15 => Self::NOT_FILE,               // ENOTBLK
            17 | 39 => Self::IT_EXISTS,         // EEXIST, ENOTEMPTY
            21 => Self::IS_DIRECTORY,           // EISDIR
            22 => Self::ARG_INVALID,            // EINVAL
            25 => Self::CONFLICT,               // ENOTTY
            26 => Self::IN_PROGRESS,            // ETXTBSY
            28 => Self::NO_SPACE,               // ENOSPC
            30 => Self::FS_READ_ONLY,           // EROFS
            33 => Self::CHECKSUM_ERROR,         // EDOM
            34 => Self::DECRYPT_ERROR,          // ERANGE
            36 => Self::ARG_TOO_LONG,           // ENAMETOOLONG
            43 => Self::IMPOSSIBLE,             // EIDRM
            52 => Self::AUTH_FAILED,            // EBADE
            56 => Self::INVALID_REQUEST,        // EBADRQC
            61 => Self::ATTR_NOT_FOUND,         // ENODATA
            62 => Self::TIMER_EXPIRED,          // ETIME
            84 => Self::SIGNATURE_ERROR,        // EILSEQ
            87 => Self::OVERLOADED,             // EUSERS
            91 => Self::TLS_REQUIRED,           // EPROTOTYPE
            95 => Self::UNSUPPORTED,            // ENOTSUP
            99 => Self::NO_REPLICAS,            // EADDRNOTAVAIL
            101 | 111 | 113 => Self::NO_SERVER, // ENETUNREACH, ECONNREFUSED, EHOSTUNREACH
            109 => Self::TOO_MANY_ERRORS,       // ETOOMANYREFS
            110 => Self::REQUEST_TIMED_OUT,     // ETIMEDOUT
            122 => Self::OVER_QUOTA,            // EDQUOT
            125 => Self::CANCELLED,             // ECANCELED
            _ => Self::FS_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_are_kept() {
        assert_eq!(ErrorCode(4711).to_string(), "unknown 4711");
        assert_eq!(ErrorCode::NOT_FOUND.to_string(), "NotFound 3011");
        assert_eq!(RequestCode(3033).as_str(), "unknown");
    }

    #[test]
    fn numbers_are_dense() {
        for (codes, expected) in [(RequestCode::ALL.len(), 33), (Status::ALL.len(), 9), (ErrorCode::ALL.len(), 36)] {
            assert_eq!(codes, expected);
        }
        assert!((3000..=3032).zip(RequestCode::ALL).all(|(number, code)| code.0 == number));
        assert!((3000..=3035).zip(ErrorCode::ALL).all(|(number, code)| code.0 == number));
    }

    #[test]
    fn error_numbers_and_kinds_agree() {
        for (errno, code) in [
            (2, ErrorCode::NOT_FOUND),
            (13, ErrorCode::NOT_AUTHORIZED),
            (21, ErrorCode::IS_DIRECTORY),
            (28, ErrorCode::NO_SPACE),
            (30, ErrorCode::FS_READ_ONLY),
            (36, ErrorCode::ARG_TOO_LONG),
            (110, ErrorCode::REQUEST_TIMED_OUT),
            (111, ErrorCode::NO_SERVER),
            (122, ErrorCode::OVER_QUOTA),
            (20, ErrorCode::FS_ERROR),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(ErrorCode::from_io(&error), code, "{error}");
            assert_eq!(ErrorCode::from_io_kind(error.kind()), code, "{error}");
        }
        assert_eq!(ErrorCode::from_io(&io::Error::from_raw_os_error(5)), ErrorCode::IO_ERROR);
        assert_eq!(ErrorCode::from_io(&io::Error::other("x")), ErrorCode::FS_ERROR);
    }
}
