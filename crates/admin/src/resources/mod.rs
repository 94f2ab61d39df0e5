//! What each operation does: thin adapters between the API's documents and the engine.

pub(crate) mod drain;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod prefetch;
mod scan;
pub(crate) mod status;
