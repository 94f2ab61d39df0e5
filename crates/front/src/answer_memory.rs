//! Memory for answers that are assembled or held back: limits for each connection and for all together.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Part of the memory budget that the answers of all connections may take on top of it: an eighth.
const BUDGET_PART: u64 = 8;

/// Most and least bytes of all connections' answers, beyond one piece of each.
const TOTAL_BYTES_MAX: u64 = 256 << 20;
const TOTAL_BYTES_MIN: u64 = 4 << 20;

/// Bytes of one connection's answers, at most this part of the total.
const CONNECTION_BYTES_MAX: u64 = 16 << 20;
const CONNECTION_PART: u64 = 4;

/// Long answers of one connection that are made at the same time: each reserves this part of the connection's share.
const ANSWERS_PER_CONNECTION: u64 = 4;

/// Pieces of one answer that wait for the client, or are in the making. The reservation of an answer has room for them.
const PIECES_PER_ANSWER: u64 = 8;

/// Frames longer than a piece that wait for the client: elements of vector reads have up to 2 MiB, and are sent whole.
const LARGE_FRAMES_MAX: usize = 2;

/// Least length of a piece, and its length when the memory of all connections is used up.
const SHORT_PIECE_LEN: u64 = 64 << 10;

/// Memory that all connections share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPool {
    free: Arc<Semaphore>,
    connection_bytes: u64,
}

/// Memory of one connection: its share as long as the pool has any, else one piece of an answer after the other. So clients that do
/// not take their answers delay no other client.
#[derive(Clone, Debug)]
pub struct ConnectionMemory {
    pool: MemoryPool,
    own: Arc<Semaphore>,
    /// The answer that is made in pieces holds this to its end.
    turn: Arc<Semaphore>,
    /// The piece that is made or being sent holds this. It needs no memory of the pool.
    piece: Arc<Semaphore>,
    /// Held by frames that are longer than a piece until they are sent.
    large_frames: Arc<Semaphore>,
}

/// Memory that is taken until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: u64,
    _own: Option<OwnedSemaphorePermit>,
    /// Of the pool, or the connection's piece.
    _pool_or_piece: OwnedSemaphorePermit,
}

/// The memory of one answer.
#[derive(Debug)]
pub struct AnswerMemory {
    connection: ConnectionMemory,
    reserved: Vec<Arc<Reservation>>,
    /// The pool was used up: the answer is made in pieces.
    turn: Option<OwnedSemaphorePermit>,
    /// Its parts are not counted, and wait for no memory.
    is_short: bool,
}

impl MemoryPool {
    /// The pool of a server with this memory budget.
    pub fn new(budget_bytes: u64) -> Self {
        let bytes = (budget_bytes / BUDGET_PART).clamp(TOTAL_BYTES_MIN, TOTAL_BYTES_MAX);
        // At most 256 MiB.
        let permits = usize::try_from(bytes).unwrap_or(Semaphore::MAX_PERMITS);
        let connection_bytes = (bytes / CONNECTION_PART).min(CONNECTION_BYTES_MAX);
        Self { free: Arc::new(Semaphore::new(permits)), connection_bytes }
    }

    /// Most bytes that one answer reserves.
    const fn answer_bytes(&self) -> u64 {
        self.connection_bytes / ANSWERS_PER_CONNECTION
    }

    /// Counts `len` bytes that a client does not take now, until the value is dropped; `None` when there is no memory for them.
    pub fn hold(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(u32::try_from(len).ok()?).ok()
    }

    /// Whether `len` bytes are free.
    pub fn has(&self, len: usize) -> bool {
        self.free.available_permits() >= len
    }
}

impl ConnectionMemory {
    /// The memory of a new connection.
    pub fn new(pool: &MemoryPool) -> Self {
        let permits = usize::try_from(pool.connection_bytes).unwrap_or(Semaphore::MAX_PERMITS);
        // An answer that is made in pieces waits for its own only, so a second one could make two of them wait for each other.
        let permits = [permits, 1, 1, LARGE_FRAMES_MAX];
        let [own, turn, piece, large_frames] = permits.map(|permits| Arc::new(Semaphore::new(permits)));
        Self { pool: pool.clone(), own, turn, piece, large_frames }
    }

    /// The memory of one answer; none is reserved yet.
    pub fn answer(&self) -> AnswerMemory {
        AnswerMemory { connection: self.clone(), reserved: Vec::new(), turn: None, is_short: false }
    }

    /// The same for an answer that is too short to be counted. It does not wait for long ones, which their client may not take.
    pub fn short_answer(&self) -> AnswerMemory {
        AnswerMemory { is_short: true, ..self.answer() }
    }

