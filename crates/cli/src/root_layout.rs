//! `forebay root-layout`: where the columns of a ROOT file lie.

use crate::{
    client::{FileUrl, block_on},
    text,
};
use anyhow::{Context, bail};
use forebay_origin::OriginFile;
use forebay_structure::{Layout, Parser, Tree};
use forebay_types::ByteRange;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::FileExt,
};

/// Show the structure of a ROOT file: trees, columns, clusters, and where their baskets or pages lie
///
/// Only the tables of the file are read, not its data. The outcome is `parsed`, `none` (no tree), `unknown_version`, `too_large` or
/// `damaged`.
#[derive(Debug, clap::Args)]
pub(crate) struct RootLayoutArgs {
    /// A file of this machine, or of a server: `root://HOST[:PORT]//path`, `roots://` for TLS (default port: 1094), `https://HOST[:PORT]/path`, `s3://HOST/BUCKET/KEY` or `pelican://FEDERATION/path`
    #[arg(value_name = "PATH|URL")]
    file: String,
    /// Also print each basket or page: offset, length, cluster and column
    #[arg(long)]
    items: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A parsed file, and the cost of reading its tables.
struct Parsed {
    layout: Layout,
    size: u64,
    requests: u64,
    read_bytes: u64,
}

impl Parsed {
    const fn new(size: u64) -> Self {
        Self {
            layout: Layout { trees: Vec::new(), refused: Vec::new(), failure: None },
            size,
            requests: 0,
            read_bytes: 0,
        }
    }

    const fn count(&mut self, bytes: &[u8]) {
        self.requests += 1;
        self.read_bytes += bytes.len() as u64;
    }
}

pub(crate) fn run(args: &RootLayoutArgs) -> anyhow::Result<()> {
    let parsed = if args.file.contains("://") {
        let url = FileUrl::parse(&args.file)?;
        block_on(async { parse_remote(url.connect()?.open(&url.path).await?.as_ref()).await })?
    } else {
        parse_local(&args.file).with_context(|| format!("reading {}", args.file))?
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer(&mut out, &json_of(&parsed, args.items))?;
        writeln!(out)?;
    } else {
        print(&mut out, &parsed, args.items)?;
    }
    out.flush()?;
    Ok(())
}

fn parse_local(path: &str) -> io::Result<Parsed> {
    let file = File::open(path)?;
    let mut parsed = Parsed::new(file.metadata()?.len());
    let mut parser = Parser::new(parsed.size);
    while let Some(range) = parser.poll_wanted() {
        let mut bytes = vec![0; usize::try_from(range.len()).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, range.start())?;
        parsed.count(&bytes);
        parser.handle_bytes(&bytes);
    }
    parsed.layout = parser.into_layout();
    Ok(parsed)
}

async fn parse_remote(file: &dyn OriginFile) -> anyhow::Result<Parsed> {
    let mut parsed = Parsed::new(file.identity().size);
    let mut parser = Parser::new(parsed.size);
    while let Some(range) = parser.poll_wanted() {
        let bytes = read(file, range).await?;
        parsed.count(&bytes);
        parser.handle_bytes(&bytes);
    }
    parsed.layout = parser.into_layout();
    Ok(parsed)
}

async fn read(file: &dyn OriginFile, range: ByteRange) -> anyhow::Result<Vec<u8>> {
    let (mut bytes, mut chunks) = (Vec::new(), file.read(range));
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?.bytes);
    }
    if bytes.len() as u64 != range.len() {
        bail!("received {} of {} bytes at offset {}", bytes.len(), range.len(), range.start());
    }
    Ok(bytes)
}

/// Items and bytes of each column.
fn sums(tree: &Tree) -> Vec<(u64, u64)> {
    let mut sums = vec![(0, 0); tree.columns.len()];
    for item in &tree.items {
        if let Some((count, bytes)) = sums.get_mut(item.column()) {
            *count += 1;
            *bytes += item.len_bytes();
        }
    }
    sums
}

fn json_of(parsed: &Parsed, with_items: bool) -> Value {
    let layout = &parsed.layout;
    let columns = |tree: &Tree| -> Vec<Value> {
        let columns = tree.columns.iter().zip(sums(tree));
        columns.map(|(name, (items, bytes))| json!({ "name": name, "items": items, "bytes": bytes })).collect()
    };
    let items = |tree: &Tree| -> Vec<Value> {
        let item_of =
            |item: &forebay_structure::Item| json!([item.offset(), item.len_bytes(), item.cluster(), item.column()]);
        tree.items.iter().map(item_of).collect()
    };
    let trees = layout.trees.iter().map(|tree| {
        let mut object = json!({
            "name": tree.name,
            "kind": tree.kind.to_string(),
            "entries": tree.entries,
            "clusters": tree.clusters,
            "columns": columns(tree),
        });
        if with_items && let Some(fields) = object.as_object_mut() {
            fields.insert("items".to_owned(), items(tree).into());
        }
        object
    });
    let refused = layout.refused.iter();
    json!({
        "outcome": layout.outcome().as_str(),
        "reason": layout.failure.map(|why| why.to_string()),
        "size": parsed.size,
        "requests": parsed.requests,
        "read_bytes": parsed.read_bytes,
        "trees": trees.collect::<Vec<_>>(),
        "refused": refused.map(|tree| json!({ "name": tree.name, "reason": tree.why.to_string() })).collect::<Vec<_>>(),
    })
}

fn print(out: &mut impl Write, parsed: &Parsed, with_items: bool) -> io::Result<()> {
    let Parsed { layout, size, requests, read_bytes } = parsed;
    let reason = layout.failure.map(|why| format!(" ({why})")).unwrap_or_default();
    writeln!(out, "outcome   {}{reason}", layout.outcome().as_str())?;
    writeln!(out, "size      {size} ({})", text::bytes(*size))?;
    writeln!(out, "metadata  {} in {requests} reads", text::bytes(*read_bytes))?;
    for tree in &layout.trees {
        let sums = sums(tree);
        let bytes = sums.iter().map(|(_, bytes)| bytes).sum();
        writeln!(
            out,
            "\n{} {}: {} entries, {} clusters",
            tree.kind,
            text::printable(&tree.name),
            tree.entries,
            tree.clusters
        )?;
        writeln!(out, "{:>9} {:>12}  column", "items", "bytes")?;
        writeln!(out, "{:>9} {:>12}  all {}", tree.items.len(), text::bytes(bytes), tree.columns.len())?;
        for (name, (count, bytes)) in tree.columns.iter().zip(sums) {
            writeln!(out, "{count:>9} {:>12}  {}", text::bytes(bytes), text::printable(name))?;
        }
        if with_items {
            writeln!(out, "{:>14} {:>10} {:>8}  column", "offset", "bytes", "cluster")?;
            for item in &tree.items {
                let column = tree.columns.get(item.column()).map_or("", String::as_str);
                let (offset, len, cluster) = (item.offset(), item.len_bytes(), item.cluster());
                writeln!(out, "{offset:>14} {len:>10} {cluster:>8}  {}", text::printable(column))?;
            }
        }
    }
    for tree in &layout.refused {
        writeln!(out, "\n{}: not used: {}", text::printable(&tree.name), tree.why)?;
    }
    Ok(())
}
