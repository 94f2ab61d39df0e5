//! Origins over HTTP against scripted servers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

mod opening;
mod reading;
mod scripted;
