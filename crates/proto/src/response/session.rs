//! Replies of session set-up: handshake, protocol, login, bind.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::flags::ServerFlags;
use crate::header::SessionId;
use crate::wire::Reader;
use crate::wire::lossy;

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
}
