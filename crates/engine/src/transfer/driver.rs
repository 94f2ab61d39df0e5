//! Drives a fill from its request to its end: readers get bytes as they arrive, and blocks are written in parallel.

use crate::{
    Error,
    entries::{
        cached_file::CachedFile,
        fill::{Fill, Rest},
        stored_entry::StoredEntry,
    },
    link::{
        admission::Permit,
        link_scheduler::{Delivery, Demand, Turn},
        memory_budget::Reservation,
    },
    transfer::writer::Writer,
};
use forebay_origin::{Chunk, Chunks, OriginFile};
use forebay_telemetry::NotKept;
use forebay_types::ByteRange;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Time without a byte after which a fill lends its memory although others come over the link, and ends if no reader waits for it.
/// Longer than a busy link takes for the fills before it: one of the servers behind an origin may hang.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Time for which bytes that were fetched ahead stay in memory for a reader that does not come to them. After it their blocks are made
/// whole and go to the disk.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// Time after which bytes that are held are given up if no client has the file open. Some close it and open it again.
const HOLD_CLOSED: Duration = Duration::from_secs(2);

/// Owners of a fill without readers: the table of claims and the driver.
const OWNERS: usize = 2;

/// Drives a fill to its end and releases its blocks in any case. It has a `permit` if no reader had requested its bytes.
pub(crate) async fn run(file: Arc<CachedFile>, fill: Arc<Fill>, reservation: Reservation, permit: Option<Permit>) {
    let broken_off = Err(Error::Internal { what: "a fill broke off" });
    let demand = permit.is_none().then(|| file.read_ahead.link().turns.demand());
    let mut ending = Ending { file: &file, fill: &fill, permit, result: broken_off };
    let received = drive(&file, &fill, reservation, demand, ending.permit.as_ref()).await;
    ending.result = received.map_err(|error| file.note_failure(error));
}

/// Ends a fill also when its driver panics: its blocks may be claimed again, then waiters learn how it ended.
struct Ending<'a> {
    file: &'a CachedFile,
    fill: &'a Arc<Fill>,
    permit: Option<Permit>,
    result: Result<(), Error>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // Released before the end is reported: a reader that wakes up may claim the blocks again.
        self.file.claims.release(self.fill);
        if let Some(permit) = self.permit.take() {
            let blocks = self.fill.blocks();
            let is_stored = self.file.stored.as_ref().is_some_and(|stored| stored.map.holds(blocks));
            self.file.read_ahead.note_ended(permit, blocks, is_stored);
        }
        self.fill.end(self.result.clone());
    }
}

/// Why a fill ends before its last byte.
enum Stop {
    Failed(Error),
    Cut(Cut),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Why the rest of a fill is not fetched.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Cut {
    /// The link has no room for it, or its origin has failed.
    Link,
    /// It came so late that its memory was in other use.
    Memory,
    /// It would not be kept, or nothing comes and no reader waits for it.
    Useless,
    /// Hits have not paid for it.
    Unpaid,
}

async fn drive(
    file: &Arc<CachedFile>,
    fill: &Arc<Fill>,
    reservation: Reservation,
    demand: Option<Demand<'_>>,
    permit: Option<&Permit>,
) -> Result<(), Error> {
    let stored = file.stored.as_ref().ok_or(Error::Internal { what: "a fill of a file that is not kept" })?;
    let first = fill.stages().0.first().map(|(_, range)| *range).unwrap_or_default();
    // The open counts too: an origin that does not answer it holds no memory either.
    let origin = tokio::select! {
        origin = file.origin_file(first) => origin?,
        () = given_up(file, fill, &reservation) => {
            fill.cut();
            return Ok(());
        }
    };
    file.account.note_server(&origin.identity().origin);
    let writer = Writer::new(file, fill, origin.as_ref());
    let memory = Arc::new(reservation);
    let mut reception = Reception { file, fill, memory, stored, origin: origin.as_ref(), permit, writer };
    let received = reception.all(demand).await;
    // After a failure too: what has come is kept, and no write is under way when the blocks are given free, unless the disk is gone.
    reception.writer.finish(stored).await;
    match received {
        Ok(()) => Ok(()),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Cut(why)) => {
            fill.cut();
            match why {
                Cut::Link => file.note_cut(fill.blocks(), NotKept::Link),
                Cut::Memory => file.note_cut(fill.blocks(), NotKept::Budget),
                Cut::Unpaid => file.note_cut(fill.blocks(), NotKept::TurnOver),
                Cut::Useless => {}
            }
            Ok(())
        }
    }
}

