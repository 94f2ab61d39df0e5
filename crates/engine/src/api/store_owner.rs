//! Which process fills the store.

use crate::Engine;
use std::sync::Arc;

impl Engine {
    /// Lets managers and others know that this process fills the store and is reached at `url`, until the shutdown.
    pub fn tell_who_fills(&self, url: &str) {
        let roots = self.volumes().into_iter().map(|volume| volume.path).collect();
        let workers = self.context().options.workers.clone();
        self.add_task(tokio::spawn(Arc::clone(self.store_owner()).run(url.to_owned(), roots, workers)));
    }

    /// Waits until another process is found to fill the store: then this process has to leave it.
    pub async fn store_lost(&self) {
        self.store_owner().lost.wait().await;
    }
}
