//! Replies of session set-up: handshake, protocol with required signatures, login, authentication, bind.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::flags::ServerFlags;
use crate::header::SessionId;
use crate::wire::{Reader, lossy};

/// The reply to the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HandshakeReply {
    /// Version of the protocol that the server speaks.
    pub version: u32,
    /// Whether it calls itself a data server; otherwise a manager.
    pub is_server: bool,
}

impl HandshakeReply {
    /// # Errors
    /// When it is too short.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        let mut reader = Reader::new(body);
        let (version, role) = reader.u32().zip(reader.u32()).ok_or(ResponseError::Truncated { what: "handshake" })?;
        Ok(Self { version, is_server: role == 1 })
    }
}

/// The reply to the protocol request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProtocolReply {
    /// Version of the protocol that the server speaks.
    pub version: u32,
    pub flags: ServerFlags,
}

impl ProtocolReply {
    /// Parses the body of the reply. Records on signing and interfaces after the flags are ignored.
    ///
    /// # Errors
    /// When it is too short.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        let mut reader = Reader::new(body);
        let fields = reader.u32().zip(reader.u32());
        let (version, flags) = fields.ok_or(ResponseError::Truncated { what: "protocol reply" })?;
        Ok(Self { version, flags: ServerFlags(flags) })
    }
}

/// The reply to a login.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoginReply {
    /// The new session; very old servers give none.
    pub session_id: Option<SessionId>,
    /// The security protocols that the server accepts, `&P=name,args` each; empty when it wants no authentication.
    pub security: String,
}

impl LoginReply {
    /// Parses the body of the reply.
    ///
    /// # Errors
    /// When it is neither empty nor long enough for a session id.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        if body.is_empty() {
            return Ok(Self { session_id: None, security: String::new() });
        }
        let mut reader = Reader::new(body);
        let session_id = reader.array().map(SessionId).ok_or(ResponseError::Truncated { what: "login reply" })?;
        Ok(Self { session_id: Some(session_id), security: lossy(reader.rest()) })
    }

    /// Names of the security protocols that the server accepts, in its order of preference.
    pub fn security_protocols(&self) -> impl Iterator<Item = &str> {
        self.security
            .split("&P=")
            .map(|item| item.split(',').next().unwrap_or_default().trim())
            .filter(|name| !name.is_empty())
    }
}

/// Marks the record in the reply to the protocol request.
const SIGNING_RECORD: u8 = b'S';

/// Marks the record on interfaces, which stands before it.
const INTERFACES_RECORD: u8 = b'B';

/// Which requests a server wants signed: a record after the reply to the protocol request, if the client requested it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SigningRequirements {
    /// 1: data that is written is signed, too; 2: sign even without a key.
    pub options: u8,
    /// How much is signed, from 0 (nothing) to 4 (everything).
    pub level: u8,
    /// Requests (their number less 3000) whose need differs from the level: 0 never, 1 when risky, 2 always.
    pub overrides: Vec<(u8, u8)>,
}

impl SigningRequirements {
    /// Finds the record in the body of a reply to the protocol request; `None` when the server requires nothing.
    ///
    /// # Errors
    /// When a record is cut off.
    pub fn parse(protocol_reply: &[u8]) -> Result<Option<Self>, ResponseError> {
        let truncated = ResponseError::Truncated { what: "signing requirements" };
        let mut reader = Reader::new(protocol_reply);
        reader.bytes(8).ok_or(truncated)?;
        loop {
            match reader.array::<2>() {
                Some([INTERFACES_RECORD, _]) => {
                    let len = reader.array().map(u16::from_be_bytes).ok_or(truncated)?;
                    reader.bytes(len.into()).ok_or(truncated)?;
                }
                Some([SIGNING_RECORD, _]) => break,
                _ => return Ok(None),
            }
        }
        let [_version, options, level, count] = reader.array().ok_or(truncated)?;
        let overrides = reader.bytes(usize::from(count) * 2).ok_or(truncated)?;
        let pairs = overrides.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
        Ok(Some(Self { options, level, overrides: pairs.collect() }))
    }
}

impl ReplyTo {
    pub(crate) fn handshake(self, reply: HandshakeReply, out: &mut Vec<u8>) {
        self.pair(reply.version, u32::from(reply.is_server), out);
    }

