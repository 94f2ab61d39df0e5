//! Newtypes every other crate speaks in: sizes, ranges, blocks, file names, endpoints.
//!
//! Nothing here performs I/O or reads a clock.

mod address_pattern;
mod block;
mod checksum;
mod data_name;
mod date;
mod endpoint;
mod glob;
mod lfn;
mod named_enum;
mod origin_id;
mod outcome;
mod purge_reason;
mod range;
mod share;
mod side;
mod size;
mod stat;
mod validator;

pub use address_pattern::{AddressPattern, AddressPatternError};
pub use block::{BlockIndex, BlockSize, BlockSizeError};
pub use checksum::Checksum;
pub use data_name::DataName;
pub use date::date_of_day;
pub use endpoint::{Endpoint, EndpointError, XROOTD_PORT, canonical_forwarded, canonical_host};
pub use glob::glob_matches;
pub use lfn::{LFN_COMPONENT_LEN_MAX, LFN_LEN_MAX, Lfn, LfnError, RequestPath};
pub use origin_id::{OSDF_FEDERATION, OriginId, OriginIdError, Scheme};
pub use outcome::Outcome;
pub use purge_reason::PurgeReason;
pub use range::ByteRange;
pub use share::{Share, ShareError};
pub use side::Side;
pub use size::{ByteSize, ByteSizeError};
pub use stat::{Access, DirEntry, FileKind, FileStat};
pub use validator::{ETAG_LEN_MAX, ETag, VALIDATOR_CHECKSUM_LEN_MAX, Validator, ValidatorError, ValidatorMatch};
