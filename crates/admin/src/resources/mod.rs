//! What each operation does: thin adapters between the API's documents and the engine.

pub(crate) mod drain;
pub(crate) mod evict;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod pins;
pub(crate) mod prefetch;
pub(crate) mod purge;
mod scan;
pub(crate) mod scrub;
pub(crate) mod status;
