//! Memory for long requests that are being received: limits for each client and for all together.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Part of the memory budget's size that long requests may take on top of it.
const BUDGET_PART: u64 = 32;

/// Most and least bytes of all long requests.
const TOTAL_BYTES_MAX: u64 = 64 << 20;
const TOTAL_BYTES_MIN: u64 = 2 << 20;

/// Most of it that one client has.
const CLIENT_PART: usize = 4;

/// Memory that all clients share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestPool {
    free: Arc<Semaphore>,
    client_bytes: usize,
}

/// The part of one client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestMemory {
    pool: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// Memory of one request until this is dropped.
#[derive(Debug)]
pub struct RequestReservation {
    _own: OwnedSemaphorePermit,
    _pool: OwnedSemaphorePermit,
}

impl RequestPool {
    /// The pool of a server with this memory budget.
    pub fn new(budget_bytes: u64) -> Self {
        let bytes = (budget_bytes / BUDGET_PART).clamp(TOTAL_BYTES_MIN, TOTAL_BYTES_MAX);
        // At most 64 MiB.
        let permits = usize::try_from(bytes).unwrap_or(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), client_bytes: permits / CLIENT_PART }
    }

    /// The memory of a new client.
    pub fn of_client(&self) -> RequestMemory {
        RequestMemory { pool: Arc::clone(&self.free), own: Arc::new(Semaphore::new(self.client_bytes)) }
    }
}

impl RequestMemory {
    /// Waits for the memory of a request of `len` bytes. `None` when `len` is more than all memory.
    pub async fn reserve(&self, len: usize) -> Option<RequestReservation> {
        let len = u32::try_from(len).ok()?;
        // The client's own part first: its further requests wait for it, not for other clients.
        let own = Arc::clone(&self.own).acquire_many_owned(len).await.ok()?;
        let pool = Arc::clone(&self.pool).acquire_many_owned(len).await.ok()?;
        Some(RequestReservation { _own: own, _pool: pool })
    }

    /// Whether a request of `len` bytes has to wait now.
    pub fn is_used_up(&self, len: usize) -> bool {
        self.own.available_permits().min(self.pool.available_permits()) < len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::ready, pin::pin};

    const LEN: usize = 128 << 10;

    async fn is_waiting(memory: &RequestMemory) -> bool {
        tokio::select! {
            biased;
            _ = pin!(memory.reserve(LEN)) => false,
            () = ready(()) => true,
        }
    }

    #[test]
    fn the_pool_follows_the_budget() {
        for (budget, total) in [(16, 2), (64, 2), (1024, 32), (1 << 20, 64)] {
            assert_eq!(RequestPool::new(budget << 20).free.available_permits(), total << 20);
        }
    }

    #[tokio::test]
    async fn a_client_leaves_memory_to_others_until_all_have_their_part() {
        let pool = RequestPool::new(64 << 20);
        let clients = [(); 5].map(|()| pool.of_client());
        let mut held = Vec::new();
        for client in &clients[..4] {
            assert!(!client.is_used_up(LEN));
            for _ in 0..4 {
                held.push(client.reserve(LEN).await.unwrap());
            }
            assert!(client.is_used_up(LEN) && is_waiting(client).await);
        }
        assert!(clients[4].is_used_up(LEN) && is_waiting(&clients[4]).await);
        held.pop();
        assert!(!is_waiting(&clients[4]).await);
    }
}