/// Resolves when nothing comes and no reader waits for the fill. Memory for bytes that do not come is lent.
async fn given_up(file: &CachedFile, fill: &Arc<Fill>, reservation: &Reservation) {
    let (mut arrived, mut since) = (fill.arrived_bytes(), Instant::now());
    loop {
        let is_silent = timeout_at(since + STALL_MAX, file.read_ahead.link().silence()).await.is_ok();
        let arrived_before = std::mem::replace(&mut arrived, fill.arrived_bytes());
        if arrived != arrived_before {
            since = Instant::now();
        }
        let is_stalled = since.elapsed() >= STALL_MAX;
        if is_silent || is_stalled {
            reservation.lend();
        }
        if is_stalled {
            if Arc::strong_count(fill) <= OWNERS {
                return;
            }
            since = Instant::now();
        }
    }
}

/// The way of a fill's bytes, from the origin's answers to readers and disk.
struct Reception<'a> {
    file: &'a Arc<CachedFile>,
    fill: &'a Arc<Fill>,
    memory: Arc<Reservation>,
    stored: &'a StoredEntry,
    origin: &'a dyn OriginFile,
    /// Of bytes that no reader had requested.
    permit: Option<&'a Permit>,
    writer: Writer<'a>,
}

impl Reception<'_> {
    /// Fetches the requested bytes, and then the deferred ones.
    async fn all(&mut self, demand: Option<Demand<'_>>) -> Result<(), Stop> {
        let (urgent, rest) = self.fill.stages();
        self.fetch(&urgent).await?;
        // The urgent bytes are here: the reader no longer waits for the link.
        drop(demand);
        if rest.is_empty() {
            return Ok(());
        }
        if let Some(permit) = self.permit {
            permit.leave_link();
        }
        let turn = turn_for_rest(self.file, self.fill).await.map_err(Stop::Cut)?;
        if self.fill.rest == Rest::AfterUse {
            self.memory = Arc::new(self.memory_for_rest(turn.is_none()).ok_or(Stop::Cut(Cut::Memory))?);
        }
        let received = self.fetch(&rest).await;
        // The origin has failed: fills that wait for their turn would fail one by one.
        if turn.is_some() && matches!(&received, Err(Stop::Failed(error)) if error.is_retryable()) {
            self.file.read_ahead.link().turns.refuse_waiting();
        }
        received
    }

    /// Memory for the bytes around those that were fetched ahead: they had memory for themselves only.
    fn memory_for_rest(&self, is_wanted: bool) -> Option<Reservation> {
        let (budget, link) = (&self.file.context.budget, self.file.read_ahead.link());
        let len = self.fill.blocks().len() - self.fill.urgent_len();
        if is_wanted { budget.try_reserve(link, len) } else { budget.try_reserve_spare(link, len) }
    }

    /// Sends the requests of one stage and receives the answers.
    async fn fetch(&mut self, stage: &[(usize, ByteRange)]) -> Result<(), Stop> {
        let (file, memory) = (self.file, Arc::clone(&self.memory));
        let mut delivery = file.read_ahead.link().measure();
        let mut patience = pin!(given_up(file, self.fill, &memory));
        let ranges: Vec<ByteRange> = stage.iter().map(|(_, range)| *range).collect();
        for ((part_index, range), mut chunks) in stage.iter().zip(self.origin.read_many(&ranges)) {
            self.receive(*part_index, &mut chunks, &mut delivery, patience.as_mut()).await?;
            if !self.fill.has_arrived(*part_index, range.end()) {
                return Err(Error::Internal { what: "an origin ended a fill before its last byte" }.into());
            }
        }
        // After success only: a broken answer would measure too low a rate.
        delivery.end();
        Ok(())
    }

    /// Receives one answer, and starts writing blocks as they become complete.
    async fn receive(
        &mut self,
        part_index: usize,
        chunks: &mut Chunks,
        delivery: &mut Delivery<'_>,
        mut patience: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Stop> {
        loop {
            // The writer is polled in between: blocks are written while later ones arrive.
            let next = tokio::select! {
                biased;
                next = self.writer.next(self.stored, chunks) => next,
                () = patience.as_mut() => return Err(Stop::Cut(Cut::Useless)),
            };
            let Some(chunk) = next else { return Ok(()) };
            let Chunk { bytes, page_sums } = chunk.map_err(Error::Origin)?;
            delivery.note_bytes(bytes.len() as u64);
            self.file.account.add_fetched(bytes.len() as u64, self.permit.is_some());
            let bytes = self.memory.attach(bytes).ok_or(Stop::Cut(Cut::Memory))?;
            self.writer.arrived(part_index, self.fill.add(part_index, Chunk { bytes, page_sums })?);
            self.writer.start(self.stored);
        }
    }
}

