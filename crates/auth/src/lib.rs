//! Who somebody is, and what they may do: decided from bytes, keys and a time that the caller hands in.
//!
//! Nothing here performs I/O or reads a clock.

mod der;
mod fqan;
mod identity;
mod rights;
mod rules;
mod scope;
mod session_key;
mod unix_time;
pub mod x509;

pub use der::DerError;
pub use fqan::{FQAN_LEN_MAX, Fqan, FqanError};
pub use identity::{Identity, Method};
pub use rights::{Right, Rights};
pub use rules::{
    Conditions, Decision, Explanation, GRANTS_MAX, Grant, Grants, PathTemplate, PathTemplateError, RuleName, ScopeUse,
    TooManyGrants, Unmet, Verdict, Why,
};
pub use scope::Scope;
pub use session_key::{InitVector, SEALED_LEN_MAX, SessionCipher, SessionKey, SessionKeyError};
pub use unix_time::UnixTime;
