//! Files that a client wants to be here before they are read.

use crate::{Caller, Engine, Error, OpenRequest, namespace::routes::Target};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What is being fetched because a client has asked for it.
pub(crate) struct Staging {
    /// Wishes that may be taken.
    wishes: Arc<Semaphore>,
    /// Of these, files that may be fetched at the same time.
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
    /// Has a file fetched to its end, in its turn and in the background; what becomes of that shows in the cache.
    ///
    /// # Errors
    /// When no export covers the path, or too many files are wanted already.
    pub fn stage(&self, request: OpenRequest, caller: Arc<Caller>) -> Result<(), Error> {
        if matches!(self.target(&request, &caller.delegation)?, Target::Local { .. }) || self.context().disk.is_none() {
            return Ok(());
        }
        let staging = &self.staging();
        let wish = Arc::clone(&staging.wishes).try_acquire_owned();
        let wish = wish.map_err(|_| Error::TooManyWanted { limit: WISHES_MAX })?;
        let (engine, fetches) = (self.clone(), Arc::clone(&staging.fetches));
        tokio::spawn(async move {
            let _wish = wish;
            // The semaphore is never closed: waiting cannot fail.
            let _turn = fetches.acquire_owned().await;
            if engine.context().admission.is_stopping() {
                return;
            }
            if let Err(error) = engine.complete(&request, &caller, &|_, _| ()).await {
                tracing::debug!(lfn = request.lfn.as_str(), %error, "a file that a client wants to be here is not fetched");
            }
        });
        Ok(())
    }
}
