//! `forebay ls` and `forebay stat`: directories and metadata of a server, or the files of a running cache.

use crate::{
    admin::{self, AdminArgs},
    client::{FileUrl, block_on},
    text,
};
use forebay_origin::{ListDetail, OriginError};
use forebay_types::{DirEntry, FileKind, FileStat};
use std::io::{self, BufWriter, Write};

/// List the files of a running cache, or a directory of a server
///
/// Without a URL, files of the cache are listed: cached share, `o` for open, `p` for pinned, size, last use (UTC) and name.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// A pattern of cached files, such as '/store/**.root' [default: all]; or a directory of any server,
    /// `root://HOST[:PORT]//path`, `roots://` for TLS (default port: 1094), `https://HOST[:PORT]/path` of a server with WebDAV, or `s3://HOST/BUCKET/`
    #[arg(value_name = "PATTERN|URL")]
    what: Option<String>,
    /// For a URL: also print type, size and modification time (UTC)
    #[arg(short)]
    long: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &LsArgs) -> anyhow::Result<()> {
    let Some(url) = args.what.as_deref().filter(|what| what.contains("://")) else {
        return admin::files::list(&args.admin, args.what.as_deref());
    };
    let url = FileUrl::parse(url)?;
    let detail = if args.long { ListDetail::Stats } else { ListDetail::Names };
    let mut entries = block_on(list(&url, detail))?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = BufWriter::new(io::stdout().lock());
    print(&mut out, &entries, args.long)?;
    out.flush()?;
    Ok(())
}

/// The entries of a directory; a file is listed as itself.
async fn list(url: &FileUrl, detail: ListDetail) -> anyhow::Result<Vec<DirEntry>> {
    let origin = url.connect()?;
    match origin.list(&url.path, detail).await {
        Ok(entries) => Ok(entries),
        Err(refused @ OriginError::Refused { .. }) => match origin.stat(&url.path).await {
            Ok(stat) if stat.kind != FileKind::Directory => {
                let name = url.name().unwrap_or("/").to_owned();
                Ok(vec![DirEntry { name, stat: Some(stat), checksum: None }])
            }
            _ => Err(refused.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn print(out: &mut impl Write, entries: &[DirEntry], is_long: bool) -> io::Result<()> {
    let widest = entries
        .iter()
        .filter_map(|entry| entry.stat.as_ref())
        .map(|stat| stat.size.to_string().len())
        .max()
        .unwrap_or(1);
    for DirEntry { name, stat, .. } in entries {
        let name = text::printable(name);
        match stat {
            Some(stat) if is_long => {
                let readable = if stat.readable { 'r' } else { '-' };
                let (kind, time) = (text::kind_letter(stat.kind), text::utc(stat.mtime));
                writeln!(out, "{kind}{readable} {:>widest$} {time} {name}", stat.size)?;
            }
            None if is_long => writeln!(out, "?- {:>widest$} {:19} {name}", "?", "?")?,
            _ => writeln!(out, "{name}")?,
        }
    }
    Ok(())
}

/// Show the metadata of a file or directory on a server
#[derive(Debug, clap::Args)]
pub(crate) struct StatArgs {
    /// `root://HOST[:PORT]//path`, `roots://` for TLS (default port: 1094), `https://HOST[:PORT]/path`, `s3://HOST/BUCKET/KEY` or `pelican://FEDERATION/path`
    url: String,
}

pub(crate) fn stat(args: &StatArgs) -> anyhow::Result<()> {
    let url = FileUrl::parse(&args.url)?;
    let stat = block_on(async { Ok(url.connect()?.stat(&url.path).await?) })?;
    print_stat(&mut io::stdout().lock(), url.path.lfn.as_str(), &stat)?;
    Ok(())
}

fn print_stat(out: &mut impl Write, path: &str, stat: &FileStat) -> io::Result<()> {
    let kind = match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Other => "other",
    };
    writeln!(out, "path      {}", text::printable(path))?;
    writeln!(out, "kind      {kind}")?;
    writeln!(out, "size      {} ({})", stat.size, text::bytes(stat.size))?;
    writeln!(out, "modified  {} UTC", text::utc(stat.mtime))?;
    writeln!(out, "flags     {}", flags(stat))?;
    writeln!(out, "id        {}", stat.id)
}

fn flags(stat: &FileStat) -> String {
    let all = [
        (stat.readable, "readable"),
        (stat.executable, "executable"),
        (stat.offline, "offline"),
        (stat.cached, "cached"),
    ];
    let set: Vec<&str> = all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: FileStat = FileStat {
        id: 7,
        kind: FileKind::File,
        size: 12_345,
        mtime: 0,
        readable: true,
        executable: false,
        offline: false,
        cached: true,
        access: None,
        validator: None,
    };

    #[test]
    fn long_lists_align_and_mark_unknown_values() {
        let entry = |name: &str, stat| DirEntry { name: name.to_owned(), stat, checksum: None };
        let mut out = Vec::new();
        print(&mut out, &[entry("a b", Some(STAT)), entry("c", None)], true).unwrap();
        let expected = "-r 12345 1970-01-01 00:00:00 a b\n?-     ? ?                   c\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn all_metadata_is_printed() {
        let mut out = Vec::new();
        print_stat(&mut out, "/a", &FileStat { size: 1536, ..STAT }).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "path      /a",
            "size      1536 (1.5 KiB)",
            "modified  1970-01-01 00:00:00 UTC",
            "flags     readable, cached",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} not in {text}");
        }
    }
}
