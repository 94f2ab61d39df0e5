//! Session state machines of both roles. Bytes go in; requests, replies and facts come out.

mod client;
mod server;

pub use client::{AuthQuestion, ClientError, ClientOptions, ClientPurpose, ClientSession, Peer, Progress};
pub use server::{Fatal, Input, ServerOptions, ServerSession};

/// The first message of a client: five numbers.
pub const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc];