    /// Takes `bytes` if they are free now.
    fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let own = Arc::clone(&self.own).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        self.of_pool(bytes, own)
    }

    /// Waits for `bytes` of the connection's share; `None` when the pool does not have them then.
    async fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let own = Arc::clone(&self.own).acquire_many_owned(u32::try_from(bytes).ok()?).await.ok()?;
        self.of_pool(bytes, own)
    }

    fn of_pool(&self, bytes: u64, own: OwnedSemaphorePermit) -> Option<Reservation> {
        let pool = Arc::clone(&self.pool.free).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        Some(Reservation { bytes, _own: Some(own), _pool_or_piece: pool })
    }

    /// Waits until the connection has sent the piece before.
    async fn piece(&self) -> Option<Reservation> {
        let piece = Arc::clone(&self.piece).acquire_owned().await.ok()?;
        Some(Reservation { bytes: 0, _own: None, _pool_or_piece: piece })
    }
}

impl AnswerMemory {
    /// Reserves memory of an answer of `bytes`, which it keeps until it ends: of a long answer only the part in the making. Waits for the
    /// other answers of the connection if these have its share; makes the answer in pieces if other connections have the memory.
    pub async fn reserve(&mut self, bytes: u64) {
        let bytes = bytes.min(self.connection.pool.answer_bytes());
        match self.connection.reserve(bytes).await {
            Some(reserved) => self.reserved.push(Arc::new(reserved)),
            None => {
                self.turn = Arc::clone(&self.connection.turn).acquire_owned().await.ok();
                self.next_piece().await;
            }
        }
    }

    /// Begins the next piece of an answer that is made in pieces: waits until the client has taken the one before.
    pub async fn next_piece(&mut self) {
        if self.turn.is_some() {
            // The bytes that are being sent still hold the reservation: the permit is free when the client has them.
            self.reserved.clear();
            self.reserved.extend(self.connection.piece().await.map(Arc::new));
        }
    }

    /// A place for a frame longer than a piece, which holds more than is reserved for it: it waits until the client has taken those before.
    pub async fn large_frame(&self) -> Option<Arc<Reservation>> {
        let place = Arc::clone(&self.connection.large_frames).acquire_owned().await.ok()?;
        Some(Arc::new(Reservation { bytes: 0, _own: None, _pool_or_piece: place }))
    }

    /// Length of a piece, at most `len`.
    pub fn piece_len(&self, len: u64) -> u64 {
        let of_answer = self.connection.pool.answer_bytes() / PIECES_PER_ANSWER;
        let len_max = if self.turn.is_some() { SHORT_PIECE_LEN } else { of_answer.max(SHORT_PIECE_LEN) };
        len.min(len_max)
    }

    /// Takes memory for all `bytes` of an answer if it is free now. Memory that is reserved already counts.
    pub fn try_reserve(&mut self, bytes: u64) -> bool {
        let more = self.connection.try_reserve(bytes.saturating_sub(self.reserved_bytes()));
        let is_reserved = more.is_some();
        self.reserved.extend(more.map(Arc::new));
        is_reserved
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved.iter().map(|reservation| reservation.bytes).sum()
    }

    /// The reservations, to be held by bytes that outlive the answer until they are sent.
    pub fn reserved(&self) -> Vec<Arc<Reservation>> {
        self.reserved.clone()
    }

    /// The same memory, for the reads of the answer: they hold what is reserved by now, and reserve nothing more.
    #[must_use]
    pub fn of_reads(&self) -> Self {
        Self { reserved: self.reserved.clone(), is_short: self.is_short, ..self.connection.answer() }
    }

