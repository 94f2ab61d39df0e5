//! The admin port: open metrics and probes, the status page, and the protected administration API.
//!
//! [`Admin`] answers HTTP on a TCP listener and on a unix socket. `/metrics`, `/healthz` and `/readyz` are open; everything below
//! `/api/` requires authorization ([`AccessRules`]). Every operation of the API is declared once, in `operation`: the dispatch
//! and the [`openapi::document`] derive from it.

mod access;
mod answer;
mod api;
mod body;
mod call;
mod earlier_reads;
mod entry_name;
mod job;
mod jobs;
mod listener;
pub mod model;
pub mod openapi;
mod operation;
mod pages;
mod popularity;
mod probes;
mod problem;
mod recorder;
mod resources;
mod socket;
mod token;

pub use access::AccessRules;
pub use api::Admin;
pub use call::BODY_LEN_MAX;
pub use entry_name::EntryName;
pub use job::JOB_FAILURES_MAX;
pub use jobs::{JOBS_MAX, JOBS_RUNNING_MAX};
pub use listener::{ADMIN_CONNECTIONS_MAX, ADMIN_EXCHANGE_TIME_MAX, ADMIN_HEADER_TIME_MAX};
pub use pages::{SESSIONS_MAX, Views};
pub use popularity::{POPULARITY_WAITING_MAX, Popularity};
pub use recorder::Recorder;
pub use socket::{AdminSocket, SocketError};
pub use token::{TOKEN_LEN_MIN, TokenFile};
