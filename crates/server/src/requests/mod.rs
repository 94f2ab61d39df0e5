//! The handlers of requests, and what they use of a connection.

pub(crate) mod context;
pub(crate) mod dispatch;
pub(crate) mod login;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod page_read;
pub(crate) mod query;
pub(crate) mod read;
pub(crate) mod read_vector;
pub(crate) mod signatures;
