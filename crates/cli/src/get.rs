//! `forebay get`: copies a file from a server to this machine.

mod digest;
mod target;
mod transfer;

use crate::{
    client::{FileUrl, block_on},
    progress, text,
};
use anyhow::{Context, bail};
use digest::{Digests, Expected, Verdict};
use forebay_origin::{Origin, OriginFile, RootOrigin};
use forebay_types::ByteRange;
use indicatif::ProgressBar;
use std::{path::PathBuf, sync::Arc};
use target::{PartFile, Target};
use tokio::time::Instant;
use transfer::transfer;

/// Copy a file from a server, resuming where an earlier try stopped, and verify its checksum
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// root://HOST:PORT//path, or roots:// for TLS (the port may be left out: 1094)
    url: String,
    /// Where to put the file: a name, a directory, or `-` for standard output. Unless given, its own name, here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// A file to copy.
struct Source {
    file: Arc<dyn OriginFile>,
    size: u64,
    /// When it was last changed, if the origin gives that.
    mtime: Option<i64>,
}

/// What a copy amounted to.
struct Copied {
    bytes: u64,
    digests: Digests,
    is_resumed: bool,
}

pub(crate) fn run(args: &GetArgs) -> anyhow::Result<()> {
    let url = FileUrl::parse(&args.url)?;
    let target = Target::choose(args.output.as_deref(), url.name(), args.force)?;
    block_on(async {
        let origin = Arc::new(url.connect()?);
        get(&url, &origin, &target, args.quiet).await
    })
}

async fn get(url: &FileUrl, origin: &Arc<RootOrigin>, target: &Target, is_quiet: bool) -> anyhow::Result<()> {
    let file = origin.open(&url.path).await?;
    let identity = file.identity();
    let source = Source { file, size: identity.size, mtime: identity.validator.mtime() };
    // Origins may read the whole file to answer: that goes on while the bytes travel.
    let expected = tokio::spawn({
        let (origin, path) = (Arc::clone(origin), url.path.clone());
        async move { Expected::ask(origin.as_ref(), &path).await }
    });
    let bar = progress::bar(url.name().unwrap_or("/"), source.size, is_quiet);
    let started = Instant::now();
    let (copied, verdict) = match target {
        Target::Stdout => {
            let copied = copy_to_stdout(&source, &bar).await?;
            let verdict = expected.await.context("asking for the checksum")?.judge(&copied.digests, None)?;
            if let Verdict::Wrong(wrong) = verdict {
                bail!("what was written is not the file: {wrong}");
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

/// Completes the partial file. When it was begun by an earlier try and turns out wrong, it is begun anew, once.
async fn copy_to_part(
    source: &Source,
    path: &std::path::Path,
    expected: tokio::task::JoinHandle<Expected>,
    bar: &ProgressBar,
) -> anyhow::Result<(Copied, Verdict)> {
    let mut part = PartFile::open(path)?;
    if !part.is_beginning_of(source).await? {
        part.clear()?;
    }
    let copied = complete(source, &part, bar).await?;
    let expected = expected.await.context("asking for the checksum")?;
    let mut outcome = (expected.judge(&copied.digests, Some(path))?, copied);
    if let (Verdict::Wrong(wrong), Copied { is_resumed: true, .. }) = &outcome {
        tracing::warn!("what an earlier try left was wrong, beginning anew: {wrong}");
        part.clear()?;
        let copied = complete(source, &part, bar).await?;
        outcome = (expected.judge(&copied.digests, Some(path))?, copied);
    }
    match outcome {
        (Verdict::Wrong(wrong), _) => {
            part.remove()?;
            bail!("the file arrived wrong and was removed: {wrong}");
        }
        (verdict, copied) => Ok((copied, verdict)),
    }
}

/// Fetches what the partial file lacks.
async fn complete(source: &Source, part: &PartFile, bar: &ProgressBar) -> anyhow::Result<Copied> {
    let (len, digests) = part.digest().await?;
    bar.set_position(len);
    bar.reset_eta();
    let range = ByteRange::between(len, source.size);
    let (digests, _) = transfer(source.file.as_ref(), range, part.append()?, digests, bar).await?;
    Ok(Copied { bytes: range.len(), digests, is_resumed: len > 0 })
}
