//! The HTTP front: GET and HEAD of files with ranges, directories by WebDAV, HTML and JSON.
//!
//! [`HttpFront`] serves connections that the `root://` front has accepted on a listener of both. With HTTP/1.1 one task serves each, request
//! by request, and sends bytes of cached files with `sendfile`. With HTTP/2 each request has a task. Both use the same handlers, which write
//! to a `Wire`. The rules of the protocol are in `forebay_http_proto`.

mod adjacent_parts;
mod body;
mod connection;
mod directory;
mod error_answers;
mod exchange;
mod facts;
mod file;
mod http2;
mod http_front;
mod identity;
mod input;
mod open_files;
mod options;
mod output;
mod peer;
mod request;
mod s3;
mod s3_listing;
mod state;
mod waiting;
mod wire;

pub use http_front::HttpFront;
pub use options::{Bucket, Options, S3, Tls};
