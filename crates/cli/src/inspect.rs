//! `forebay inspect`: the record of a cached file.

mod text_form;

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
        text_form::print(&mut out, &record)?;
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
    if cinfo.no_checksum_time != 0 {
        object["no-cksum-time"] = json!(text::utc_calendar(cinfo.no_checksum_time));
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
