//! Jobs of a cluster against one server, with what they did second by second.

use crate::load::{JobReport, LoadFile, SecondReport, Stress, StressOptions, StressReport, VisitShape};
use anyhow::{Context as _, Result, ensure};
use forebay_bench::interrupt;
use forebay_types::ByteSize;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// How many jobs do what.
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// The server, as `root://HOST:PORT` or `HOST:PORT`.
    server: String,
    /// Absolute paths of files made by `make-file`; each job chooses a random one for each visit.
    #[arg(required = true)]
    paths: Vec<String>,
    /// Length of each file.
    #[arg(long)]
    file_size: ByteSize,
    /// Jobs at a time, each with a connection of its own.
    #[arg(long, default_value_t = 50)]
    jobs: u16,
    /// Files that each job visits, one after the other.
    #[arg(long, default_value_t = 2)]
    visits: u32,
    /// Most ranges that are read in one visit; how many is chance.
    #[arg(long, default_value_t = VisitShape::default().ranges_max)]
    ranges: u32,
    /// Longest range; how long each is, and where, is chance.
    #[arg(long, default_value = "128KiB")]
    range_size: ByteSize,
    /// Read ranges by vector reads of a random number, up to this many, instead of one by one.
    #[arg(long)]
    vector: Option<u32>,
    /// The same seed makes the same choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write rows to this file instead of the standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A line of what is written.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Row<'a> {
    /// Arguments of the run.
    Run {
        server: SocketAddr,
        files: usize,
        file_bytes: u64,
        jobs: u16,
        visits: u32,
        #[serde(flatten)]
        shape: VisitShape,
        seed: u64,
    },
    Second {
        second: usize,
        #[serde(flatten)]
        report: &'a SecondReport,
    },
    Job {
        job: usize,
        #[serde(flatten)]
        report: &'a JobReport,
    },
    Summary(&'a StressReport),
}

/// Most ranges of one vector read, and the longest of them, that servers take.
const VECTOR_MAX: u32 = 1024;
const VECTOR_RANGE_LEN_MAX: u64 = (2 << 20) - 16;

/// Longest file that chance reaches all of.
const FILE_LEN_MAX: u64 = u32::MAX as u64;

const RANGE_LEN_MAX: u64 = 1 << 30;

/// Runs the jobs and writes their rows.
pub(crate) fn run(args: &JobsArgs) -> Result<()> {
    let cancelled = interrupt::flag()?;
    let server = resolve(&args.server)?;
    let shape = args.shape()?;
    let files: Vec<_> = args.paths.iter().map(|path| LoadFile { path: path.clone(), len: args.file_size.0 }).collect();
    let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(match &args.out {
        None => Box::new(std::io::stdout()),
        Some(out) => Box::new(File::create(out).with_context(|| format!("cannot create {}", out.display()))?),
    });
    let JobsArgs { jobs, visits, seed, .. } = *args;
    let asked = Row::Run { server, files: files.len(), file_bytes: args.file_size.0, jobs, visits, shape, seed };
    let stress = Stress::prepare(&StressOptions { server, files, jobs, visits, shape, seed })?;
    let report = stress.run(cancelled)?;
    let seconds = report.seconds.iter().enumerate().map(|(second, report)| Row::Second { second, report });
    let all_jobs = report.jobs.iter().enumerate().map(|(job, report)| Row::Job { job, report });
    let rows = std::iter::once(asked).chain(seconds).chain(all_jobs).chain([Row::Summary(&report)]);
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    out.flush().context("cannot write the rows")
}

impl JobsArgs {
    fn shape(&self) -> Result<VisitShape> {
        if let Some(vector) = self.vector {
            ensure!((1..=VECTOR_MAX).contains(&vector), "a vector has 1 to {VECTOR_MAX} ranges");
        }
        ensure!((1..=FILE_LEN_MAX).contains(&self.file_size.0), "files must have 1 byte to 4 GiB");
        let len_max = if self.vector.is_some() { VECTOR_RANGE_LEN_MAX } else { RANGE_LEN_MAX };
        ensure!((1..=len_max).contains(&self.range_size.0), "the longest range must have 1 to {len_max} bytes");
        Ok(VisitShape {
            ranges_max: self.ranges,
            range_len_max: u32::try_from(self.range_size.0)?,
            vector_max: self.vector,
        })
    }
}

/// The address of a server's name.
fn resolve(server: &str) -> Result<SocketAddr> {
    let name = server.strip_prefix("root://").unwrap_or(server).trim_end_matches('/');
    let mut found = name.to_socket_addrs().with_context(|| format!("{server} is no HOST:PORT"))?;
    found.next().with_context(|| format!("{server} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_with_and_without_a_protocol() {
        let expected = SocketAddr::from(([10, 77, 0, 2], 1094));
        assert_eq!(resolve("root://10.77.0.2:1094/").unwrap(), expected);
        assert_eq!(resolve("10.77.0.2:1094").unwrap(), expected);
        assert!(resolve("10.77.0.2").is_err());
    }
}
