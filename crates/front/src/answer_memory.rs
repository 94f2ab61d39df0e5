//! Memory for answers that are assembled or held back: limits for each connection and for all together.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one connection's answers that waiting requests may assemble or hold back at the same time.
const CONNECTION_BYTES_MAX: usize = 16 << 20;

/// Bytes of all connections' answers that may be assembled or held back at the same time, beyond one answer of each.
const TOTAL_BYTES_MAX: usize = 256 << 20;

/// Bytes of [`CONNECTION_BYTES_MAX`] that one answer reserves in advance: a frame in the making, and one on its way.
const PER_ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Memory that all connections share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPool(Arc<Semaphore>);

impl Default for MemoryPool {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TOTAL_BYTES_MAX)))
    }
}

/// Memory of one connection: up to `CONNECTION_BYTES_MAX` as long as the pool has any, else one answer after the other. So
/// clients that do not take their answers delay no other client.
#[derive(Clone, Debug)]
pub struct ConnectionMemory {
    own: Arc<Semaphore>,
    pool: Arc<Semaphore>,
    /// The holder of this needs no memory of the pool.
    turn: Arc<Semaphore>,
}

/// Memory that is taken until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: u64,
    _own: OwnedSemaphorePermit,
    /// Of the pool, or the connection's turn.
    _pool_or_turn: OwnedSemaphorePermit,
}

/// The memory of one answer.
#[derive(Debug)]
pub struct AnswerMemory {
    connection: ConnectionMemory,
    reserved: Vec<Arc<Reservation>>,
}

impl ConnectionMemory {
    /// The memory of a new connection.
    pub fn new(pool: &MemoryPool) -> Self {
        let own = Arc::new(Semaphore::new(CONNECTION_BYTES_MAX));
        Self { own, pool: Arc::clone(&pool.0), turn: Arc::new(Semaphore::new(1)) }
    }

    /// The memory of one answer; none is reserved yet.
    pub fn answer(&self) -> AnswerMemory {
        AnswerMemory { connection: self.clone(), reserved: Vec::new() }
    }

    /// Waits for `bytes`; `None` when the connection can never have so many.
    async fn reserve(&self, bytes: u64) -> Option<Reservation> {
        // Waiting for more than the limit would never end.
        let permits = u32::try_from(bytes).ok().filter(|permits| *permits as usize <= CONNECTION_BYTES_MAX)?;
        // The connection's own share first: a waiter for it must not hold memory of the pool.
        let own = Arc::clone(&self.own).acquire_many_owned(permits).await.ok()?;
        let pool_or_turn = tokio::select! {
            // The turn is taken only if the pool is used up.
            biased;
            pool = Arc::clone(&self.pool).acquire_many_owned(permits) => pool,
            turn = Arc::clone(&self.turn).acquire_owned() => turn,
        };
        Some(Reservation { bytes, _own: own, _pool_or_turn: pool_or_turn.ok()? })
    }

    /// Takes `bytes` if they are free now. The connection's turn is left to requests that wait: this one may want all that a
    /// connection can have, and can do without.
    fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let permits = u32::try_from(bytes).ok()?;
        let own = Arc::clone(&self.own).try_acquire_many_owned(permits).ok()?;
        let pool = Arc::clone(&self.pool).try_acquire_many_owned(permits).ok()?;
        Some(Reservation { bytes, _own: own, _pool_or_turn: pool })
    }
}

impl AnswerMemory {
    /// Waits for memory of an answer of `bytes`, and keeps it until the answer ends. Of a long answer only the part in the
    /// making is reserved.
    pub async fn reserve(&mut self, bytes: u64) {
        let reserved = self.connection.reserve(bytes.min(PER_ANSWER_BYTES_MAX)).await;
        self.reserved.extend(reserved.map(Arc::new));
    }

    /// Takes memory for all `bytes` of an answer if it is free now. Memory that is reserved already counts.
    pub fn try_reserve(&mut self, bytes: u64) -> bool {
        let reserved: u64 = self.reserved.iter().map(|reservation| reservation.bytes).sum();
        let more = self.connection.try_reserve(bytes.saturating_sub(reserved));
        let is_reserved = more.is_some();
        self.reserved.extend(more.map(Arc::new));
        is_reserved
    }

    /// The reservations, to be held by bytes that outlive the answer until they are sent.
    pub fn reserved(&self) -> Vec<Arc<Reservation>> {
        self.reserved.clone()
    }

    /// Waits for memory of a part that is held until it is sent; `None` when the answer as a whole has reserved memory. A
    /// holder of memory never waits for more: all could wait for each other.
    pub(crate) async fn reserve_part(&self, bytes: u64) -> Option<Reservation> {
        if self.reserved.is_empty() { self.connection.reserve(bytes).await } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Reservations of stalled connections, which hold all memory of the pool.
    fn use_up(pool: &MemoryPool) -> Vec<Reservation> {
        let stalled = |_| ConnectionMemory::new(pool).try_reserve(CONNECTION_BYTES_MAX as u64).unwrap();
        (0..TOTAL_BYTES_MAX / CONNECTION_BYTES_MAX).map(stalled).collect()
    }

    #[tokio::test]
    async fn the_memory_of_a_connection_is_limited() {
        let connection = ConnectionMemory::new(&MemoryPool::default());
        let all = connection.try_reserve(CONNECTION_BYTES_MAX as u64).unwrap();
        assert_eq!(all.bytes, CONNECTION_BYTES_MAX as u64);
        assert!(connection.try_reserve(1).is_none());
        drop(all);
        assert!(connection.try_reserve(1).is_some());
        // A request beyond the limit does not wait.
        assert!(connection.reserve(CONNECTION_BYTES_MAX as u64 + 1).await.is_none());
        assert!(connection.reserve(CONNECTION_BYTES_MAX as u64).await.is_some());
    }

    #[tokio::test]
    async fn a_used_up_pool_leaves_each_connection_one_answer_at_a_time() {
        let pool = MemoryPool::default();
        let stalled = use_up(&pool);
        let connection = ConnectionMemory::new(&pool);
        assert!(connection.try_reserve(1).is_none(), "the turn is for requests that wait");
        let first = connection.reserve(4 * MIB).await.unwrap();
        let mut second = std::pin::pin!(connection.reserve(4 * MIB));
        assert!(polled_once(second.as_mut()).await.is_none(), "one at a time");
        drop(first);
        let second = second.await.unwrap();
        assert!(connection.try_reserve(1).is_none());
        drop(stalled);
        assert!(connection.try_reserve(1).is_some(), "the pool has memory again");
        drop(second);
    }

    #[tokio::test]
    async fn freed_memory_of_the_pool_is_taken_although_the_turn_is_not_free() {
        let pool = MemoryPool::default();
        let mut stalled = use_up(&pool);
        let connection = ConnectionMemory::new(&pool);
        let _first = connection.reserve(MIB).await.unwrap();
        let mut second = std::pin::pin!(connection.reserve(MIB));
        assert!(polled_once(second.as_mut()).await.is_none());
        stalled.pop();
        assert!(second.await.is_some());
    }

    async fn polled_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            value = future.as_mut() => Some(value),
            () = std::future::ready(()) => None,
        }
    }
}
