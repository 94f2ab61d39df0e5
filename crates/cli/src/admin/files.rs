//! Files of a running cache: `forebay ls`, `forebay inspect --cached`, and names of files in arguments.

use super::{
    AdminArgs,
    connection::{Connection, understood},
};
use crate::{failure::UsageError, text};
use forebay_admin::{
    EntryName,
    model::{CachedFile, FILES_PER_PAGE_MAX, FileDetail, FileList, FileRecord},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{self, BufWriter, Write};

/// Characters to encode in the path or query of a request.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Files named by an argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Named {
    File(String),
    /// The files whose full name matches.
    Pattern(String),
}

impl Named {
    /// Parses a path, a URL, or a pattern. A `?` in a URL ends the name.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let is_url = text.contains("://");
        if is_url && text.contains('*') {
            return Ok(Self::Pattern(key_of(text)?));
        }
        let is_pattern = !is_url && text.contains(['*', '?']);
        Ok(if is_pattern { Self::Pattern(text.to_owned()) } else { Self::File(key_of(text)?) })
    }
}

pub(crate) fn list(args: &AdminArgs, pattern: Option<&str>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let query = pattern.map_or_else(String::new, |pattern| format!("&pattern={}", encoded(pattern)));
    args.run(async |server| {
        matching(server, &query, |file| {
            if args.json {
                // One object per line: a list would have to be kept in memory.
                serde_json::to_writer(&mut out, &file)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", line(&file))?;
            }
            Ok(())
        })
        .await
    })?;
    out.flush()?;
    Ok(())
}

/// Passes the files of a query to `take`, page by page.
pub(super) async fn matching(
    server: &Connection,
    query: &str,
    mut take: impl FnMut(CachedFile) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut after = String::new();
    loop {
        let answer = server.get(&format!("/api/v1/files?limit={FILES_PER_PAGE_MAX}{query}{after}")).await?;
        let page: FileList = understood(answer)?;
        page.files.into_iter().try_for_each(&mut take)?;
        let Some(next) = page.next else { return Ok(()) };
        after = format!("&after={}", encoded(&next));
    }
}

pub(crate) fn inspect(args: &AdminArgs, name: &str) -> anyhow::Result<()> {
    let path = path_of(name)?;
    let answer = args.run(async |server| server.get(&path).await)?;
    args.print(answer, |out, detail| print(out, &detail))
}

/// API path of a file.
pub(super) fn path_of(name: &str) -> anyhow::Result<String> {
    Ok(format!("/api/v1/files{}", encoded(&key_of(name)?)))
}

/// API path of the pin of a file.
pub(super) fn pin_path_of(name: &str) -> anyhow::Result<String> {
    Ok(format!("/api/v1/pins{}", encoded(&key_of(name)?)))
}

/// API path of a file on the members of the cluster.
pub(super) fn location_path_of(name: &str) -> String {
    format!("/api/v1/locations/{}", encoded(name.trim_start_matches('/')))
}

