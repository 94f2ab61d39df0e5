//! The origin client against a scripted server: every failure ends in the right bytes or the right error, in time.

#![expect(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod listing;
mod opening;
mod reading;
mod recovery;
mod redirects;
mod setup;
