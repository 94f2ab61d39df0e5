//! Who may use the administration API.

use crate::token::TokenFile;
use std::{fmt, hint::black_box, net::SocketAddr, sync::Arc};

/// Access rules of the API.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// File of the bearer token for the API over TCP; without it the API is off there.
    pub token_file: Option<Arc<TokenFile>>,
    /// Whether users other than root and the server's own user are authorized if the socket's permissions let them connect: the
    /// socket has a group, or a service manager opened it.
    pub is_group_allowed: bool,
}

/// The channel of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Channel {
    Tcp {
        peer: SocketAddr,
    },
    /// Over the unix socket; the kernel reports the user.
    Unix {
        uid: u32,
        /// The process, if the kernel reports it.
        pid: Option<i32>,
    },
}

/// Why a caller is denied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denial {
    #[error("the administration API is off on this port: set admin.token_file, or admin.socket and use that socket")]
    Off,
    #[error("missing token: send the header `Authorization: Bearer TOKEN` with the content of admin.token_file")]
    NoToken,
    #[error("wrong token: it differs from the current content of admin.token_file")]
    WrongToken,
    #[error("cannot authorize any caller: {0}")]
    TokenFile(String),
    #[error(
        "user {uid} is not allowed on this socket: only root and the server's own user are; to allow more, set admin.socket_group"
    )]
    User { uid: u32 },
}

impl AccessRules {
    /// Authorizes a caller. `authorization` is the header of that name. Reads the token file: blocks.
    pub(crate) fn admit(&self, channel: Channel, authorization: Option<&str>, own_uid: u32) -> Result<(), Denial> {
        match channel {
            Channel::Unix { uid, .. } => decide_user(uid, own_uid, self.is_group_allowed),
            Channel::Tcp { .. } => {
                let file = self.token_file.as_ref().ok_or(Denial::Off)?;
                let presented = authorization.and_then(bearer).ok_or(Denial::NoToken)?;
                let token = file.read().map_err(Denial::TokenFile)?;
                if is_same(presented.as_bytes(), token.as_bytes()) { Ok(()) } else { Err(Denial::WrongToken) }
            }
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { peer } => write!(f, "{peer}"),
            Self::Unix { uid, pid: Some(pid) } => write!(f, "uid {uid}, process {pid}"),
            Self::Unix { uid, pid: None } => write!(f, "uid {uid}"),
        }
    }
}

const fn decide_user(uid: u32, own_uid: u32, is_group_allowed: bool) -> Result<(), Denial> {
    if uid == 0 || uid == own_uid || is_group_allowed { Ok(()) } else { Err(Denial::User { uid }) }
}

/// The token of an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Whether two texts are equal, in a time independent of where they differ. Their lengths are not secret.
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const TCP: Channel = Channel::Tcp { peer: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1) };
    const OWN: u32 = 997;

    fn unix(uid: u32) -> Channel {
        Channel::Unix { uid, pid: None }
    }

    fn rules(token: &str) -> (tempfile::TempDir, AccessRules) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, format!("{token}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let token_file = Some(Arc::new(TokenFile::new(path)));
        (directory, AccessRules { token_file, is_group_allowed: false })
    }

    #[test]
    fn tcp_is_closed_without_a_token_file() {
        let denied = AccessRules::default().admit(TCP, Some("Bearer 0123456789abcdef"), OWN);
        assert!(matches!(denied, Err(Denial::Off)), "{denied:?}");
    }

    #[test]
    fn only_the_exact_token_is_accepted_over_tcp() {
        let (_directory, rules) = rules("0123456789abcdef");
        for good in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(rules.admit(TCP, Some(good), OWN).is_ok(), "{good}");
        }
        for absent in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic 0123456789abcdef")] {
            assert!(matches!(rules.admit(TCP, absent, OWN), Err(Denial::NoToken)), "{absent:?}");
        }
        for wrong in ["Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer 0123456789abcdeg", "Bearer x"] {
            assert!(matches!(rules.admit(TCP, Some(wrong), OWN), Err(Denial::WrongToken)), "{wrong}");
        }
    }

    #[test]
    fn a_replaced_token_is_no_longer_accepted() {
        let (directory, rules) = rules("0123456789abcdef");
        fs::write(directory.path().join("token"), "fedcba9876543210").unwrap();
        assert!(matches!(rules.admit(TCP, Some("Bearer 0123456789abcdef"), OWN), Err(Denial::WrongToken)));
        assert!(rules.admit(TCP, Some("Bearer fedcba9876543210"), OWN).is_ok());
        fs::remove_file(directory.path().join("token")).unwrap();
        assert!(matches!(rules.admit(TCP, Some("Bearer fedcba9876543210"), OWN), Err(Denial::TokenFile(_))));
    }

    #[test]
    fn the_socket_is_for_root_its_owner_and_its_group() {
        let alone = AccessRules::default();
        assert!(alone.admit(unix(0), None, OWN).is_ok());
        assert!(alone.admit(unix(OWN), None, OWN).is_ok());
        assert!(matches!(alone.admit(unix(1000), None, OWN), Err(Denial::User { uid: 1000 })));
        let shared = AccessRules { is_group_allowed: true, ..alone };
        assert!(shared.admit(unix(1000), None, OWN).is_ok());
    }
}
