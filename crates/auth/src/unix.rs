//! The security protocols without proof: `unix`, in which clients report a user name, and `host`, in which they report nothing.

use crate::{Identity, Method};

/// Messages begin with the protocol's name and a NUL.
const UNIX: &[u8] = b"unix\0";

/// The whole message of the protocol `host`.
pub const HOST_MESSAGE: &[u8] = b"host\0";

/// Longest user and group that are read, bytes.
const NAME_LEN_MAX: usize = 256;

/// Why a message was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnixError {
    #[error("unix: the message is of another protocol")]
    Foreign,
    #[error("unix: the message names no possible user")]
    User,
}

/// The message of a client that says it is `user`, in `group` if it has one.
#[must_use]
pub fn unix_message(user: &str, group: Option<&str>) -> Vec<u8> {
    let mut message = UNIX.to_vec();
    message.extend(user.as_bytes());
    if let Some(group) = group {
        message.push(b' ');
        message.extend(group.as_bytes());
    }
    message.push(0);
    message
}

/// The identity that a client at `host` reports, without proof.
///
/// # Errors
/// When the message is of another protocol, or names no user.
pub fn parse_unix_message(message: &[u8], host: &str) -> Result<Identity, UnixError> {
    let said = message.strip_prefix(UNIX).ok_or(UnixError::Foreign)?;
    let said = said.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut words = said.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).map(name);
    let mut identity = Identity::of(Method::Unix, host);
    identity.user = Some(words.next().flatten().ok_or(UnixError::User)?);
    if let Some(group) = words.next() {
        identity.groups.push(group.ok_or(UnixError::User)?);
    }
    Ok(identity)
}

fn name(word: &[u8]) -> Option<String> {
    if word.len() > NAME_LEN_MAX || !word.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    std::str::from_utf8(word).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_report_user_and_group_and_other_messages_are_refused() {
        assert_eq!(unix_message("jane", Some("atlas")), b"unix\0jane atlas\0");
        let jane = parse_unix_message(b"unix\0jane atlas\0", "h").unwrap();
        assert_eq!((jane.method, jane.user.as_deref()), (Method::Unix, Some("jane")));
        assert_eq!(jane.groups, ["atlas"]);
        let alone = parse_unix_message(&unix_message("joe", None), "h").unwrap();
        assert_eq!((alone.user.as_deref(), alone.groups.len()), (Some("joe"), 0));
        assert!(parse_unix_message(b"unix\0 joe", "h").is_ok());
        for (message, error) in [
            (b"".as_slice(), UnixError::Foreign),
            (b"unix", UnixError::Foreign),
            (HOST_MESSAGE, UnixError::Foreign),
            (b"unix\0", UnixError::User),
            (b"unix\0 \0", UnixError::User),
            (b"unix\0a\nb\0", UnixError::User),
            (b"unix\0\xff\0", UnixError::User),
            (b"unix\0a \x07\0", UnixError::User),
        ] {
            assert_eq!(parse_unix_message(message, "h"), Err(error), "{message:?}");
        }
        assert_eq!(parse_unix_message(&unix_message(&"a".repeat(257), None), "h"), Err(UnixError::User));
    }
}
