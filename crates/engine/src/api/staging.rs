//! Fetching whole files, because an administrator or a client wants them to be here.

use crate::{Caller, Engine, Error, OpenRequest, namespace::routes::Target, transfer::complete_file::complete};
use forebay_telemetry::OpenPurpose;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Files that are fetched because clients have requested them.
pub(crate) struct Staging {
    /// Wishes that may be taken.
    wishes: Arc<Semaphore>,
    /// Files among them that may be fetched at the same time.
    fetches: Arc<Semaphore>,
}

/// Wishes that are taken at the same time, at most: each costs a few hundred bytes while it waits.
const WISHES_MAX: usize = 4096;

/// Files that are fetched at the same time: some fill the link, and more would only share it.
const FETCHES_MAX: usize = 16;

impl Default for Staging {
    fn default() -> Self {
        Self { wishes: Arc::new(Semaphore::new(WISHES_MAX)), fetches: Arc::new(Semaphore::new(FETCHES_MAX)) }
    }
}

impl Engine {
    /// Fetches a file to its end in the background, after those requested earlier; the result shows in the cache.
    ///
    /// # Errors
    /// When no export covers the path, or too many files are wanted already.
    pub fn stage(&self, request: OpenRequest, caller: Arc<Caller>) -> Result<(), Error> {
        if matches!(self.target(&request, &caller.delegation)?, Target::Local { .. }) || self.context().disk.is_none() {
            // Exported files are here already, and without a disk nothing can be kept: both requests are met.
            return Ok(());
        }
        let staging = &self.inner.staging;
        // Tried, not awaited: a client gets an answer at once, and too many requests are refused.
        let wish = Arc::clone(&staging.wishes).try_acquire_owned();
        let wish = wish.map_err(|_| Error::TooManyWanted { limit: WISHES_MAX })?;
        let engine = self.clone();
        let fetches = Arc::clone(&staging.fetches);
        tokio::spawn(async move {
            let _wish = wish;
            // The semaphore is never closed: waiting cannot fail.
            let _turn = fetches.acquire_owned().await;
            // Asked after the wait: a shutdown in the meantime ends the queue.
            if engine.context().admission.is_stopping() {
                return;
            }
            if let Err(error) = engine.complete(&request, &caller, &|_, _| ()).await {
                // At debug level: the client was answered long ago.
                tracing::debug!(lfn = request.lfn.as_str(), %error, "a file requested by a client could not be staged");
            }
        });
        Ok(())
    }
}

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
