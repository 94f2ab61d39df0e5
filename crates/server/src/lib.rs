//! The `root://` front: sessions, request dispatch, back-pressure.
//!
//! [`Server`] accepts connections. One task serves each: it parses requests where they were received, answers what is at
//! hand at once, and starts a task for each request that must wait for a disk or an origin. Those hand frames to the
//! connection's task, the only writer of its socket, so frames never mix and answers come in any order.

mod answer;
mod authenticate;
mod buffers;
mod cache_command;
mod certificate;
mod change;
mod connection;
mod dispatch;
mod element_run;
mod elsewhere;
mod event;
mod exchange;
mod frame_cutter;
mod handles;
mod input;
mod meta;
mod open;
mod options;
mod output;
mod page_read;
mod permit;
mod query;
mod read;
mod read_vector;
mod server;
mod sessions;
mod signatures;
mod status;
mod trace;

pub use options::{Options, Tls};
pub use server::Server;
