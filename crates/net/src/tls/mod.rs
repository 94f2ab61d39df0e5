//! TLS with OpenSSL, in both roles, on an existing connection.
//!
//! [`TlsAcceptor`] has a server's certificate, [`TlsConnector`] a client's trust anchors; both reload their files when they
//! change. A [`TlsSession`] encrypts and decrypts in memory, without a socket; [`crate::Stream`] moves its bytes.

mod acceptor;
mod chains;
mod connector;
mod credential;
mod error;
mod facts;
mod handshake;
mod reloading;
mod session;
mod trust;
mod verdict;

pub use acceptor::{ServerTlsFiles, TlsAcceptor};
pub use connector::{ClientTlsFiles, TlsConnector};
pub use credential::Credential;
pub use error::{DistrustReason, TlsError};
pub use facts::{PeerCertificate, TlsFacts};
pub use reloading::{REBUILD_AFTER, RELOAD_CHECK_INTERVAL};
pub use trust::{CrlPolicy, TrustAnchors, WebAnchors};

pub(crate) use handshake::{accept, connect};
pub(crate) use session::TlsSession;
