//! Keeps a run: raw rows, summary, and the set-up that it was made on.

use super::measure::Sample;
use super::servers::Programs;
use crate::process::Program;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The machine, the programs and the arguments of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SetUp {
    #[serde(flatten)]
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    pub(crate) seconds_per_run: f64,
    pub(crate) large_file_bytes: u64,
    pub(crate) cold_file_bytes: u64,
    pub(crate) cold_small_files: u32,
}

/// The machine, the programs and the command of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    date: String,
    host: String,
    processor: String,
    processors: usize,
    memory: String,
    kernel: String,
    commit: String,
    xrootd: String,
    forebay: String,
    command: Vec<String>,
}

/// An argument as it is recorded: without the directories of this machine, which are private.
fn without_directories(argument: String) -> String {
    let path = Path::new(&argument);
    let name = path.file_name().filter(|_| path.is_absolute()).and_then(|name| name.to_str());
    name.map_or_else(|| argument.clone(), str::to_owned)
}

impl Machine {
    /// Looks at the machine and the programs. A property that cannot be determined is `unknown`: it does not stop a
    /// run.
    pub(crate) fn find(programs: &Programs) -> Self {
        let forebay = Program {
            path: programs.forebay.clone(),
            args: vec!["--version".into()],
            env: Vec::new(),
            refuses_root: false,
        };
        Self {
            date: said(&bare("date", &["-u", "+%Y-%m-%d"])),
            host: line_of("/proc/sys/kernel/hostname", ""),
            processor: line_of("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory: line_of("/proc/meminfo", "MemTotal"),
            kernel: line_of("/proc/sys/kernel/osrelease", ""),
            commit: said(&bare(
                "git",
                &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12"],
            )),
            xrootd: said(&programs.xrootd("xrootd", &[Path::new("-v")])),
            forebay: said(&forebay),
            command: std::env::args().map(without_directories).collect(),
        }
    }

    /// The directory of the records of a run of today on this machine: a new one below `runs`.
    pub(crate) fn run_dir(&self, runs: &Path) -> PathBuf {
        let name = format!("{}-{}", self.date, self.host);
        let again = (2..).map(|count| format!("{name}-{count}"));
        let mut names = std::iter::once(name.clone()).chain(again).map(|name| runs.join(name));
        names.find(|path| !path.exists()).unwrap_or_else(|| runs.join(name))
    }

    /// The machine in a line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} {}: {} × {}, {}, Linux {}; xrootd {}, {}, commit {}.",
            self.date,
            self.host,
            self.processors,
            self.processor,
            self.memory,
            self.kernel,
            self.xrootd,
            self.forebay,
            self.commit,
        )
    }
}

impl SetUp {
    /// The set-up in Markdown.
    pub(crate) fn summary(&self) -> String {
        format!("{} Median of {} rounds of {} s.\n", self.machine.summary(), self.rounds, self.seconds_per_run)
    }
}

/// Writes `raw.csv`, `summary.md` and `setup.json` into `dir`.
pub(crate) fn keep(dir: &Path, set_up: &SetUp, samples: &[Sample], tables: &str) -> Result<()> {
    let summary = format!("# Side by side\n\n{}\n{tables}", set_up.summary());
    keep_texts(dir, set_up, &raw(samples), &summary)
}

/// Writes the raw rows and the summary of a run into `dir`, and what it was made on.
pub(crate) fn keep_texts(dir: &Path, set_up: &impl Serialize, raw: &str, summary: &str) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("raw.csv", raw)?;
    write("setup.json", &(serde_json::to_string_pretty(set_up)? + "\n"))?;
    write("summary.md", summary)
}

fn raw(samples: &[Sample]) -> String {
    let mut text = String::from(
        "row,server,round,operations,bytes,wall_s,cpu_s,p50_us,p99_us,max_us,origin_bytes,disk_bytes,refaults\n",
    );
    for Sample { row, server, round, report, cpu, origin_bytes, page_cache } in samples {
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{row},{},{round},{},{},{:.6},{:.6},{:.1},{:.1},{:.1},{origin_bytes},{},{}",
            server.as_str(),
            report.operations,
            report.bytes,
            report.wall_s,
            cpu.as_secs_f64(),
            report.p50_us,
            report.p99_us,
            report.max_us,
            page_cache.disk_bytes,
            page_cache.refaults,
        )
        .ok();
    }
    text
}

const UNKNOWN: &str = "unknown";

/// The first line of a file that begins with `key`, after the colon that follows it.
fn line_of(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.map_or(UNKNOWN, |line| line.trim_start_matches([' ', '\t', ':']).trim()).to_owned()
}

fn bare(path: &str, args: &[&str]) -> Program {
    Program { path: path.into(), args: args.iter().map(Into::into).collect(), env: Vec::new(), refuses_root: false }
}

/// The output of a program, on either of its streams; `unknown` when it fails.
fn said(program: &Program) -> String {
    let mut command = Command::new(&program.path);
    let output = command.args(&program.args).envs(program.env.clone()).stdin(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}
