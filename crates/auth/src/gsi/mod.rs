//! The GSI handshake in both roles: who the peer is by its certificate, and a key that both sides share.
//!
//! [`GsiServer`] and [`GsiClient`] take the peer's messages and give ours. They open no socket and read no clock; but each message
//! costs milliseconds of RSA and Diffie-Hellman, so call them where blocking is allowed, off the threads of async tasks.

mod buffer;
mod client;
mod error;
mod exchange;
mod half;
mod raw_rsa;
mod secret;
mod server;

pub use buffer::{BUCKETS_MAX, BUFFER_LEN_MAX, Buffer, BufferError, write_buffer};
pub use client::{GsiClient, GsiClientSettings};
pub use error::GsiError;
pub use exchange::{ExchangeError, GROUP_BITS_MAX, GROUP_BITS_MIN, KnownGroups, WEAK_GROUP_BITS_MIN};
pub use half::{HALF_S_MAX, SharedHalf};
pub use server::{GsiPeer, GsiServer, GsiServerSettings, ServerStep};

/// The protocol version that we speak, that of XRootD 6.2.
pub const GSI_VERSION: u32 = 10700;

/// The first version in which digests of tags are signed instead of the tags themselves.
pub const GSI_VERSION_DIGESTS: u32 = 10700;

/// The first version in which the Diffie-Hellman values are signed. Before it, an attacker between the two sides can share a
/// key with each.
pub const GSI_VERSION_SIGNED: u32 = 10400;

/// The oldest version that is understood.
pub const GSI_VERSION_MIN: u32 = 10000;

/// How long a handshake may take, seconds.
pub const HANDSHAKE_S_MAX: i64 = 300;
