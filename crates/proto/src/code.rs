//! The protocol's numbers and their names: requests, response status, errors, queries. Unknown numbers are kept.

use std::fmt;

/// Declares a family of numbers with names: a newtype that keeps unknown numbers.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident($bits:ty) { $($(#[$code_doc:meta])* $code:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub struct $name(pub $bits);

        impl $name {
            $($(#[$code_doc])* pub const $code: Self = Self($value);)*

            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The protocol's name for this number, without `kXR_`; `unknown` for a number without a name.
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
    /// The kind of a request.
    RequestCode(u16) {
        AUTH = 3000, "auth";
        QUERY = 3001, "query";
        CHMOD = 3002, "chmod";
        CLOSE = 3003, "close";
        DIRLIST = 3004, "dirlist";
        GPFILE = 3005, "gpfile";
        PROTOCOL = 3006, "protocol";
        LOGIN = 3007, "login";
        MKDIR = 3008, "mkdir";
        MV = 3009, "mv";
        OPEN = 3010, "open";
        PING = 3011, "ping";
        CHKPOINT = 3012, "chkpoint";
        READ = 3013, "read";
        RM = 3014, "rm";
        RMDIR = 3015, "rmdir";
        SYNC = 3016, "sync";
        STAT = 3017, "stat";
        SET = 3018, "set";
        WRITE = 3019, "write";
        FATTR = 3020, "fattr";
        PREPARE = 3021, "prepare";
        STATX = 3022, "statx";
        ENDSESS = 3023, "endsess";
        /// Makes this connection a parallel stream of a session.
        BIND = 3024, "bind";
        READV = 3025, "readv";
        PGWRITE = 3026, "pgwrite";
        LOCATE = 3027, "locate";
        TRUNCATE = 3028, "truncate";
        SIGVER = 3029, "sigver";
        PGREAD = 3030, "pgread";
        WRITEV = 3031, "writev";
        CLONE = 3032, "clone";
    }
}

codes! {
    /// The kind of a response frame.
    Status(u16) {
        OK = 0, "ok";
        OKSOFAR = 4000, "oksofar";
        ATTN = 4001, "attn";
        AUTHMORE = 4002, "authmore";
        ERROR = 4003, "error";
        REDIRECT = 4004, "redirect";
        WAIT = 4005, "wait";
        WAITRESP = 4006, "waitresp";
        STATUS = 4007, "status";
    }
}

codes! {
    /// Why a request failed.
    ErrorCode(u32) {
        ARG_INVALID = 3000, "ArgInvalid";
        ARG_MISSING = 3001, "ArgMissing";
        ARG_TOO_LONG = 3002, "ArgTooLong";
        FILE_LOCKED = 3003, "FileLocked";
        FILE_NOT_OPEN = 3004, "FileNotOpen";
        /// The file system failed in a way that has no number of its own.
        FS_ERROR = 3005, "FSError";
        /// The request is not possible here or now.
        INVALID_REQUEST = 3006, "InvalidRequest";
        IO_ERROR = 3007, "IOError";
        NO_MEMORY = 3008, "NoMemory";
        NO_SPACE = 3009, "NoSpace";
        NOT_AUTHORIZED = 3010, "NotAuthorized";
        NOT_FOUND = 3011, "NotFound";
        SERVER_ERROR = 3012, "ServerError";
        UNSUPPORTED = 3013, "Unsupported";
        NO_SERVER = 3014, "noserver";
        NOT_FILE = 3015, "NotFile";
        IS_DIRECTORY = 3016, "isDirectory";
        CANCELLED = 3017, "Cancelled";
        IT_EXISTS = 3018, "ItExists";
        CHECKSUM_ERROR = 3019, "ChkSumErr";
        IN_PROGRESS = 3020, "inProgress";
        OVER_QUOTA = 3021, "overQuota";
        SIGNATURE_ERROR = 3022, "SigVerErr";
        DECRYPT_ERROR = 3023, "DecryptErr";
        OVERLOADED = 3024, "Overloaded";
        FS_READ_ONLY = 3025, "fsReadOnly";
        BAD_PAYLOAD = 3026, "BadPayload";
        ATTR_NOT_FOUND = 3027, "AttrNotFound";
        TLS_REQUIRED = 3028, "TLSRequired";
        NO_REPLICAS = 3029, "noReplicas";
        AUTH_FAILED = 3030, "AuthFailed";
        IMPOSSIBLE = 3031, "Impossible";
        CONFLICT = 3032, "Conflict";
        TOO_MANY_ERRORS = 3033, "TooManyErrs";
        REQUEST_TIMED_OUT = 3034, "ReqTimedOut";
        TIMER_EXPIRED = 3035, "TimerExpired";
    }
}

codes! {
    /// The kind of a query.
    QueryKind(u16) {
        STATS = 1, "stats";
        PREPARE = 2, "prep";
        CHECKSUM = 3, "cksum";
        XATTR = 4, "xattr";
        SPACE = 5, "space";
        CHECKSUM_CANCEL = 6, "ckscan";
        CONFIG = 7, "config";
        VISA = 8, "visa";
        FILE_INFO = 9, "finfo";
        FS_INFO = 10, "fsinfo";
        OPAQUE = 16, "opaque";
        OPAQUE_FILE = 32, "opaquf";
        OPAQUE_HANDLE = 64, "opaqug";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_unknown_ones_are_kept() {
        assert_eq!(ErrorCode(4711).to_string(), "unknown 4711");
        assert_eq!(ErrorCode::NOT_FOUND.to_string(), "NotFound 3011");
        assert_eq!(RequestCode(3033).as_str(), "unknown");
        for (codes, expected) in [(RequestCode::ALL.len(), 33), (Status::ALL.len(), 9), (ErrorCode::ALL.len(), 36)] {
            assert_eq!(codes, expected);
        }
        assert!((3000..=3032).zip(RequestCode::ALL).all(|(number, code)| code.0 == number));
        assert!((3000..=3035).zip(ErrorCode::ALL).all(|(number, code)| code.0 == number));
    }
}
