//! `forebay stat`: metadata of a path on a server.

use crate::{
    client::{FileUrl, block_on},
    text,
};
use forebay_origin::Origin;
use forebay_types::{FileKind, FileStat};
use std::io::{self, Write};

/// Show the metadata of a file or directory on a server
#[derive(Debug, clap::Args)]
pub(crate) struct StatArgs {
    /// `root://HOST[:PORT]//path`, or `roots://` for TLS (default port: 1094)
    url: String,
}

pub(crate) fn run(args: &StatArgs) -> anyhow::Result<()> {
    let url = FileUrl::parse(&args.url)?;
    let stat = block_on(async { Ok(url.connect()?.stat(&url.path).await?) })?;
    print(&mut io::stdout().lock(), url.path.lfn.as_str(), &stat)?;
    Ok(())
}

fn print(out: &mut impl Write, path: &str, stat: &FileStat) -> io::Result<()> {
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

    #[test]
    fn all_metadata_is_printed() {
        let stat = FileStat {
            id: 7,
            kind: FileKind::File,
            size: 1536,
            mtime: 0,
            readable: true,
            executable: false,
            offline: false,
            cached: true,
        };
        let mut out = Vec::new();
        print(&mut out, "/a", &stat).unwrap();
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
