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
use forebay_types::ByteRange;
use std::sync::Arc;

/// Drives a fill to its end and releases its blocks in any case. It has a `permit` if no reader had requested its bytes.
pub(crate) async fn run(file: Arc<CachedFile>, fill: Arc<Fill>, reservation: Reservation, permit: Option<Permit>) {
    let broken_off = Err(Error::Internal { what: "a fill broke off" });
    let demand = permit.is_none().then(|| file.read_ahead.link().turns.demand());
    let mut ending = Ending { file: &file, fill: &fill, permit, result: broken_off };
    ending.result = drive(&file, &fill, reservation, demand).await.map_err(|error| file.note_failure(error));
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

async fn drive(
    file: &Arc<CachedFile>,
    fill: &Arc<Fill>,
    mut reservation: Reservation,
    demand: Option<Demand<'_>>,
) -> Result<(), Error> {
    let stored = file.stored.as_ref().ok_or(Error::Internal { what: "a fill of a file that is not kept" })?;
    let origin = file.origin_file().await?;
    let mut writer = Writer::new(file, fill, origin.as_ref());
    let (urgent, rest) = fill.stages();
    let mut received = fetch(file, fill, origin.as_ref(), &urgent, &mut reservation, stored, &mut writer).await;
    // The urgent bytes are here: the reader no longer waits for the link.
    drop(demand);
    let mut cut = None;
    if received.is_ok() && !rest.is_empty() {
        match turn_for_rest(file, fill).await {
            Ok(turn) => {
                received = fetch(file, fill, origin.as_ref(), &rest, &mut reservation, stored, &mut writer).await;
                // The origin has failed: fills that wait for their turn would fail one by one.
                if turn.is_some() && received.as_ref().is_err_and(Error::is_retryable) {
                    file.read_ahead.link().turns.refuse_waiting();
                }
            }
            Err(why) => {
                fill.cut();
                cut = Some(why);
            }
        }
    }
    // After a failure too: what has come is kept, and no write is under way when the blocks are given free.
    writer.finish(stored).await;
    // Only blocks cut by the link count as not kept for that reason.
    if cut == Some(Cut::Link) {
        file.note_cut(fill.blocks());
    }
    received
}

/// Why the deferred bytes of a fill are not fetched.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Cut {
    /// The link has no room for it, or its origin has failed.
    Link,
    /// It would not be kept.
    Useless,
}

/// Waits until the deferred bytes of a fill may be requested: the link has room for them, or a reader wants them.
async fn turn_for_rest<'a>(file: &'a CachedFile, fill: &Fill) -> Result<Option<Turn<'a>>, Cut> {
    let is_stopping = || file.context.admission.is_stopping();
    // During a shutdown only bytes that a reader waits for are fetched.
    if is_stopping() {
        return Err(Cut::Useless);
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

/// Sends the requests of one stage of a fill and receives the answers.
async fn fetch(
    file: &CachedFile,
    fill: &Fill,
    origin: &dyn OriginFile,
    stage: &[(usize, ByteRange)],
    reservation: &mut Reservation,
    stored: &StoredEntry,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let mut delivery = file.read_ahead.link().measure();
    let ranges: Vec<ByteRange> = stage.iter().map(|(_, range)| *range).collect();
    let streams = stage.iter().zip(origin.read_many(&ranges)).map(|((part, range), chunks)| (*part, *range, chunks));
    receive(fill, streams, reservation, stored, writer, &mut delivery).await?;
    // After success only: a broken answer would measure too low a rate.
    delivery.end();
    Ok(())
}

/// Receives the answers of all requests, and starts writing blocks as they become complete.
async fn receive(
    fill: &Fill,
    streams: impl Iterator<Item = (usize, ByteRange, Chunks)>,
    reservation: &mut Reservation,
    stored: &StoredEntry,
    writer: &mut Writer<'_>,
    delivery: &mut Delivery<'_>,
) -> Result<(), Error> {
    for (part_index, range, mut chunks) in streams.collect::<Vec<_>>() {
        // The writer is polled in between: blocks are written while later ones arrive.
        while let Some(chunk) = writer.next(stored, &mut chunks).await {
            let Chunk { bytes, page_sums } = chunk?;
            delivery.note_bytes(bytes.len() as u64);
            let chunk = Chunk { bytes: reservation.attach(bytes), page_sums };
            writer.arrived(part_index, fill.add(part_index, chunk)?);
            writer.start(stored);
        }
        if !fill.has_arrived(part_index, range.end()) {
            return Err(Error::Internal { what: "an origin ended a fill before its last byte" });
        }
    }
    Ok(())
}
