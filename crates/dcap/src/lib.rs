//! The dCap front: files for reading by `dcap://`.
//!
//! [`DcapFront`] serves connections that the `root://` front has accepted on a listener of its own. A client has one control connection, on
//! which it opens files, and for each open file a data connection, which the client makes to the same address (passive mode). A task serves a
//! control connection; another one opens a file, waits for its data connection, and serves that. The rules of the protocol are in
//! `forebay_dcap_proto`.

mod answers;
mod control;
mod control_line;
mod dcap_front;
mod end;
mod expected_connections;
mod failures;
mod identity;
mod mover;
mod names;
mod open;
mod options;
mod output;
mod socket;
mod state;

pub use dcap_front::DcapFront;
pub use options::Options;
