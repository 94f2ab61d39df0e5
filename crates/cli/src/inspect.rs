//! `forebay inspect`: the record of a cached file.

use crate::{
    admin::{self, AdminArgs},
    text,
};
use anyhow::{Context, anyhow};
use forebay_cache::{Access, CINFO_LEN_MAX, CINFO_SUFFIX, Cinfo, CinfoVersion};
use forebay_types::BlockIndex;
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Show the record (cinfo) of a cached file: sizes, blocks present, accesses. Times are UTC
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The cinfo or the data file (cinfo versions 2, 3 and 4). With --cached: the name of a file of a running cache, as clients
    /// request it
    path: PathBuf,
    /// Ask the running server
    #[arg(long)]
    cached: bool,
    // With --json, the keys are those of xrdpfc_print, and with --cached those of the API.
    #[command(flatten)]
    admin: AdminArgs,
}

/// A record and its data file on disk.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    version: CinfoVersion,
    cinfo: Cinfo,
    data: DataFile,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DataFile {
    Missing,
    Present { len: u64, allocated_bytes: u64 },
}

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    if args.cached {
        return admin::files::inspect(&args.admin, &args.path.to_string_lossy());
    }
    let record = read(&args.path)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.admin.json {
        serde_json::to_writer(&mut out, &json(&record))?;
        writeln!(out)?;
    } else {
        print(&mut out, &record)?;
    }
    out.flush()?;
    Ok(())
}

/// A record with the keys of `xrdpfc_print -j -v`.
fn json(record: &Record) -> Value {
    let cinfo = &record.cinfo;
    let blocks = 0..cinfo.geometry.block_count();
    let present: Vec<u8> = blocks.map(|index| u8::from(cinfo.blocks.contains(BlockIndex(index)))).collect();
    let json_of_access = |(number, access): (usize, &Access)| {
        json!({
            "record": number,
            "attach": text::utc_compact(access.attached),
            "detach": access.detached.map_or_else(|| STILL_OPEN.to_owned(), text::utc_compact),
            "duration": duration(access.duration_seconds),
            "n_ios": access.opens,
            "n_mrg": access.merged,
            "B_hit": access.hit_bytes,
            "B_miss": access.missed_bytes,
            "B_bypass": access.bypassed_bytes,
        })
    };
    let mut object = json!({
        "file": record.path.to_string_lossy(),
        "version": record.version.number(),
        "created": text::utc_calendar(cinfo.created),
        "cksum": cinfo.checksum.as_str(),
        "file_size": cinfo.geometry.file_size(),
        "buffer_size": cinfo.geometry.block_size(),
        "n_blocks": cinfo.geometry.block_count(),
        "state_complete": state(cinfo),
        "state_percentage": percentage(cinfo),
        "block_array": present,
        "n_acc_total": cinfo.access_count,
        "accesses": (1..).zip(&cinfo.accesses).map(json_of_access).collect::<Vec<_>>(),
    });
    if cinfo.no_checksum_time != 0
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("no-cksum-time".to_owned(), json!(text::utc_calendar(cinfo.no_checksum_time)));
    }
    object
}

/// How `xrdpfc_print` writes the end of a period that has none.
const STILL_OPEN: &str = "------:------";

fn read(path: &Path) -> anyhow::Result<Record> {
    let (cinfo_path, data_path) = paths(path);
    let shown = cinfo_path.display();
    let file = File::open(&cinfo_path).with_context(|| format!("opening {shown}"))?;
    let mut bytes = Vec::new();
    file.take(CINFO_LEN_MAX).read_to_end(&mut bytes).with_context(|| format!("reading {shown}"))?;
    let bad = |error| anyhow!("{shown} is not a valid cinfo: {error}");
    let version = CinfoVersion::of(&bytes).map_err(bad)?;
    let cinfo = Cinfo::decode(&bytes).map_err(bad)?;
    let data = match fs::metadata(&data_path) {
        Ok(metadata) => DataFile::Present { len: metadata.len(), allocated_bytes: metadata.blocks() * STAT_BLOCK_LEN },
        Err(_) => DataFile::Missing,
    };
    Ok(Record { path: cinfo_path, version, cinfo, data })
}

/// Unit of the number of blocks returned by stat, in bytes.
const STAT_BLOCK_LEN: u64 = 512;

/// The paths of the record and of the data, given either of them.
fn paths(path: &Path) -> (PathBuf, PathBuf) {
    let is_cinfo = path.as_os_str().as_encoded_bytes().ends_with(CINFO_SUFFIX.as_bytes());
    if is_cinfo {
        (path.to_owned(), path.with_extension(""))
    } else {
        let mut cinfo = OsString::from(path);
        cinfo.push(CINFO_SUFFIX);
        (cinfo.into(), path.to_owned())
    }
}

/// The state in one word, as printed by `xrdpfc_print`.
fn state(cinfo: &Cinfo) -> &'static str {
    if cinfo.is_complete() { "complete" } else { "incomplete" }
}

/// Share of the blocks that are present, in percent.
#[expect(clippy::cast_precision_loss, reason = "a percentage is shown with few decimals")]
fn percentage(cinfo: &Cinfo) -> f64 {
    if cinfo.is_complete() { 100.0 } else { 100.0 * cinfo.blocks.count() as f64 / cinfo.geometry.block_count() as f64 }
}

/// A duration as `H:MM:SS`.
fn duration(seconds: i32) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Characters of the bar of blocks.
const BAR_WIDTH: u64 = 64;

