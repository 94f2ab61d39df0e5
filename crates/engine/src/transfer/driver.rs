//! Drives a fill from its request to its end: readers get bytes as they arrive, and blocks are written in parallel.

use crate::{
    Error,
    entries::{cached_file::CachedFile, fill::Fill, stored_entry::StoredEntry},
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

/// Owners of a fill without readers: the table of claims and the driver.
const OWNERS: usize = 2;

/// Drives a fill to its end and releases its blocks in any case. It has a `permit` if no reader had requested its bytes.
pub(crate) async fn run(file: Arc<CachedFile>, fill: Arc<Fill>, reservation: Reservation, permit: Option<Permit>) {
    let broken_off = Err(Error::Internal { what: "a fill broke off" });
    let demand = permit.is_none().then(|| file.read_ahead.link().turns.demand());
    let mut ending = Ending { file: &file, fill: &fill, permit, result: broken_off };
    ending.result = drive(&file, &fill, &reservation, demand).await.map_err(|error| file.note_failure(error));
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
    reservation: &Reservation,
    demand: Option<Demand<'_>>,
) -> Result<(), Error> {
    let stored = file.stored.as_ref().ok_or(Error::Internal { what: "a fill of a file that is not kept" })?;
    // The open counts too: an origin that does not answer it holds no memory either.
    let origin = tokio::select! {
        origin = file.origin_file() => origin?,
        () = given_up(file, fill, reservation) => {
            fill.cut();
            return Ok(());
        }
    };
    file.account.note_server(&origin.identity().origin);
    let writer = Writer::new(file, fill, origin.as_ref());
    let is_ahead = demand.is_none();
    let mut reception = Reception { file, fill, reservation, stored, origin: origin.as_ref(), is_ahead, writer };
    let received = reception.all(demand).await;
    // After a failure too: what has come is kept, and no write is under way when the blocks are given free.
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
    reservation: &'a Reservation,
    stored: &'a StoredEntry,
    origin: &'a dyn OriginFile,
    /// Whether no reader had requested the bytes.
    is_ahead: bool,
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
        let turn = turn_for_rest(self.file, self.fill).await.map_err(Stop::Cut)?;
        let received = self.fetch(&rest).await;
        // The origin has failed: fills that wait for their turn would fail one by one.
        if turn.is_some() && matches!(&received, Err(Stop::Failed(error)) if error.is_retryable()) {
            self.file.read_ahead.link().turns.refuse_waiting();
        }
        received
    }

    /// Sends the requests of one stage and receives the answers.
    async fn fetch(&mut self, stage: &[(usize, ByteRange)]) -> Result<(), Stop> {
        let file = self.file;
        let mut delivery = file.read_ahead.link().measure();
        let mut patience = pin!(given_up(file, self.fill, self.reservation));
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
            self.file.account.add_fetched(bytes.len() as u64, self.is_ahead);
            let bytes = self.reservation.attach(bytes).ok_or(Stop::Cut(Cut::Memory))?;
            self.writer.arrived(part_index, self.fill.add(part_index, Chunk { bytes, page_sums })?);
            self.writer.start(self.stored);
        }
    }
}

/// Waits until the deferred bytes of a fill may be requested: the link has room for them, or a reader wants them.
async fn turn_for_rest<'a>(file: &'a CachedFile, fill: &Fill) -> Result<Option<Turn<'a>>, Cut> {
    let is_stopping = || file.context.admission.is_stopping();
    // During a shutdown only bytes that a reader waits for are fetched.
    if is_stopping() {
        return Err(Cut::Useless);
    }
    if fill.is_demand_only {
        return Err(Cut::Unpaid);
    }
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
        _ if is_stopping() => Err(Cut::Useless),
        None => Ok(None),
        Some(_) if is_useless => Err(Cut::Useless),
        Some(turn) => turn.map(Some).ok_or(Cut::Link),
    }
}
