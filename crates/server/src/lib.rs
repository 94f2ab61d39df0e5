//! The `root://` front: sessions, request dispatch, back-pressure.
//!
//! [`Server`] accepts connections. One task serves each: it parses requests where they were received, answers at once from the
//! page cache, and starts a task for each request that must wait for a disk or an origin. Those send frames to the connection's
//! task, the only writer of its socket, so frames never mix and answers come in any order.
//!
//! Folders, from the top: `connection` (listener and task of a connection), `requests` (handlers), `answers`, `base`.

mod answers;
mod base;
mod connection;
mod requests;

pub use base::options::{Options, Tls};
pub use connection::{server::Server, shared_listener::Shared};
