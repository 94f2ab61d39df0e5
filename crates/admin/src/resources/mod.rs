//! The operations: thin adapters between the documents of the API and the engine.

pub(crate) mod evict;
pub(crate) mod files;
pub(crate) mod maintenance;
pub(crate) mod prefetch;
mod scan;
pub(crate) mod status;
