//! The HTTP front: GET and HEAD of files with ranges, directories by WebDAV, HTML and JSON.
//!
//! [`HttpFront`] serves connections that the `root://` front has accepted on a listener of both. One task serves each, request
//! by request, and sends bytes of cached files with `sendfile`. The rules of the protocol are in `forebay_http_proto`.

mod body;
mod connection;
mod directory;
mod error_answers;
mod file;
mod http_front;
mod identity;
mod open_files;
mod options;
mod output;
mod request;
mod state;

pub use http_front::HttpFront;
pub use options::{Options, Tls};
