//! Whether what the disk gives back is what was written to it.
//!
//! Each block has a CRC-32C, made of the verified page checksums it came with. Blocks found on disk are compared with theirs
//! before their first use ([`check`]). A block that does not match, or cannot be read, is dropped and fetched again; no reader
//! sees it.

pub(crate) mod check;
pub(crate) mod digest;
mod options;
pub(crate) mod sums;

pub use digest::{ChecksumAlgorithm, ChecksumAlgorithmError};
pub use options::{CheckPolicy, IntegrityOptions};
