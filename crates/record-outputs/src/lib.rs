//! Outputs of records of accesses: rotated files with lines of JSON, and bulk requests to OpenSearch and Elasticsearch.
//!
//! [`Records`] subscribes to the events of files. Events go through a bounded queue to one thread, which makes lines of them, and
//! lines through one bounded queue per output to a thread of that output. Records that do not fit a queue are dropped and counted: no
//! request waits for an output, and no output for another.

mod encoder;
mod event;
mod files;
mod lines;
mod options;
mod records;
mod search;

pub use forebay_records::Server as RecordServer;
pub use options::{FileOptions, RecordOptions};
pub use records::Records;
pub use search::{Authorization, SearchOptions};
