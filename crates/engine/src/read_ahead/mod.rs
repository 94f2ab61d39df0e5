//! Fetching bytes of a file before anybody asks for them.
//!
//! `forebay_cache::Recogniser` says what a handle will read next; a [`Follower`] feeds it and has the answer fetched, and more of it
//! in [`spare_time`]. A [`completion`] fetches what is missing of a whole file. All start ordinary fills, which any reader may join,
//! but only when [`Limits`] admit them: they never take memory that reads may need, and never make a read wait in line.

pub(crate) mod completion;
mod fetch;
mod file;
mod follower;
mod limits;
mod link;
mod options;
mod spare_time;
mod turns;

pub(crate) use file::FileReadAhead;
pub(crate) use follower::Follower;
pub(crate) use limits::{Limits, Permit, Purpose};
pub(crate) use link::{Delivery, Link};
pub use options::ReadAheadOptions;
pub(crate) use turns::{Demand, Turn};
