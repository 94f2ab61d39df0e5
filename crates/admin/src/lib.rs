//! The admin port: metrics and probes for everybody, and the administration API for those who may.
//!
//! [`Admin`] answers HTTP on a TCP listener and on a unix socket. `/metrics`, `/healthz` and `/readyz` are open; everything below
//! `/api/` asks who is calling ([`AccessRules`]). Every operation of the API is declared once, in `operation`, from which
//! come the dispatch and the [`openapi::document`].

mod access;
mod answer;
mod api;
mod call;
mod entry_name;
mod job;
mod jobs;
mod listener;
pub mod model;
pub mod openapi;
mod operation;
mod probes;
mod problem;
mod resources;
mod socket;
mod token;

pub use access::AccessRules;
pub use api::Admin;
pub use entry_name::{EntryName, EntryNameError};
pub use job::JOB_FAILURES_MAX;
pub use jobs::{JOBS_MAX, JOBS_RUNNING_MAX};
pub use listener::{ADMIN_CONNECTIONS_MAX, ADMIN_EXCHANGE_TIME_MAX, ADMIN_HEADER_TIME_MAX, BODY_LEN_MAX};
pub use socket::{AdminSocket, SocketError};
pub use token::{TOKEN_LEN_MIN, TokenError, TokenFile};
