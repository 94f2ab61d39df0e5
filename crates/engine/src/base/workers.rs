//! Where blocking work runs.

use std::{fmt, sync::Arc, time::Duration};
use tokio::task::{JoinError, JoinHandle};

/// Where the engine's blocking work runs: what asks the disk, and what takes long.
#[derive(Clone, Default)]
pub enum Workers {
    #[default]
    Pool,
    /// On the thread of the runtime, after the delay that the function returns: with a runtime of one thread and a paused
    /// clock the same happens each time.
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Workers {
    /// Starts `work`. It continues if the handle is dropped; a panic in it shows as the handle's error.
    pub(crate) fn start<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.start_boxed(Box::new(work))
    }

    /// A task of each type of result: one of each closure would be a hundred times the same code.
    fn start_boxed<T: Send + 'static>(&self, work: Box<dyn FnOnce() -> T + Send>) -> JoinHandle<T> {
        match self {
            Self::Pool => tokio::task::spawn_blocking(work),
            Self::Inline(delay) => {
                // Asked now and not in the task: the order of the delays is that of the starts, the same in each run.
                let delay = delay();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    work()
                })
            }
        }
    }

    /// Runs `work` to its end.
    ///
    /// # Errors
    /// When it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.start(work).await
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pool => "Pool",
            Self::Inline(_) => "Inline",
        })
    }
}
