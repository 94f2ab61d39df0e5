//! The public interface: certificates, GSI, VOMS attributes, rules and tokens.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

mod gsi_handshake;
mod hostile_input;
mod pki;
mod rules;
mod tokens;
mod voms_attributes;
mod x509_proxy;
mod x509_trust;
