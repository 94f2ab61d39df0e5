//! The copying itself: requests ahead on one side, a writer on the other.

use super::digest::Digests;
use anyhow::{Context, bail};
use bytes::Bytes;
use forebay_origin::{Chunks, OriginFile};
use forebay_types::ByteRange;
use indicatif::ProgressBar;
use std::{collections::VecDeque, io::Write};
use tokio::sync::mpsc;

/// Bytes of one request.
const REQUEST_LEN: u64 = 4 << 20;

/// Requests in flight: enough to fill a long link; 32 MiB of memory.
const REQUESTS_AHEAD: usize = 8;

/// Pieces between the network and the writer.
const PIECES_QUEUED_MAX: usize = 32;

/// Copies `range` of `file` to `out`; returns the checksums continued from `digests`, and `out`.
pub(super) async fn transfer<W: Write + Send + 'static>(
    file: &dyn OriginFile,
    range: ByteRange,
    out: W,
    digests: Digests,
    bar: &ProgressBar,
) -> anyhow::Result<(Digests, W)> {
    let (pieces, received) = mpsc::channel(PIECES_QUEUED_MAX);
    let writer = tokio::task::spawn_blocking({
        let bar = bar.clone();
        move || write(received, out, digests, &bar)
    });
    let fetched = fetch(file, range, pieces).await;
    // If the writer failed, the fetch stopped because of it: report the writer's error.
    let written = writer.await?.context("writing the file")?;
    fetched.map(|()| written)
}

/// Fetches `range` in order into `pieces`; stops early, without an error, if the receiver is gone.
async fn fetch(file: &dyn OriginFile, range: ByteRange, pieces: mpsc::Sender<Bytes>) -> anyhow::Result<()> {
    let mut ahead: VecDeque<(ByteRange, Chunks)> = VecDeque::with_capacity(REQUESTS_AHEAD);
    let mut next = range.start();
    loop {
        while next < range.end() && ahead.len() < REQUESTS_AHEAD {
            let request = ByteRange::at(next, REQUEST_LEN).clipped_to(range.end());
            ahead.push_back((request, file.read(request)));
            next = request.end();
        }
        let Some((request, mut chunks)) = ahead.pop_front() else { return Ok(()) };
        let mut received = 0;
        while let Some(chunk) = chunks.next().await {
            let bytes = chunk?.bytes;
            received += bytes.len() as u64;
            if pieces.send(bytes).await.is_err() {
                return Ok(());
            }
        }
        if received != request.len() {
            bail!("internal error: received {received} of {} bytes at offset {}", request.len(), request.start());
        }
    }
}

fn write<W: Write>(
    mut pieces: mpsc::Receiver<Bytes>,
    mut out: W,
    mut digests: Digests,
    bar: &ProgressBar,
) -> std::io::Result<(Digests, W)> {
    while let Some(piece) = pieces.blocking_recv() {
        out.write_all(&piece)?;
        digests.update(&piece);
        bar.inc(piece.len() as u64);
    }
    out.flush()?;
    Ok((digests, out))
}
