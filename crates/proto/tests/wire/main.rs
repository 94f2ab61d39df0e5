//! The protocol as a peer sees it: byte vectors, limits, round trips, splits, and whole sessions.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed, as it should")]

mod client_session;
mod frames;
mod limits;
mod listing;
mod pages;
mod responses;
mod round_trip;
mod server_session;
mod splits;
mod tls;
mod vectors;
