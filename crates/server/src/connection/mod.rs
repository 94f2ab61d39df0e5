//! Accepts connections, and serves each by a task.

pub(crate) mod client_connection;
pub(crate) mod server;
pub(crate) mod shared_listener;
