//! Whether what the disk gives back is what was written to it.
//!
//! Each block has a CRC-32C, made of the verified page checksums it came with. Blocks found on disk are compared with theirs
//! before their first use ([`check`]). A block that does not match, or cannot be read, is dropped and fetched again; no reader
//! sees it. A scrub ([`scrub`]) looks at what nobody reads, and complete files get checksums of the whole ([`completion`]).

pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod digest;
mod entry;
mod examination;
mod options;
pub(crate) mod scrub;
pub(crate) mod sums;

pub(crate) use entry::facts_of;

pub use digest::{ChecksumAlgorithm, ChecksumAlgorithmError};
pub use options::{CheckPolicy, IntegrityOptions};
pub use scrub::ScrubState;