/// Waits until the deferred bytes of a fill may be requested: the link has room for them, or a reader wants them.
async fn turn_for_rest<'a>(file: &'a CachedFile, fill: &Fill) -> Result<Option<Turn<'a>>, Cut> {
    // During a shutdown only bytes that a reader waits for are fetched.
    if file.context.admission.is_stopping() {
        return Err(Cut::Useless);
    }
    match fill.rest {
        Rest::InTurn => turn(file, fill).await,
        Rest::OnDemand => Err(Cut::Unpaid),
        Rest::AfterUse => turn_after_use(file, fill).await,
    }
}

async fn turn<'a>(file: &'a CachedFile, fill: &Fill) -> Result<Option<Turn<'a>>, Cut> {
    let turn = tokio::select! {
        biased;
        // First in the biased order: a reader's request ends the wait even if the file is retired.
        () = fill.rest_wanted() => None,
        () = file.retired() => return Err(Cut::Useless),
        turn = file.read_ahead.link().turn(fill.blocks().len()) => Some(turn),
    };
    let is_useless = file.is_retired() || file.keeps_nothing();
    match turn {
        // Asked again: the wait may have been long.
        _ if file.context.admission.is_stopping() => Err(Cut::Useless),
        None => Ok(None),
        Some(_) if is_useless => Err(Cut::Useless),
        Some(turn) => turn.map(Some).ok_or(Cut::Link),
    }
}

/// The same for bytes around those that were fetched ahead. Nothing is given up that a reader is expected to come to.
async fn turn_after_use<'a>(file: &'a CachedFile, fill: &Fill) -> Result<Option<Turn<'a>>, Cut> {
    loop {
        let is_wanted = held(file, fill).await?;
        if is_wanted {
            return Ok(None);
        }
        match turn(file, fill).await {
            Err(Cut::Link) if !fill.is_used() => {}
            turn => return turn,
        }
    }
}

/// Waits until readers have taken what was fetched ahead for them, or long enough; whether one wants the rest.
async fn held(file: &CachedFile, fill: &Fill) -> Result<bool, Cut> {
    let since = Instant::now();
    while since.elapsed() < HOLD_MAX {
        tokio::select! {
            biased;
            // First in the biased order, as above.
            () = fill.rest_wanted() => return Ok(true),
            () = file.retired() => return Err(Cut::Useless),
            () = file.context.admission.stopping() => return Err(Cut::Useless),
            () = fill.used() => return Ok(false),
            // sleep: the end of an interval in which the file may have been closed.
            () = tokio::time::sleep(HOLD_CLOSED) => if !file.is_open() {
                return Err(Cut::Useless);
            },
        }
    }
    Ok(false)
}
