//! The interface between the engine and its origins, independent of their protocols.
//!
//! [`Origin`] and [`OriginFile`] are implemented by one crate for each protocol (`forebay-origin-root`) and by the test kit.
//! [`OriginError`] names failures in terms that no protocol owns. [`SingleFlight`] and [`SharedValue`] let many callers share
//! one attempt.

mod alternatives;
mod at_path;
mod circuit;
mod delegated_credentials;
mod detach_on_drop;
mod error;
mod failures;
mod origin;
mod reach;
mod redirects;
mod refusal;
mod shown_credentials;
mod single_flight;

pub use alternatives::Alternatives;
pub use at_path::AtPath;
pub use circuit::Circuit;
pub use delegated_credentials::DelegatedCredentials;
pub use detach_on_drop::DetachOnDrop;
pub use error::OriginError;
pub use failures::count_failure;
pub use forebay_types::Checksum;
pub use origin::{BoxFuture, Chunk, Chunks, FileIdentity, ListDetail, Origin, OriginFile, OriginFuture, OriginPath};
pub use reach::{OwnAddresses, Redirected, reach};
pub use redirects::{RedirectTargets, Redirects, TargetPattern, TargetPatternError};
pub use refusal::RefusalKind;
pub use shown_credentials::ShownCredentials;
pub use single_flight::{SharedValue, SingleFlight};
