//! Listeners, connectors, TLS, sendfile, page-cache reads, buffers, and the only clock.
//!
//! Everything here is a thin layer over the operating system: no protocol, no policy. All sockets have `TCP_NODELAY` and
//! keepalive set.

mod buffers;
#[expect(unsafe_code, reason = "no crate has this system call")]
mod cache_stat;
pub mod clock;
mod connect;
#[expect(unsafe_code, reason = "the kernel writes to buffers that are handed to a ring")]
mod file_ring;
mod listener;
mod page_cache;
mod send;
mod stream;
mod this_machine;
mod tls;
mod tune;

pub use buffers::{Buffer, ENCRYPTED_BUFFER_LEN, LARGE_BUFFER_LEN, RECEIVE_BUFFER_LEN, SMALL_BUFFER_LEN};
pub use connect::{ADDRESSES_MAX, ConnectError, connect, connect_from, connect_where};
pub use file_ring::FileRings;
pub use listener::{ACCEPT_BACK_OFF_MAX, ACCEPT_BACK_OFF_MIN, BoundAddress, LISTEN_BACKLOG, ListenError, Listener};
pub use page_cache::{
    NowaitReads, PAGE_SIZE, is_loaded, probe_cached, read_nowait, read_nowait_vectored, start_loading,
};
pub use send::{
    SENDFILE_CALL_LEN_MAX, SendError, SendHint, send_all, send_file, send_file_now, send_now, send_vectored,
};
pub use stream::Stream;
pub use this_machine::{is_of_this_machine, listens_at};
pub use tls::{
    ClientTlsFiles, Credential, CrlPolicy, DistrustReason, PeerCertificate, REBUILD_AFTER, RELOAD_CHECK_INTERVAL,
    ServerTlsFiles, TlsAcceptor, TlsConnector, TlsError, TlsFacts, TrustAnchors, WebAnchors,
};
pub use tune::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES};