fn print(out: &mut impl Write, record: &Record) -> io::Result<()> {
    let Record { path, version, cinfo, data } = record;
    let geometry = cinfo.geometry;
    writeln!(out, "record     {}", text::printable(&path.to_string_lossy()))?;
    writeln!(out, "version    {}, created {} UTC", version.number(), text::utc(cinfo.created))?;
    writeln!(out, "file size  {} ({})", geometry.file_size(), text::bytes(geometry.file_size()))?;
    writeln!(out, "data file  {}", data_text(*data))?;
    writeln!(out, "checksums  {}", checksum_text(cinfo))?;
    let (count, total) = (cinfo.blocks.count(), geometry.block_count());
    writeln!(out, "blocks     {count} of {total} of {}", text::bytes(geometry.block_size()))?;
    writeln!(
        out,
        "state      {} ({:.1}%, {} present)",
        state(cinfo),
        percentage(cinfo),
        text::bytes(cinfo.present_bytes())
    )?;
    writeln!(out, "           [{}]  # all, + some, . none", bar(cinfo))?;
    writeln!(out, "accesses   {} in all, {} on record", cinfo.access_count, cinfo.accesses.len())?;
    if !cinfo.accesses.is_empty() {
        print_accesses(out, &cinfo.accesses)?;
    }
    Ok(())
}

fn data_text(data: DataFile) -> String {
    match data {
        DataFile::Missing => "missing".to_owned(),
        DataFile::Present { len, allocated_bytes } => {
            format!("{len} bytes long, {} on disk", text::bytes(allocated_bytes))
        }
    }
}

fn checksum_text(cinfo: &Cinfo) -> String {
    let state = cinfo.checksum.as_str();
    if cinfo.no_checksum_time == 0 {
        state.to_owned()
    } else {
        format!("{state}, unverified block since {} UTC", text::utc(cinfo.no_checksum_time))
    }
}

/// The blocks as characters, each for an equal share of them.
fn bar(cinfo: &Cinfo) -> String {
    let total = cinfo.geometry.block_count();
    let width = total.min(BAR_WIDTH);
    let share = |position: u64| {
        let edge = |position: u64| {
            u64::try_from(u128::from(total) * u128::from(position) / u128::from(width)).unwrap_or(total)
        };
        edge(position)..edge(position + 1)
    };
    (0..width).map(|position| character(cinfo, share(position))).collect()
}

fn character(cinfo: &Cinfo, mut blocks: Range<u64>) -> char {
    let is_present = |index: u64| cinfo.blocks.contains(BlockIndex(index));
    match (blocks.clone().all(is_present), blocks.any(is_present)) {
        (true, _) => '#',
        (false, true) => '+',
        (false, false) => '.',
    }
}

fn print_accesses(out: &mut impl Write, accesses: &[Access]) -> io::Result<()> {
    writeln!(
        out,
        "{:>5}  {:19}  {:19}  {:>9}  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}",
        "", "attached", "detached", "duration", "opens", "merged", "hit", "missed", "bypassed"
    )?;
    for (number, access) in (1..).zip(accesses) {
        writeln!(
            out,
            "{number:>5}  {:19}  {:19}  {:>9}  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}",
            text::utc(access.attached),
            access.detached.map_or_else(|| "-".to_owned(), text::utc),
            duration(access.duration_seconds),
            access.opens,
            access.merged,
            text::bytes(access.hit_bytes),
            text::bytes(access.missed_bytes),
            text::bytes(access.bypassed_bytes),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{ChecksumState, Geometry};

    #[test]
    fn a_record_and_its_data_are_found_from_each_other() {
        let expected = (PathBuf::from("/s/a.root.cinfo"), PathBuf::from("/s/a.root"));
        assert_eq!(paths(Path::new("/s/a.root")), expected);
        assert_eq!(paths(Path::new("/s/a.root.cinfo")), expected);
    }

    #[test]
    fn durations_are_hours_minutes_seconds() {
        assert_eq!(duration(50), "0:00:50");
        assert_eq!(duration(100 * 3600 + 61), "100:01:01");
    }

    fn cinfo(blocks: u64, present: &[Range<u64>]) -> Cinfo {
        let mut cinfo = Cinfo::new(Geometry::new(4096, blocks * 4096).unwrap(), 0, ChecksumState::None);
        for index in present.iter().cloned().flatten() {
            cinfo.blocks.insert(BlockIndex(index));
        }
        cinfo
    }

    #[test]
    fn each_block_of_a_small_file_has_its_character() {
        assert_eq!(bar(&cinfo(5, &[0..1, 2..3, 4..5])), "#.#.#");
        assert_eq!(bar(&cinfo(1, &[])), ".");
    }

    #[test]
    fn blocks_of_a_large_file_share_characters() {
        let bar = bar(&cinfo(640, &[0..10, 15..16]));
        assert_eq!(bar.len(), 64);
        assert!(bar.starts_with("#+."), "{bar}");
        assert!(!bar.get(2..).unwrap().contains(['#', '+']));
    }

    #[test]
    fn no_block_is_left_out_of_the_bar() {
        for blocks in [63, 64, 65, 127, 1000] {
            let whole = bar(&cinfo(blocks, std::slice::from_ref(&(0..blocks))));
            assert!(whole.chars().all(|c| c == '#'), "{blocks}: {whole}");
            let last = bar(&cinfo(blocks, std::slice::from_ref(&(blocks - 1..blocks))));
            assert!(!last.ends_with('.'), "{blocks}: {last}");
        }
    }
}
