//! `forebay demo`: an origin, a cache and a client in one process, to see what a cache does.

use crate::{
    client::{FileUrl, block_on},
    get::{Digests, transfer},
    node::{self, Node},
    progress, text,
};
use anyhow::{Context, ensure};
use forebay_config::{Flags, Settings};
use forebay_origin::Origin;
use forebay_types::{ByteRange, Outcome};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};
use tokio::time::Instant;

/// Show what a cache does: serves a generated file, reads it through a cache, cold and warm, and prints a table
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Size of the generated file in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    size: u64,
}

/// One read of the whole file.
struct Row {
    name: &'static str,
    duration: Duration,
    from_origin: u64,
    hit: u64,
}

/// Name of the generated file.
const FILE_NAME: &str = "demo.dat";

/// Bytes generated at a time; sizes in MiB are multiples of it.
const PIECE_LEN: usize = 1 << 20;

/// Time that the servers have to finish; nothing is under way any more.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    block_on(demo(args.size << 20))
}

async fn demo(size: u64) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("creating a temporary directory")?;
    let (data, store) = (scratch.path().join("data"), scratch.path().join("store"));
    std::fs::create_dir(&data).context("creating a temporary directory")?;
    println!("generating a file of {} ...", text::bytes(size));
    let expected = generate(&data.join(FILE_NAME), size)?;

    let origin = start(Flags { export_dir: Some(shown(&data)), ..Flags::default() }).await?;
    let origin_url = url_of(&origin)?;
    println!("origin {origin_url} serves it from {}", data.display());
    // Room for the file whatever the file system holds besides.
    let budget = Some((2 * size).to_string());
    let flags = Flags { origins: vec![origin_url], store: Some(shown(&store)), budget, ..Flags::default() };
    let cache = start(flags).await?;
    let cache_url = url_of(&cache)?;
    println!("cache  {cache_url} keeps it in {}\n", store.display());

    let mut rows = Vec::new();
    for name in ["cold", "warm", "again"] {
        rows.push(read(name, &cache_url, size, &expected, &origin, &cache).await?);
    }
    print_table(&mut io::stdout().lock(), size, &rows)?;
    cache.stop(STOP_TIME_MAX, std::future::pending()).await;
    origin.stop(STOP_TIME_MAX, std::future::pending()).await;
    println!("\nEvery byte was compared. Do the same with your own files and clients:\n");
    println!("  forebay serve --listen 127.0.0.1:1094 --origin root://ORIGIN:1094 --store /var/cache/forebay");
    println!("  xrdcp root://127.0.0.1:1094//path/to/file .");
    Ok(())
}

/// Writes a file that no disk compresses; returns its checksums.
fn generate(path: &Path, size: u64) -> anyhow::Result<Digests> {
    let write = || {
        let mut out = File::create(path)?;
        let (mut digests, mut state, mut written) = (Digests::default(), 0x9E37_79B9_7F4A_7C15_u64, 0);
        let mut piece = Vec::with_capacity(PIECE_LEN);
        while written < size {
            piece.clear();
            while piece.len() < PIECE_LEN {
                // Marsaglia's xorshift.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                piece.extend_from_slice(&state.to_le_bytes());
            }
            digests.update(&piece);
            out.write_all(&piece)?;
            written += piece.len() as u64;
        }
        io::Result::Ok(digests)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

async fn start(flags: Flags) -> anyhow::Result<Node> {
    let settings = Settings::from_flags(Flags { listen: vec!["127.0.0.1:0".to_owned()], ..flags })?;
    Node::start(&settings, node::bind(&settings)?).await
}

fn url_of(node: &Node) -> anyhow::Result<String> {
    let address = node.addresses.first().context("the server listens nowhere")?;
    Ok(format!("root://{address}"))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Reads the whole file through the cache, and checks it.
async fn read(
    name: &'static str,
    cache_url: &str,
    size: u64,
    expected: &Digests,
    origin: &Node,
    cache: &Node,
) -> anyhow::Result<Row> {
    let counters = || {
        let sent: u64 = Outcome::ALL.into_iter().map(|outcome| origin.metrics().client_bytes(outcome)).sum();
        (sent, cache.metrics().client_bytes(Outcome::Hit))
    };
    let (sent_before, hit_before) = counters();
    let url = FileUrl::parse(&format!("{cache_url}//{FILE_NAME}"))?;
    let bar = progress::bar(name, size, false);
    let started = Instant::now();
    let file = url.connect()?.open(&url.path).await?;
    let range = ByteRange::at(0, size);
    let (digests, _) = transfer(file.as_ref(), range, io::sink(), Digests::default(), &bar).await?;
    let duration = started.elapsed();
    bar.finish_and_clear();
    ensure!(digests == *expected, "the file arrived wrong");
    let (sent, hit) = counters();
    Ok(Row { name, duration, from_origin: sent - sent_before, hit: hit - hit_before })
}

fn print_table(out: &mut impl Write, size: u64, rows: &[Row]) -> io::Result<()> {
    writeln!(out, "{:<6} {:>9} {:>14} {:>12} {:>10}", "read", "time", "rate", "from origin", "hit ratio")?;
    for Row { name, duration, from_origin, hit } in rows {
        let seconds = duration.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a ratio is shown in whole percents")]
        let ratio = 100.0 * *hit as f64 / size as f64;
        let (rate, from_origin) = (text::rate(size, seconds), text::bytes(*from_origin));
        writeln!(out, "{name:<6} {seconds:>7.2} s {rate:>14} {from_origin:>12} {ratio:>8.0} %")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_aligns() {
        let row = |name, from_origin, hit| Row { name, duration: Duration::from_millis(500), from_origin, hit };
        let mut out = Vec::new();
        print_table(&mut out, 1 << 20, &[row("cold", 1 << 20, 0), row("warm", 0, 1 << 20)]).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&out).unwrap().lines().map(|line| line.chars().count()).collect();
        assert_eq!(lines, [lines[0]; 3]);
    }
}
