//! Drives a fill from its request to its end: bytes come in, readers get them at once, blocks go to disk beside.

use crate::{
    Error,
    budget::Reservation,
    cached::CachedFile,
    fill::Fill,
    kept::Kept,
    read_ahead::{Delivery, Permit},
    writer::Writer,
};
use forebay_origin::{Chunk, Chunks};
use std::sync::Arc;

/// Drives a fill to its end, whatever happens, and gives its blocks free again. It has a `permit` when nobody had asked for its
/// bytes.
pub(crate) async fn run(file: Arc<CachedFile>, fill: Arc<Fill>, reservation: Reservation, permit: Option<Permit>) {
    let broken_off = Err(Error::Internal { what: "a fill broke off" });
    let mut ending = Ending { file: &file, fill: &fill, permit, result: broken_off };
    ending.result = drive(&file, &fill, reservation).await.map_err(|error| file.note_failure(error));
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
        self.file.claims().release(self.fill);
        if let Some(permit) = self.permit.take() {
            self.file.read_ahead().note_ended(self.file, permit, self.fill.blocks());
        }
        self.fill.end(self.result.clone());
    }
}

async fn drive(file: &Arc<CachedFile>, fill: &Arc<Fill>, reservation: Reservation) -> Result<(), Error> {
    let kept = file.kept().ok_or(Error::Internal { what: "a fill of a file that is not kept" })?;
    let origin = file.origin_file().await?;
    let mut delivery = file.read_ahead().link().measure();
    let streams = origin.read_many(&fill.requests());
    let mut writer = Writer::new(file, fill, origin.as_ref());
    let received = receive(fill, streams, reservation, kept, &mut writer, &mut delivery).await;
    if received.is_ok() {
        delivery.end();
    }
    // After a failure too: what has come is kept, and no write is under way when the blocks are given free.
    writer.finish(kept).await;
    received
}

/// Takes in the answers of all requests, and has complete blocks written beside.
async fn receive(
    fill: &Fill,
    streams: Vec<Chunks>,
    mut reservation: Reservation,
    kept: &Kept,
    writer: &mut Writer<'_>,
    delivery: &mut Delivery<'_>,
) -> Result<(), Error> {
    for (part_index, mut chunks) in streams.into_iter().enumerate() {
        while let Some(chunk) = writer.next(kept, &mut chunks).await {
            let Chunk { bytes, page_sums } = chunk?;
            delivery.note_bytes(bytes.len() as u64);
            let chunk = Chunk { bytes: reservation.attach(bytes), page_sums };
            writer.arrived(part_index, fill.add(part_index, chunk)?);
            writer.start(kept);
        }
        if !fill.has_arrived(part_index) {
            return Err(Error::Internal { what: "an origin ended a fill before its last byte" });
        }
    }
    Ok(())
}