/// The cache key of a file.
fn key_of(name: &str) -> anyhow::Result<String> {
    let parsed = EntryName::parse(name).map_err(|error| UsageError(format!("`{}`: {error}", text::printable(name))))?;
    Ok(parsed.key.as_str().to_owned())
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn line(file: &CachedFile) -> String {
    let open = if file.is_open { 'o' } else { '-' };
    let pinned = if file.pinned_until.is_some() { 'p' } else { '-' };
    let (size, used) = (text::bytes(file.size), text::utc(file.last_use));
    format!("{:>6} {open}{pinned} {size:>10} {used} {}", share(file), text::printable(&file.name))
}

/// The cached share of a file; never rounded up to 100%.
fn share(file: &CachedFile) -> String {
    if file.is_complete {
        return "100%".to_owned();
    }
    let permille = u128::from(file.present_bytes) * 1000 / u128::from(file.size.max(1));
    format!("{}.{}%", permille / 10, permille % 10)
}

fn print(out: &mut dyn Write, detail: &FileDetail) -> io::Result<()> {
    let FileDetail { file, record } = detail;
    writeln!(out, "name       {}", text::printable(&file.name))?;
    writeln!(out, "file size  {} ({})", file.size, text::bytes(file.size))?;
    writeln!(
        out,
        "present    {} ({}), in blocks of {}",
        text::bytes(file.present_bytes),
        share(file),
        text::bytes(file.block_size)
    )?;
    writeln!(out, "open       {}", if file.is_open { "yes" } else { "no" })?;
    writeln!(out, "created    {} UTC", text::utc(file.created))?;
    writeln!(out, "last use   {} UTC, {} uses", text::utc(file.last_use), file.uses)?;
    if let Some(until) = file.pinned_until {
        writeln!(out, "pinned     until {} UTC", text::utc(until))?;
    }
    if let Some(origin) = &file.origin {
        let changed = file.origin_mtime.map_or_else(String::new, |mtime| format!(", changed {} UTC", text::utc(mtime)));
        writeln!(out, "origin     {}{changed}", text::printable(origin))?;
    }
    for checksum in &file.checksums {
        writeln!(out, "checksum   {} {}", text::printable(&checksum.algorithm), text::printable(&checksum.value))?;
    }
    writeln!(out, "disk       {}", file.volume)?;
    record.as_ref().map_or(Ok(()), |record| print_record(out, record))
}

fn print_record(out: &mut dyn Write, record: &FileRecord) -> io::Result<()> {
    writeln!(out, "blocks     {} of {}, checksums {}", record.blocks_present, record.blocks_total, record.checksum)?;
    let mut runs: Vec<String> =
        record.present.iter().take(RUNS_SHOWN).map(|run| format!("{}+{}", run.first, run.count)).collect();
    if record.is_cut || record.present.len() > RUNS_SHOWN {
        runs.push("...".to_owned());
    }
    writeln!(out, "runs       {} (first block + number)", runs.join(" "))?;
    writeln!(out, "accesses   {} in all, {} on record", record.access_count, record.accesses.len())?;
    for access in &record.accesses {
        writeln!(
            out,
            "           {} to {}: {} opens, {} hit, {} missed, {} bypassed",
            text::utc(access.attached),
            access.detached.map_or_else(|| "-".to_owned(), text::utc),
            access.opens,
            text::bytes(access.hit_bytes),
            text::bytes(access.missed_bytes),
            text::bytes(access.bypassed_bytes),
        )?;
    }
    Ok(())
}

/// Runs of blocks printed; JSON has them all.
const RUNS_SHOWN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64, present_bytes: u64) -> CachedFile {
        serde_json::from_value(serde_json::json!({
            "name": "/store/a", "size": size, "present_bytes": present_bytes, "block_size": 4096,
            "is_complete": present_bytes == size, "is_open": true, "created": 0, "last_use": 0, "uses": 1,
            "pinned_until": 5, "volume": 0, "checksums": [],
        }))
        .unwrap()
    }

    #[test]
    fn only_complete_files_are_shown_as_complete() {
        for (size, present, expected_share) in
            [(100_000, 99_999, "99.9%"), (100_000, 100_000, "100%"), (3, 1, "33.3%"), (0, 0, "100%")]
        {
            assert_eq!(share(&file(size, present)), expected_share);
        }
        assert_eq!(line(&file(2048, 1024)), " 50.0% op    2.0 KiB 1970-01-01 00:00:00 /store/a");
    }

    #[test]
    fn patterns_are_distinguished_from_files() {
        let file = |name: &str| Named::File(name.to_owned());
        let pattern = |text: &str| Named::Pattern(text.to_owned());
        for (text, named) in [
            ("/store/a", file("/store/a")),
            ("root://c//store/a?x=y", file("/store/a")),
            ("root://c//root://o//a", file("/root:/o:1094/a")),
            ("/store/**.root", pattern("/store/**.root")),
            ("/store/?", pattern("/store/?")),
            ("root://c//root://o//a/*", pattern("/root:/o:1094/a/*")),
        ] {
            assert_eq!(Named::parse(text).unwrap(), named, "{text}");
        }
        assert!(Named::parse("store/a").is_err());
    }

    #[test]
    fn names_become_paths_of_the_api() {
        assert_eq!(path_of("root://c//store/a b?x=1").unwrap(), "/api/v1/files/store/a%20b");
        assert_eq!(path_of("root://c//root://o//f").unwrap(), "/api/v1/files/root%3A/o%3A1094/f");
        assert!(path_of("store/a").unwrap_err().is::<UsageError>());
    }
}
