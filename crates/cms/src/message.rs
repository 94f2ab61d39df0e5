//! Messages after the login.

use crate::{
    frame::Frame,
    login::LoginReply,
    pup::{Packer, Unpacker},
};
use bytes::Bytes;
use forebay_types::Endpoint;

/// Longest path of a question in bytes, with its NUL; that of clients of stock redirectors.
pub const PATH_LEN_MAX: usize = 4096;

/// Most supervisors that a manager may name.
pub const SUPERVISORS_MAX: usize = 64;

mod code {
    pub(super) const LOGIN: u8 = 0;
    pub(super) const ERROR: u8 = 1;
    pub(super) const PREPARE: u8 = 6;
    pub(super) const AVAILABLE: u8 = 12;
    pub(super) const DISCONNECT: u8 = 13;
    pub(super) const GONE: u8 = 14;
    pub(super) const HAVE: u8 = 15;
    pub(super) const LOAD: u8 = 16;
    pub(super) const PING: u8 = 17;
    pub(super) const PONG: u8 = 18;
    pub(super) const SPACE: u8 = 19;
    pub(super) const STATE: u8 = 20;
    pub(super) const STATUS: u8 = 22;
    pub(super) const USAGE: u8 = 26;
    pub(super) const TRY: u8 = 24;
    pub(super) const AUTHENTICATE: u8 = 27;
}

/// Modifier: the data is a path with a NUL, not packed.
const RAW: u8 = 0x20;

/// Modifiers of questions about files.
const REFRESH: u8 = 0x01;
const NO_ANSWER: u8 = 0x02;

/// Modifiers of reports on the state of the server.
const STAGE: u8 = 0x01;
const RESUME: u8 = 0x04;
const SUSPEND: u8 = 0x08;
const RESET: u8 = 0x10;

/// A message of a manager for a data server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ForNode {
    Login(LoginReply),
    /// It refuses this server.
    Error {
        code: u32,
        text: String,
    },
    /// Connect to one of these instead.
    Try {
        servers: Vec<Endpoint>,
    },
    /// Only servers that authenticate may log in.
    Authenticate,
    Ping,
    /// Does this server have the file, or will it fetch it?
    State {
        stream: u32,
        path: String,
        /// A client has asked not to be answered from the manager's memory: mostly because a server has failed.
        is_refresh: bool,
        wants_answer: bool,
    },
    Usage,
    Space,
    /// Fetch this file, which a client needs soon.
    Prepare {
        path: String,
    },
    Disconnect,
    /// A message that does not concern servers of read-only files.
    Other {
        code: u8,
    },
}

/// A message that cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a malformed message with code {code}")]
pub struct MessageError {
    code: u8,
}

/// How a server has a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Held {
    /// It has data of it.
    Online,
    /// It will fetch it when a client opens it.
    Pending,
}

/// The load of a server, in percent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Load {
    pub cpu: u8,
    pub network: u8,
    pub disk_used: u8,
}

/// Space of a server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Space {
    pub free_mib: u32,
    pub used_percent: u8,
}

impl ForNode {
    /// Reads a message.
    ///
    /// # Errors
    /// If it has not the form that its code demands.
    pub fn parse(frame: &Frame) -> Result<Self, MessageError> {
        let data = &frame.data[..];
        let parsed = match frame.code {
            code::LOGIN => LoginReply::parse(data).map(Self::Login),
            code::ERROR => parse_error(data),
            code::TRY => parse_servers(data),
            code::AUTHENTICATE => Some(Self::Authenticate),
            code::PING => Some(Self::Ping),
            code::STATE => parse_path(frame).map(|path| Self::State {
                stream: frame.stream,
                path,
                is_refresh: frame.modifier & REFRESH != 0,
                wants_answer: frame.modifier & NO_ANSWER == 0,
            }),
            code::USAGE => Some(Self::Usage),
            code::SPACE => Some(Self::Space),
            code::PREPARE => parse_prepare(data),
            code::DISCONNECT => Some(Self::Disconnect),
            code => Some(Self::Other { code }),
        };
        parsed.ok_or(MessageError { code: frame.code })
    }
}

/// The answer to a question with this stream, or an announcement with stream 0.
#[must_use]
pub(crate) fn have(stream: u32, path: &str, held: Held) -> Frame {
    let held = match held {
        Held::Online => 1,
        Held::Pending => 2,
    };
    Frame { stream, ..with_path(code::HAVE, RAW | held, path) }
}

pub(crate) fn gone(path: &str) -> Frame {
    with_path(code::GONE, RAW, path)
}

pub(crate) fn load(load: Load, space: Space) -> Frame {
    let Load { cpu, network, disk_used } = load;
    let percents = [cpu, network, 0, 0, 0, disk_used].map(|value| value.min(100));
    Frame { data: Packer::default().percents(percents).int(space.free_mib).finish(), ..Frame::empty(code::LOAD, 0) }
}

pub(crate) fn space(space: Space) -> Frame {
    let data = Packer::default().int(space.free_mib).int(space.used_percent.min(100).into()).finish();
    Frame { data, ..Frame::empty(code::AVAILABLE, 0) }
}

pub(crate) fn pong() -> Frame {
    Frame::empty(code::PONG, 0)
}

pub(crate) fn disconnect() -> Frame {
    Frame::empty(code::DISCONNECT, 0)
}

pub(crate) fn suspend() -> Frame {
    Frame::empty(code::STATUS, SUSPEND)
}

pub(crate) fn resume() -> Frame {
    Frame::empty(code::STATUS, RESUME | STAGE)
}

/// The manager asks this server about each file again, when a client next wants it.
pub(crate) fn reset() -> Frame {
    Frame::empty(code::STATUS, RESET)
}

fn with_path(code: u8, modifier: u8, path: &str) -> Frame {
    let data: Bytes = [path.as_bytes(), b"\0"].concat().into();
    Frame { data, ..Frame::empty(code, modifier) }
}

fn parse_path(frame: &Frame) -> Option<String> {
    let path = if frame.modifier & RAW != 0 {
        let raw = frame.data.strip_suffix(b"\0").unwrap_or(&frame.data);
        std::str::from_utf8(raw).ok()?
    } else {
        Unpacker::new(&frame.data).text()?
    };
    (path.starts_with('/') && path.len() < PATH_LEN_MAX && !path.contains('\0')).then(|| path.to_owned())
}

fn parse_error(data: &[u8]) -> Option<ForNode> {
    let (code, text) = data.split_at_checked(4)?;
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(ForNode::Error {
        code: u32::from_be_bytes(code.try_into().ok()?),
        text: String::from_utf8_lossy(text).into_owned(),
    })
}

fn parse_servers(data: &[u8]) -> Option<ForNode> {
    let list = Unpacker::new(data).text()?;
    // A server whose name cannot be read must not hide the others.
    let servers = list.split_ascii_whitespace().take(SUPERVISORS_MAX).filter_map(|name| name.parse().ok()).collect();
    Some(ForNode::Try { servers })
}

/// Identity, request, notification, priority and mode come before the path.
fn parse_prepare(data: &[u8]) -> Option<ForNode> {
    let mut unpacker = Unpacker::new(data);
    for _ in 0..5 {
        unpacker.text()?;
    }
    let path = unpacker.text()?;
    path.starts_with('/').then(|| ForNode::Prepare { path: path.to_owned() })
}