    /// Memory for a part of up to `len` bytes that is held until it is sent, and the length of the part; no memory when the answer as
    /// a whole has reserved some. A holder of memory never waits for more: all could wait for each other.
    pub(crate) async fn reserve_part(&self, len: u64) -> (Option<Reservation>, u64) {
        if self.is_short {
            return (None, len);
        }
        if !self.reserved.is_empty() {
            return (None, self.piece_len(len).min(self.reserved_bytes().max(SHORT_PIECE_LEN)));
        }
        match self.connection.reserve(len).await {
            // Short parts would cost a slow disk one access each.
            Some(reserved) => (Some(reserved), len),
            None => (self.connection.piece().await, len.min(SHORT_PIECE_LEN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    const MIB: u64 = 1 << 20;

    /// Reservations of stalled connections, which hold all memory of the pool.
    fn use_up(pool: &MemoryPool) -> Vec<Reservation> {
        let stalled = |_| ConnectionMemory::new(pool).try_reserve(pool.connection_bytes).unwrap();
        (0..CONNECTION_PART).map(stalled).collect()
    }

    #[test]
    fn the_pool_follows_the_budget() {
        for (budget, total, of_connection) in [(16, 4, 1), (64, 8, 2), (1024, 128, 16), (1 << 20, 256, 16)] {
            let pool = MemoryPool::new(budget * MIB);
            assert_eq!(pool.free.available_permits() as u64, total * MIB);
            assert_eq!(pool.connection_bytes, of_connection * MIB);
            assert!(ConnectionMemory::new(&pool).answer().piece_len(MIB) <= pool.answer_bytes());
        }
    }

    #[tokio::test]
    async fn short_answers_do_not_wait_for_long_ones() {
        let pool = MemoryPool::new(64 * MIB);
        let connection = ConnectionMemory::new(&pool);
        let _long = connection.try_reserve(pool.connection_bytes).unwrap();
        assert!(polled_once(pin!(connection.answer().reserve_part(100))).await.is_none());
        let (memory, len) = polled_once(pin!(connection.short_answer().reserve_part(100))).await.unwrap();
        assert_eq!((memory.is_none(), len), (true, 100));
    }

    #[tokio::test]
    async fn answers_wait_for_the_share_of_their_connection() {
        let connection = ConnectionMemory::new(&MemoryPool::new(64 * MIB));
        let mut answers = [(); 4].map(|()| connection.answer());
        for answer in &mut answers {
            answer.reserve(100 * MIB).await;
            assert_eq!((answer.turn.is_some(), answer.piece_len(MIB)), (false, SHORT_PIECE_LEN));
        }
        assert!(!answers[0].try_reserve(MIB));
        let mut waiting = connection.answer();
        assert!(polled_once(pin!(waiting.reserve(1))).await.is_none());
        drop(answers);
        waiting.reserve(1).await;
        assert!(waiting.try_reserve(2 * MIB - 1));
    }

    #[tokio::test]
    async fn reads_of_an_answer_with_memory_wait_for_none() {
        let pool = MemoryPool::new(16 * MIB);
        let connection = ConnectionMemory::new(&pool);
        let mut answer = connection.answer();
        answer.reserve(128 << 10).await;
        let _others = connection.try_reserve(pool.connection_bytes - (128 << 10)).unwrap();
        let (memory, len) = polled_once(pin!(answer.of_reads().reserve_part(MIB))).await.unwrap();
        assert!(memory.is_none() && (SHORT_PIECE_LEN..=128 << 10).contains(&len), "{len}");
        let _stalled = use_up(&MemoryPool { free: Arc::clone(&pool.free), connection_bytes: 3 * MIB / 4 });
        let other = ConnectionMemory::new(&pool);
        let mut answer = other.answer();
        answer.reserve(128 << 10).await;
        assert!(answer.turn.is_some());
        let (memory, len) = polled_once(pin!(answer.of_reads().reserve_part(MIB))).await.unwrap();
        assert_eq!((memory.is_none(), len), (true, SHORT_PIECE_LEN));
    }

    #[tokio::test]
    async fn a_piece_waits_until_the_one_before_is_sent() {
        let pool = MemoryPool::new(64 * MIB);
        let _stalled = use_up(&pool);
        let connection = ConnectionMemory::new(&pool);
        let mut answer = connection.answer();
        answer.reserve(MIB).await;
        assert_eq!(answer.piece_len(MIB), SHORT_PIECE_LEN);
        let sent = answer.reserved();
        assert!(polled_once(pin!(answer.next_piece())).await.is_none());
        drop(sent);
        assert!(polled_once(pin!(answer.next_piece())).await.is_some());
        assert!(polled_once(pin!(connection.answer().reserve(1))).await.is_none(), "one answer at a time");
    }

    #[tokio::test]
    async fn a_used_up_pool_leaves_each_connection_one_piece_at_a_time() {
        let pool = MemoryPool::new(64 * MIB);
        let stalled = use_up(&pool);
        let (one, other) = (ConnectionMemory::new(&pool), ConnectionMemory::new(&pool));
        assert!(one.try_reserve(1).is_none());
        let (held, len) = one.answer().reserve_part(MIB).await;
        assert_eq!((held.is_some(), len), (true, SHORT_PIECE_LEN));
        assert!(polled_once(pin!(one.answer().reserve(1))).await.is_none(), "one at a time");
        assert!(polled_once(pin!(other.answer().reserve(1))).await.is_some(), "of each connection");
        drop(held);
        assert!(polled_once(pin!(one.answer().reserve(1))).await.is_some());
        drop(stalled);
        assert!(one.try_reserve(MIB).is_some(), "the pool has memory again");
    }

    async fn polled_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            value = future.as_mut() => Some(value),
            () = std::future::ready(()) => None,
        }
    }
}
