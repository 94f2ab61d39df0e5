//! Reading of access records from files, directories and standard input.

use crate::failure::UsageError;
use anyhow::{Context as _, bail};
use forebay_cache::{CINFO_LEN_MAX, CINFO_SUFFIX, Cinfo};
use forebay_sizing::{Accesses, Import, LINE_LEN_MAX, Problem};
use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

/// The records to read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Access records: files of JSON lines or CSV, directories of them, the directory of an XCache or Forebay, or - for standard input
    #[arg(required = true, value_name = "RECORDS")]
    paths: Vec<PathBuf>,
    /// Leave out records that cannot be read, and report how many
    #[arg(long)]
    skip_bad: bool,
}

/// Bad records whose reasons are printed.
const BAD_SHOWN_MAX: u64 = 5;

/// Directories within each other at most.
const DEPTH_MAX: usize = 64;

/// Endings of files of records.
const ENDINGS: [&str; 4] = ["jsonl", "json", "csv", "log"];

/// The accesses of all records, and the defects of these.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) accesses: Accesses,
    /// Records that could not be read.
    pub(super) bad: u64,
    /// Whether they are the records of files that are still in a cache.
    pub(super) of_survivors: bool,
}

impl RecordArgs {
    pub(crate) const fn new(paths: Vec<PathBuf>, skip_bad: bool) -> Self {
        Self { paths, skip_bad }
    }

    pub(crate) fn read(&self) -> anyhow::Result<Records> {
        self.read_with(Import::default())
    }

    /// Reads the records with the requests of traces among them.
    pub(super) fn read_with_requests(&self) -> anyhow::Result<Records> {
        let records = self.read_with(Import::with_requests())?;
        if records.accesses.requests().is_empty() {
            bail!(UsageError("--unit block needs the files of a trace: other records have no requests".to_owned()));
        }
        Ok(records)
    }

    fn read_with(&self, import: Import) -> anyhow::Result<Records> {
        let mut reading = Reading { import, skip_bad: self.skip_bad, bad: 0, cinfos: 0 };
        for path in &self.paths {
            if path.as_os_str() == "-" {
                reading.lines("standard input", &mut io::stdin().lock())?;
            } else if path.is_dir() {
                reading.directory(path, path, 0)?;
            } else {
                reading.file(path)?;
            }
        }
        let (bad, of_survivors) = (reading.bad, reading.cinfos > 0);
        let accesses = reading.import.finish();
        if accesses.list().is_empty() {
            let names = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            let endings = ENDINGS.join(", .");
            bail!(UsageError(format!(
                "no access records in {names}: of a directory, files ending in .{endings} and .cinfo are read"
            )));
        }
        Ok(Records { accesses, bad, of_survivors })
    }
}

struct Reading {
    import: Import,
    skip_bad: bool,
    bad: u64,
    cinfos: u64,
}

impl Reading {
    fn directory(&mut self, root: &Path, directory: &Path, depth: usize) -> anyhow::Result<()> {
        if depth > DEPTH_MAX {
            bail!("{}: more than {DEPTH_MAX} directories within each other", directory.display());
        }
        let reading = || format!("reading {}", directory.display());
        let entries = fs::read_dir(directory).with_context(reading)?;
        let mut entries = entries.collect::<io::Result<Vec<_>>>().with_context(reading)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().with_context(reading)?.is_dir() {
                self.directory(root, &path, depth + 1)?;
            } else if path.to_str().is_some_and(|path| path.ends_with(CINFO_SUFFIX)) {
                self.cinfo(root, &path)?;
            } else if path
                .extension()
                .and_then(|ending| ending.to_str())
                .is_some_and(|ending| ENDINGS.contains(&ending))
            {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        self.lines(&path.display().to_string(), &mut open(path)?)
    }

    fn lines(&mut self, name: &str, reader: &mut dyn BufRead) -> anyhow::Result<()> {
        self.import.begin();
        each_line_of(name, reader, &mut |place, line| match self.import.line(line) {
            Ok(()) => Ok(()),
            Err(problem) => self.bad(&place.to_string(), &problem),
        })
    }

    /// Reads the record of a file that is in a cache.
    fn cinfo(&mut self, root: &Path, path: &Path) -> anyhow::Result<()> {
        let place = path.display().to_string();
        let reading = || format!("reading {place}");
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(reading)?;
        file.take(CINFO_LEN_MAX + 1).read_to_end(&mut bytes).with_context(reading)?;
        let cinfo = match Cinfo::decode(&bytes) {
            Ok(cinfo) => cinfo,
            Err(error) => return self.skip(&format!("{place}: not a record of a cached file: {error}")),
        };
        self.cinfos += 1;
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        let name = name.strip_suffix(CINFO_SUFFIX).unwrap_or(&name);
        match self.import.cinfo(name, &cinfo) {
            Ok(()) => Ok(()),
            Err(problem) => self.bad(&place, &problem),
        }
    }

    fn bad(&mut self, place: &str, problem: &Problem) -> anyhow::Result<()> {
        if let Problem::Full(_) = problem {
            bail!("{place}: {problem}");
        }
        self.skip(&format!("{place}: {problem}"))
    }

    fn skip(&mut self, text: &str) -> anyhow::Result<()> {
        if !self.skip_bad {
            bail!("{text}. --skip-bad leaves such records out");
        }
        self.bad += 1;
        if self.bad <= BAD_SHOWN_MAX {
            eprintln!("left out: {text}");
        }
        Ok(())
    }
}

/// A line of a file, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    name: &'a str,
    line: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.name, self.line)
    }
}

type Take<'a> = &'a mut dyn FnMut(Place<'_>, &[u8]) -> anyhow::Result<()>;

/// Passes each line of a file to `take`, with its place.
pub(super) fn each_line(path: &Path, take: Take<'_>) -> anyhow::Result<()> {
    each_line_of(&path.display().to_string(), &mut open(path)?, take)
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

fn each_line_of(name: &str, reader: &mut dyn BufRead, take: Take<'_>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut limited = reader.take(LINE_LEN_MAX as u64 + 1);
        if limited.read_until(b'\n', &mut text).with_context(|| format!("reading {name}"))? == 0 {
            break;
        }
        if text.len() > LINE_LEN_MAX {
            bail!("{name}, line {line}: longer than {LINE_LEN_MAX} bytes: this is not a file of records");
        }
        take(Place { name, line }, &text)?;
    }
    Ok(())
}
