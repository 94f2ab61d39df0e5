//! Verifications of credentials, on threads of their own, for peers that have proved nothing yet. Each computes for milliseconds; one that
//! needs a key of its issuer may wait for it for seconds.

use tokio::{sync::Semaphore, task::JoinError};

/// Verifications of all fronts at the same time. The threads are those that also work for the disks.
const EXAMINATIONS_MAX: usize = 64;

static EXAMINATIONS: Semaphore = Semaphore::const_new(EXAMINATIONS_MAX);

/// Runs a verification when it is its turn.
///
/// # Errors
/// When it panics.
pub async fn examine<T: Send + 'static>(verify: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    // The semaphore is never closed: waiting cannot fail.
    let turn = EXAMINATIONS.acquire().await;
    let examined = tokio::task::spawn_blocking(move || {
        // Held by the thread: it is occupied until the work ends, also when the connection has ended.
        let _turn = turn;
        verify()
    });
    examined.await
}
