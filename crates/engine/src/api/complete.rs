//! Fetching whole files on request.

use crate::{Caller, Engine, Error, OpenRequest, transfer::complete_file::complete};
use forebay_telemetry::OpenPurpose;
use std::sync::Arc;

impl Engine {
    /// Fetches what is missing of a file and keeps it. `progress` gets the bytes in the cache and the size of the file, at the
    /// beginning and whenever there are more.
    ///
    /// Bytes that others fetch in the meantime are waited for. It uses only spare memory and a bounded part of the
    /// link, so it may take its time.
    ///
    /// # Errors
    /// As for [`Engine::open`]; when the origin fails on the way, the file changes, or the cache does not keep it.
    pub async fn complete(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<(), Error> {
        let handle = self.open_for(request, caller, OpenPurpose::Complete).await?;
        // A file that the cache does not keep has nothing to complete.
        if let Some(file) = handle.cached() {
            complete(file, || true, progress).await?;
        }
        Ok(())
    }
}
