//! `forebay get`: copies a file from a server to this machine.

mod digest;
mod target;

use crate::{
    client::{FileUrl, block_on},
    progress, text,
};
use anyhow::{Context, bail};
use bytes::Bytes;
use digest::{Digests, Expected, Verdict};
use forebay_origin::{Chunks, Origin, OriginFile};
use forebay_types::ByteRange;
use indicatif::ProgressBar;
use std::{
    collections::VecDeque,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use target::{PartFile, Target};
use tokio::{sync::mpsc, time::Instant};

/// Copy a file from a server, resuming an interrupted copy, and verify its checksum
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// `root://HOST[:PORT]//path`, `roots://` for TLS (default port: 1094), `https://HOST[:PORT]/path`, `s3://HOST/BUCKET/KEY` or `pelican://FEDERATION/path`
    url: String,
    /// Target: a file name, a directory, or `-` for standard output [default: the file's name in the current directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Bytes of one request.
const REQUEST_LEN: u64 = 4 << 20;

/// Requests in flight: enough to fill a long link; 32 MiB of memory.
const REQUESTS_AHEAD: usize = 8;

/// Pieces between the network and the writer.
const PIECES_QUEUED_MAX: usize = 32;

/// A file to copy.
struct Source {
    file: Arc<dyn OriginFile>,
    size: u64,
    /// Last modification, if the origin reports it.
    mtime: Option<i64>,
}

/// The result of a copy.
struct Copied {
    bytes: u64,
    digests: Digests,
    is_resumed: bool,
}

pub(crate) fn run(args: &GetArgs) -> anyhow::Result<()> {
    let url = FileUrl::parse(&args.url)?;
    let target = Target::choose(args.output.as_deref(), url.name(), args.force)?;
    block_on(async {
        let origin = url.connect()?;
        get(&url, &origin, &target, args.quiet).await
    })
}

async fn get(url: &FileUrl, origin: &Arc<dyn Origin>, target: &Target, is_quiet: bool) -> anyhow::Result<()> {
    let file = origin.open(&url.path).await?;
    let identity = file.identity();
    let source = Source { file, size: identity.size, mtime: identity.validator.mtime() };
    // Origins may read the whole file to answer, so the request runs in parallel with the transfer.
    let expected = tokio::spawn({
        let (origin, path) = (Arc::clone(origin), url.path.clone());
        async move { Expected::ask(origin.as_ref(), &path).await }
    });
    let bar = progress::bar(url.name().unwrap_or("/"), source.size, is_quiet);
    let started = Instant::now();
    let (copied, verdict) = match target {
        Target::Stdout => {
            let copied = copy_to_stdout(&source, &bar).await?;
            let verdict = expected.await.context("requesting the checksum")?.judge(&copied.digests, None)?;
            if let Verdict::Wrong(wrong) = verdict {
                bail!("the output is corrupt: {wrong}");
            }
            (copied, verdict)
        }
        Target::File { path, part, is_replaced } => {
            let (copied, verdict) = copy_to_part(&source, part, expected, &bar).await?;
            target::finish(part, path, *is_replaced)?;
            (copied, verdict)
        }
    };
    bar.finish_and_clear();
    if !is_quiet {
        let seconds = started.elapsed().as_secs_f64();
        let rate = text::rate(copied.bytes, seconds);
        let resumed = if copied.is_resumed { ", resumed" } else { "" };
        let name = text::printable(url.name().unwrap_or("/"));
        eprintln!("{name}: {} in {seconds:.1} s, {rate}{resumed}, {verdict}", text::bytes(copied.bytes));
    }
    Ok(())
}

async fn copy_to_stdout(source: &Source, bar: &ProgressBar) -> anyhow::Result<Copied> {
    let range = ByteRange::at(0, source.size);
    let (digests, _) = transfer(source.file.as_ref(), range, std::io::stdout(), Digests::default(), bar).await?;
    Ok(Copied { bytes: source.size, digests, is_resumed: false })
}

/// Completes the partial file. If an earlier attempt left corrupt data, the copy is restarted once.
async fn copy_to_part(
    source: &Source,
    path: &Path,
    expected: tokio::task::JoinHandle<Expected>,
    bar: &ProgressBar,
) -> anyhow::Result<(Copied, Verdict)> {
    let mut part = PartFile::open(path)?;
    if !part.is_beginning_of(source).await? {
        part.clear()?;
    }
    let copied = complete(source, &part, bar).await?;
    let expected = expected.await.context("requesting the checksum")?;
    let mut outcome = (expected.judge(&copied.digests, Some(path))?, copied);
    if let (Verdict::Wrong(wrong), Copied { is_resumed: true, .. }) = &outcome {
        tracing::warn!("the partial file of an earlier attempt was corrupt, starting again: {wrong}");
        part.clear()?;
        let copied = complete(source, &part, bar).await?;
        outcome = (expected.judge(&copied.digests, Some(path))?, copied);
    }
    match outcome {
        (Verdict::Wrong(wrong), _) => {
            part.remove()?;
            bail!("the copy is corrupt and was removed: {wrong}");
        }
        (verdict, copied) => Ok((copied, verdict)),
    }
}

/// Fetches the missing bytes of the partial file.
async fn complete(source: &Source, part: &PartFile, bar: &ProgressBar) -> anyhow::Result<Copied> {
    let (len, digests) = part.digest().await?;
    bar.set_position(len);
    bar.reset_eta();
    let range = ByteRange::between(len, source.size);
    let (digests, _) = transfer(source.file.as_ref(), range, part.append()?, digests, bar).await?;
    Ok(Copied { bytes: range.len(), digests, is_resumed: len > 0 })
}

/// Copies `range` of `file` to `out`; returns the checksums continued from `digests`, and `out`.
async fn transfer<W: Write + Send + 'static>(
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
