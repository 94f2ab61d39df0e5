//! The public interface: settings as administrators write them.

mod credentials;
mod dcap;
mod direct;
mod disks;
mod doubts;
mod issuers;
mod purge;
mod read_ahead;
mod records;
mod refusals;
mod roles;
mod rules;
mod s3;
mod security;
mod service;
mod tls;
mod trace;
