//! The error numbers of `root://` in neutral terms.

use forebay_origin::RefusalKind;
use forebay_proto::ErrorCode;

/// End of the text of a refusal by a stock server whose file system has answered `ENOTDIR`. It has no number of its own.
const NOT_A_DIRECTORY: &str = "not a directory";

/// The kind of a refusal with this number and text.
pub(crate) fn refusal_of(code: ErrorCode, text: &str) -> RefusalKind {
    match refusal_kind(code) {
        // It would be the same at the next attempt, while other errors of a file system may pass.
        RefusalKind::FileSystemError if text.trim_end().ends_with(NOT_A_DIRECTORY) => RefusalKind::NotDirectory,
        kind => kind,
    }
}

/// The kind of a refusal with this number.
#[must_use]
pub const fn refusal_kind(code: ErrorCode) -> RefusalKind {
    match code {
        ErrorCode::ARG_INVALID => RefusalKind::InvalidArgument,
        ErrorCode::ARG_MISSING => RefusalKind::MissingArgument,
        ErrorCode::ARG_TOO_LONG => RefusalKind::ArgumentTooLong,
        ErrorCode::FILE_LOCKED => RefusalKind::Locked,
        ErrorCode::FILE_NOT_OPEN => RefusalKind::NotOpen,
        ErrorCode::FS_ERROR => RefusalKind::FileSystemError,
        ErrorCode::INVALID_REQUEST => RefusalKind::InvalidRequest,
        ErrorCode::IO_ERROR => RefusalKind::IoError,
        ErrorCode::NO_MEMORY => RefusalKind::NoMemory,
        ErrorCode::NO_SPACE => RefusalKind::NoSpace,
        ErrorCode::NOT_AUTHORIZED => RefusalKind::Denied,
        ErrorCode::NOT_FOUND => RefusalKind::NotFound,
        ErrorCode::SERVER_ERROR => RefusalKind::ServerError,
        ErrorCode::UNSUPPORTED => RefusalKind::Unsupported,
        ErrorCode::NO_SERVER => RefusalKind::NoServer,
        ErrorCode::NOT_FILE => RefusalKind::NotFile,
        ErrorCode::IS_DIRECTORY => RefusalKind::IsDirectory,
        ErrorCode::CANCELLED => RefusalKind::Cancelled,
        ErrorCode::IT_EXISTS => RefusalKind::Exists,
        ErrorCode::CHECKSUM_ERROR => RefusalKind::BadChecksum,
        ErrorCode::IN_PROGRESS => RefusalKind::InProgress,
        ErrorCode::OVER_QUOTA => RefusalKind::OverQuota,
        ErrorCode::SIGNATURE_ERROR => RefusalKind::BadSignature,
        ErrorCode::DECRYPT_ERROR => RefusalKind::CannotDecrypt,
        ErrorCode::OVERLOADED => RefusalKind::Busy,
        ErrorCode::FS_READ_ONLY => RefusalKind::ReadOnly,
        ErrorCode::BAD_PAYLOAD => RefusalKind::BadPayload,
        ErrorCode::ATTR_NOT_FOUND => RefusalKind::NoAttribute,
        ErrorCode::TLS_REQUIRED => RefusalKind::TlsRequired,
        ErrorCode::NO_REPLICAS => RefusalKind::NoReplica,
        ErrorCode::AUTH_FAILED => RefusalKind::NotAuthenticated,
        ErrorCode::IMPOSSIBLE => RefusalKind::Impossible,
        ErrorCode::CONFLICT => RefusalKind::Conflict,
        ErrorCode::TOO_MANY_ERRORS => RefusalKind::TooManyErrors,
        ErrorCode::REQUEST_TIMED_OUT => RefusalKind::TimedOut,
        ErrorCode::TIMER_EXPIRED => RefusalKind::TimerExpired,
        // Numbers that the protocol does not define.
        ErrorCode(_) => RefusalKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_below_a_file_is_not_a_fault_of_the_file_system() {
        let kind = |text| refusal_of(ErrorCode::FS_ERROR, text);
        assert_eq!(kind("Unable to locate /data/f/x; not a directory "), RefusalKind::NotDirectory);
        assert_eq!(kind("Unable to locate /data/f/x; input/output error"), RefusalKind::FileSystemError);
        assert_eq!(refusal_of(ErrorCode::NOT_FOUND, "not a directory"), RefusalKind::NotFound);
    }
}
