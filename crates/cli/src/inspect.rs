//! `forebay inspect`: the record of a cached file.

mod json_form;
mod text_form;

use crate::admin::{self, AdminArgs};
use anyhow::{Context, anyhow};
use forebay_cache::{CINFO_LEN_MAX, CINFO_SUFFIX, Cinfo, CinfoVersion};
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
        serde_json::to_writer(&mut out, &json_form::json(&record))?;
        writeln!(out)?;
    } else {
        text_form::print(&mut out, &record)?;
    }
    out.flush()?;
    Ok(())
}

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
