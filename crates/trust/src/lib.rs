//! What identities are checked against: certification authorities, virtual organizations, keys and issuers, read from files, and
//! read again when the files change.

mod authorities;
mod files;
mod watched;

pub use authorities::{Authorities, Fault};
pub use files::{DIRECTORY_ENTRIES_MAX, FILE_LEN_MAX, FileError, Fingerprint, list, read, read_secret};
pub use watched::{LoadError, Refreshed, Watched};
