//! Room for answers that are assembled or held back in memory: limits for each connection and for all together.

use crate::options::{ASSEMBLED_BYTES_MAX, ASSEMBLED_TOTAL_MAX};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room that all connections have together.
#[derive(Clone, Debug)]
pub(crate) struct TotalRoom(Arc<Semaphore>);

impl TotalRoom {
    /// Room for [`ASSEMBLED_TOTAL_MAX`] bytes.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(ASSEMBLED_TOTAL_MAX)))
    }
}

/// Room that one connection has: up to [`ASSEMBLED_BYTES_MAX`] bytes as long as all together have any, else for one answer
/// after the other. So clients that take nothing hold up nobody but themselves.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRoom {
    /// What the connection may have at all.
    own: Arc<Semaphore>,
    total: Arc<Semaphore>,
    /// Whoever has this needs nothing of `total`.
    turn: Arc<Semaphore>,
}

/// Room that is taken; it is free again when this goes.
#[derive(Debug)]
pub(crate) struct Room {
    len: u64,
    _own: OwnedSemaphorePermit,
    /// Of the total, or the connection's turn.
    _leave: OwnedSemaphorePermit,
}

impl Room {
    /// Bytes that there is room for.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
}

impl ConnectionRoom {
    /// A new connection's room.
    pub(crate) fn new(total: &TotalRoom) -> Self {
        let own = Arc::new(Semaphore::new(ASSEMBLED_BYTES_MAX));
        Self { own, total: Arc::clone(&total.0), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Room for `len` bytes as soon as there is; `None` when the connection can never have so much.
    pub(crate) async fn take(&self, len: u64) -> Option<Room> {
        let permits = u32::try_from(len).ok().filter(|permits| *permits as usize <= ASSEMBLED_BYTES_MAX)?;
        let own = Arc::clone(&self.own).acquire_many_owned(permits).await.ok()?;
        let leave = tokio::select! {
            biased;
            leave = Arc::clone(&self.total).acquire_many_owned(permits) => leave,
            turn = Arc::clone(&self.turn).acquire_owned() => turn,
        };
        Some(Room { len, _own: own, _leave: leave.ok()? })
    }

    /// Room for `len` bytes if there is at once. The connection's turn is for those who wait: who asks this way may ask for all
    /// that a connection can have, and has another way.
    pub(crate) fn try_take(&self, len: u64) -> Option<Room> {
        let permits = u32::try_from(len).ok()?;
        let own = Arc::clone(&self.own).try_acquire_many_owned(permits).ok()?;
        let leave = Arc::clone(&self.total).try_acquire_many_owned(permits).ok()?;
        Some(Room { len, _own: own, _leave: leave })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_connection_has_so_much_and_no_more() {
        let connection = ConnectionRoom::new(&TotalRoom::new());
        let all = connection.try_take(ASSEMBLED_BYTES_MAX as u64).unwrap();
        assert_eq!(all.len(), ASSEMBLED_BYTES_MAX as u64);
        assert!(connection.try_take(1).is_none());
        drop(all);
        assert!(connection.try_take(1).is_some());
    }

    #[tokio::test]
    async fn more_than_a_connection_can_ever_have_is_not_waited_for() {
        let connection = ConnectionRoom::new(&TotalRoom::new());
        assert!(connection.take(ASSEMBLED_BYTES_MAX as u64 + 1).await.is_none());
        assert!(connection.take(ASSEMBLED_BYTES_MAX as u64).await.is_some());
    }

    #[tokio::test]
    async fn whoever_holds_all_the_room_leaves_each_connection_one_answer_at_a_time() {
        let total = TotalRoom::new();
        let stalled: Vec<_> = (0..ASSEMBLED_TOTAL_MAX / ASSEMBLED_BYTES_MAX)
            .map(|_| ConnectionRoom::new(&total).try_take(ASSEMBLED_BYTES_MAX as u64).unwrap())
            .collect();
        let connection = ConnectionRoom::new(&total);
        assert!(connection.try_take(1).is_none(), "who does not wait has no turn");
        let first = connection.take(4 * MIB).await.unwrap();
        let mut second = std::pin::pin!(connection.take(4 * MIB));
        assert!(polled_once(second.as_mut()).await.is_none(), "one at a time");
        drop(first);
        let second = second.await.unwrap();
        assert!(connection.try_take(1).is_none());
        drop(stalled);
        assert!(connection.try_take(1).is_some(), "there is room for all again");
        drop(second);
    }

    #[tokio::test]
    async fn room_that_becomes_free_is_taken_although_the_turn_is_not() {
        let total = TotalRoom::new();
        let mut stalled: Vec<_> = (0..ASSEMBLED_TOTAL_MAX / ASSEMBLED_BYTES_MAX)
            .map(|_| ConnectionRoom::new(&total).try_take(ASSEMBLED_BYTES_MAX as u64).unwrap())
            .collect();
        let connection = ConnectionRoom::new(&total);
        let _first = connection.take(MIB).await.unwrap();
        let mut second = std::pin::pin!(connection.take(MIB));
        assert!(polled_once(second.as_mut()).await.is_none());
        stalled.pop();
        assert!(second.await.is_some());
    }

    /// What `future` gives when it is polled once.
    async fn polled_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
