//! When a connection is encrypted: what servers demand, and what clients are ready for.
//!
//! A connection always begins in clear. Server and client agree in the set-up on the reply after which the TLS handshake
//! starts on the same socket; from there on everything is encrypted.

use crate::flags::{ProtocolRequestFlags, ServerFlags};
use crate::request::{Expect, Protocol};
use forebay_types::named_enum;

named_enum! {
    /// TLS that a server requires of its clients.
    #[derive(Default)]
    pub enum TlsPolicy {
        #[default]
        None = "none",
        Capable = "capable",
        /// TLS before login. Parallel streams may stay in clear.
        Login = "login",
        /// TLS after login. Parallel streams may stay in clear.
        Session = "session",
        /// TLS after login, and on every parallel stream.
        Data = "data",
        /// TLS before login, and on every parallel stream.
        All = "all",
    }
}

impl TlsPolicy {
    /// The flags of a server with this policy.
    pub const fn flags(self) -> ServerFlags {
        let session = ServerFlags::HAVE_TLS.with(ServerFlags::TLS_SESSION);
        match self {
            Self::None => ServerFlags(0),
            Self::Capable => ServerFlags::HAVE_TLS,
            Self::Login => ServerFlags::HAVE_TLS.with(ServerFlags::TLS_LOGIN),
            Self::Session => session,
            Self::Data => session.with(ServerFlags::TLS_DATA),
            Self::All => session.with(ServerFlags::TLS_LOGIN).with(ServerFlags::TLS_DATA).with(ServerFlags::TLS_TPC),
        }
    }

    pub(crate) const fn is_needed_for_login(self) -> bool {
        self.flags().contains(ServerFlags::TLS_LOGIN)
    }

    /// Whether a session continues in TLS once it is logged in.
    pub(crate) const fn is_needed_for_session(self) -> bool {
        self.flags().contains(ServerFlags::TLS_SESSION)
    }

    pub(crate) const fn is_needed_for_data(self) -> bool {
        self.flags().contains(ServerFlags::TLS_DATA)
    }

    /// Whether TLS starts right after the reply to this request, on a connection that is in clear.
    pub(crate) fn starts_after(self, protocol: &Protocol) -> bool {
        if self == Self::None {
            return false;
        }
        let needed = match protocol.expect {
            Expect::BIND => self.is_needed_for_data(),
            Expect::LOGIN | Expect::TPC => self.is_needed_for_login(),
            _ => false,
        };
        let is_able = protocol.flags.contains(ProtocolRequestFlags::ABLE_TLS);
        protocol.flags.contains(ProtocolRequestFlags::WANT_TLS) || is_able && needed
    }
}

/// How a client uses TLS.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TlsUse {
    /// It has none: servers that demand TLS cannot be used.
    #[default]
    Never,
    /// TLS where the server demands it, as `root://` means.
    WhenDemanded,
    /// TLS or nothing, as `roots://` means.
    Always,
}

impl TlsUse {
    /// The client's TLS flags in its protocol request.
    pub(crate) const fn flags(self) -> ProtocolRequestFlags {
        match self {
            Self::Never => ProtocolRequestFlags(0),
            Self::WhenDemanded => ProtocolRequestFlags::ABLE_TLS,
            Self::Always => ProtocolRequestFlags::ABLE_TLS.with(ProtocolRequestFlags::WANT_TLS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(flags: ProtocolRequestFlags, expect: Expect) -> Protocol {
        Protocol { client_version: crate::PROTOCOL_VERSION, flags, expect }
    }

    #[test]
    fn tls_starts_where_the_policy_demands_it_and_the_client_can() {
        let able = ProtocolRequestFlags::ABLE_TLS;
        for (policy, login, bind) in [
            (TlsPolicy::None, false, false),
            (TlsPolicy::Capable, false, false),
            (TlsPolicy::Login, true, false),
            (TlsPolicy::Session, false, false),
            (TlsPolicy::Data, false, true),
            (TlsPolicy::All, true, true),
        ] {
            assert_eq!(policy.starts_after(&protocol(able, Expect::LOGIN)), login, "{policy:?}");
            assert_eq!(policy.starts_after(&protocol(able, Expect::TPC)), login, "{policy:?}");
            assert_eq!(policy.starts_after(&protocol(able, Expect::BIND)), bind, "{policy:?}");
            assert!(!policy.starts_after(&protocol(able, Expect::NONE)), "{policy:?}");
            assert!(!policy.starts_after(&protocol(ProtocolRequestFlags::SECURITY, Expect::LOGIN)), "{policy:?}");
        }
        // A client that wants TLS gets it wherever there is any.
        for policy in TlsPolicy::ALL {
            for expect in [Expect::NONE, Expect::BIND, Expect::LOGIN, Expect::TPC] {
                let wanted = protocol(TlsUse::Always.flags(), expect);
                assert_eq!(policy.starts_after(&wanted), policy != TlsPolicy::None, "{policy:?} {expect:?}");
            }
        }
    }
}
