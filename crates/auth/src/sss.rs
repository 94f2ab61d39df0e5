//! The security protocol `sss`: a secret shared with the server is the proof.
//!
//! A client seals its identity with a key that both sides hold, in one message, valid once, for some seconds and from one
//! address.
//! The layout is that of the stock implementation, in both of its versions.

mod cipher;
mod keytab;
mod message;
mod seen;

pub use keytab::{KEYTAB_LEN_MAX, Keytab, KeytabError, KeytabProblem, SSS_KEYS_MAX, SssKey};
pub use message::{SssError, SssParams, SssPeer, SssStep, sss_message, verify_sss_message};
pub use seen::{SSS_SEEN_MAX, SssSeen};

#[cfg(test)]
mod tests;
