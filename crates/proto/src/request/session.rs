//! Requests on the session itself: protocol, login, auth, bind, endsess, set, sigver.

use super::layout::{Field, Parts, RequestError, layout, raw, text};
use crate::code::RequestCode;
use crate::flags::{Abilities, ProtocolRequestFlags};
use crate::header::{Params, SessionId};

/// Sends the client's version and asks for the server's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Protocol {
    /// Version of the protocol that the client speaks, such as `0x511`; 0 for clients before 2.9.7.
    pub client_version: u32,
    pub flags: ProtocolRequestFlags,
    pub expect: Expect,
}

/// The step of a client after its protocol request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Expect(pub u8);

impl Expect {
    pub const NONE: Self = Self(0);
    pub const BIND: Self = Self(1);
    pub const LOGIN: Self = Self(3);
    pub const TPC: Self = Self(4);
}

layout!(Protocol { 0: client_version, 4: flags, 5: expect });

impl Field for Expect {
    fn take<const AT: usize>(params: &Params) -> Self {
        Self(u8::take::<AT>(params) & 0x0f)
    }

    fn put<const AT: usize>(self, params: Params) -> Params {
        self.0.put::<AT>(params)
    }
}

/// A user name as the client gives it: unproven, up to eight bytes, to be escaped before it is shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Username([u8; 8]);

impl Username {
    /// The name in wire form; what does not fit into eight bytes is cut off, as all clients do.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// The name without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        crate::wire::until_nul(&self.0)
    }
}

impl Field for Username {
    fn take<const AT: usize>(params: &Params) -> Self {
        Self(params.field::<AT, 8>())
    }

    fn put<const AT: usize>(self, params: Params) -> Params {
        params.with::<AT, 8>(self.0)
    }
}

/// Opens a session and declares the client's features.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Login<'a> {
    pub pid: u32,
    /// The client's user name, unproven.
    pub username: Username,
    /// Further abilities (1: erasure-coding redirects).
    pub ability2: u8,
    pub ability: Abilities,
    /// Version of the client's abilities in the low 6 bits, `0x80` when it understands unsolicited answers.
    pub capver: u8,
    /// `key=value&…` on the client's program and host. Not proven either.
    pub cgi: &'a [u8],
}

layout!(Login<'a> { 0: pid, 4: username, 12: ability2, 13: ability, 14: capver; cgi = text });

impl Login<'_> {
    /// Set in `capver` when the client understands unsolicited answers.
    pub const ASYNC: u8 = 0x80;

    /// Version of the client's abilities: 2 since answers may be deferred, 5 since TLS.
    pub const fn ability_version(&self) -> u8 {
        self.capver & 0x3f
    }

    /// Whether an answer may be deferred: promised by `waitresp`, sent later unsolicited.
    pub const fn accepts_deferred_answers(&self) -> bool {
        self.capver & Self::ASYNC != 0 && self.ability_version() >= 2
    }
}

/// One step of authentication.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Auth<'a> {
    /// Name of the security protocol, NUL-padded or cut off.
    pub credential_type: [u8; 4],
    /// Credentials in that protocol's form. Secret: never log them.
    pub credentials: &'a [u8],
}

layout!(Auth<'a> { 12: credential_type; credentials = raw });

/// Makes this connection a parallel stream of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bind {
    pub session_id: SessionId,
}

layout!(Bind { 0: session_id });

/// Ends a session, as clients do with their old one when they have reconnected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndSession {
    pub session_id: SessionId,
}

layout!(EndSession { 0: session_id });

/// Sets something of the session: `appid …`, `monitor …`, `cache …`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Set<'a> {
    /// 0, or a modifier that no one defines.
    pub modifier: u8,
    pub text: &'a [u8],
}

layout!(Set<'a> { 15: modifier; text = text });

/// Signature of the request that follows with the same stream id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sigver<'a> {
    pub signed: RequestCode,
    pub version: u8,
    /// 1: the payload is not part of what is signed.
    pub flags: u8,
    /// Strictly increasing number of the signature.
    pub sequence: u64,
    pub crypto: u8,
    pub signature: &'a [u8],
}

layout!(Sigver<'a> { 0: signed, 2: version, 3: flags, 4: sequence, 12: crypto; signature = raw });