    /// Appends the reply to the protocol request, without records on signing or interfaces.
    pub fn protocol(self, reply: ProtocolReply, out: &mut Vec<u8>) {
        self.pair(reply.version, reply.flags.0, out);
    }

    /// Appends the reply to a login that needs no authentication.
    pub fn login(self, session_id: SessionId, out: &mut Vec<u8>) {
        self.ok_with(&session_id.0, out);
    }

    /// Appends the reply to a bind: the number of the stream, 1 to 15.
    pub fn bind(self, path_id: u8, out: &mut Vec<u8>) {
        self.ok_with(&[path_id], out);
    }

    fn pair(self, first: u32, second: u32, out: &mut Vec<u8>) {
        self.header(Status::OK, 8, out);
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&second.to_be_bytes());
    }

    /// Appends the reply to the protocol request with the record on signatures. At most 255 overrides are sent.
    pub fn protocol_with_signing(self, reply: ProtocolReply, signing: &SigningRequirements, out: &mut Vec<u8>) {
        let SigningRequirements { options, level, overrides } = signing;
        let count = u8::try_from(overrides.len()).unwrap_or(u8::MAX);
        let mut body = Vec::with_capacity(14 + 2 * usize::from(count));
        body.extend(reply.version.to_be_bytes());
        body.extend(reply.flags.0.to_be_bytes());
        body.extend([SIGNING_RECORD, 0, 0, *options, *level, count]);
        for (request, need) in overrides.iter().take(count.into()) {
            body.extend([*request, *need]);
        }
        self.ok_with(&body, out);
    }

    /// Appends the reply to a login that continues with authentication, by one of the protocols in `security`.
    pub fn login_with_security(self, session_id: SessionId, security: &str, out: &mut Vec<u8>) {
        self.ok_with(&[session_id.0.as_slice(), security.as_bytes()].concat(), out);
    }

    /// Appends an answer to credentials that wants more of them.
    pub fn auth_more(self, challenge: &[u8], out: &mut Vec<u8>) {
        self.frame(Status::AUTHMORE, out, |out| out.extend_from_slice(challenge));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::StreamId;

    const REPLY: ProtocolReply = ProtocolReply { version: 0x511, flags: ServerFlags::IS_SERVER };

    fn body(write: impl FnOnce(ReplyTo, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(ReplyTo::direct(StreamId::ZERO), &mut out);
        out.split_off(8)
    }

    #[test]
    fn requirements_follow_the_protocol_reply() {
        let signing = SigningRequirements { options: 2, level: 3, overrides: vec![(10, 2), (1, 0)] };
        let body = body(|reply_to, out| reply_to.protocol_with_signing(REPLY, &signing, out));
        assert_eq!(&body[8..], b"S\0\0\x02\x03\x02\x0a\x02\x01\0");
        assert_eq!(ProtocolReply::parse(&body), Ok(REPLY));
        assert_eq!(SigningRequirements::parse(&body), Ok(Some(signing.clone())));
        let with_interfaces = [&body[..8], b"B\0\0\x08a:1,b:2\0".as_slice(), &body[8..]].concat();
        assert_eq!(SigningRequirements::parse(&with_interfaces), Ok(Some(signing)));
        for len in (0..8).chain(10..body.len()) {
            assert!(SigningRequirements::parse(&body[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn replies_without_a_record_require_nothing() {
        let body = body(|reply_to, out| reply_to.protocol(REPLY, out));
        assert_eq!(SigningRequirements::parse(&body), Ok(None));
    }

    #[test]
    fn logins_go_on_with_authentication() {
        let body = body(|reply_to, out| reply_to.login_with_security(SessionId([7; 16]), "&P=gsi,v:10600", out));
        let reply = LoginReply::parse(&body).unwrap();
        assert_eq!((reply.session_id, reply.security.as_str()), (Some(SessionId([7; 16])), "&P=gsi,v:10600"));
        let mut more = Vec::new();
        ReplyTo::direct(StreamId([1, 2])).auth_more(b"gsi\0", &mut more);
        assert_eq!(more, [1, 2, 0x0f, 0xa2, 0, 0, 0, 4, b'g', b's', b'i', 0]);
    }
}
