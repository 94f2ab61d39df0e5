//! Sessions with single servers, and the pool that shares them.

pub(crate) mod buffers;
mod bulk;
pub(crate) mod connection;
mod dial;
mod frames;
mod login;
mod pages;
pub(crate) mod pending;
pub(crate) mod ping;
pub(crate) mod pool;
mod signatures;
mod socket_reader;
mod socket_writer;
