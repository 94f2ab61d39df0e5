//! The stress test: hundreds of jobs at a time that visit random files, on each server, cold and warm.

use crate::compare::memory::Memory;
use crate::compare::record::{Machine, keep_texts};
use crate::compare::scene::{FileSizes, Scene, read_files, wait_until_stored};
use crate::compare::servers::{ServerKind, store_dir};
use crate::compare::usage::Usage;
use crate::load::{LoadFile, Stress, StressOptions, StressReport, VisitShape};
use crate::place::Place;
use crate::process::Server;
use anyhow::{Context as _, Result};
use forebay_bench::interrupt;
use forebay_bench::wan::wait_for;
use forebay_types::ByteSize;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The servers and jobs of a stress run.
#[derive(Debug, clap::Args)]
pub(crate) struct StressArgs {
    /// Servers to measure, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain,xcache,forebay")]
    servers: Vec<ServerKind>,
    /// Whether the caches hold the files; the plain server is measured once.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold,warm")]
    stores: Vec<Store>,
    /// Jobs at a time, each with a connection of its own.
    #[arg(long, default_value_t = 750)]
    jobs: u16,
    /// Files that each job visits, one after the other.
    #[arg(long, default_value_t = 2)]
    visits: u32,
    /// Files in the list that jobs choose from.
    #[arg(long, default_value_t = 128)]
    files: u32,
    /// Length of each file.
    #[arg(long, default_value = "24MiB")]
    file_size: ByteSize,
    /// The same seed makes the same choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    place: Place,
}

/// Content of a cache at the start.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Store {
    /// A store without files.
    Cold,
    /// A store that holds all files.
    Warm,
}

/// The result of one server.
struct Line {
    server: ServerKind,
    store: Option<Store>,
    /// The measurement, or why there is none.
    outcome: Result<Measured, String>,
}

struct Measured {
    report: StressReport,
    cpu: Duration,
    /// The most memory that was resident, in bytes.
    peak: u64,
    origin_bytes: u64,
}

/// How long the end of a process may come after the end of its connections.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Measures the servers in turn, prints the table and keeps the run.
pub(crate) fn run(args: &StressArgs) -> Result<()> {
    let cancelled = interrupt::flag()?;
    let needs_forebay = args.servers.iter().any(|server| server.is_forebay());
    let programs = args.place.programs(needs_forebay)?;
    let machine = Machine::find(&programs);
    let work_dir = args.place.work_dir()?;
    let scene = Scene::set_up(&work_dir, programs, FileSizes::default())?;
    let files = scene.make_files("stress", args.files, args.file_size.0)?;
    rustix::fs::sync();
    let stress = StressTest { args, scene: &scene, files: &files, cancelled };
    let mut lines = Vec::new();
    for &server in &args.servers {
        let stores = if server.is_cache() { args.stores.iter().copied().map(Some).collect() } else { vec![None] };
        for store in stores {
            let outcome = stress.measure(server, store)?;
            lines.push(Line { server, store, outcome });
            eprintln!("{}", lines.last().map(Line::row).unwrap_or_default().trim_end());
        }
    }
    let summary = format!("# Stress\n\n{}\n\n{}\n{}", machine.summary(), stress.title(), table(&lines));
    println!("{summary}");
    match &args.place.out {
        None => Ok(()),
        Some(out) => keep_texts(out, &machine, &raw(&lines), &summary),
    }
}

struct StressTest<'a> {
    args: &'a StressArgs,
    scene: &'a Scene,
    files: &'a [LoadFile],
    cancelled: &'a AtomicBool,
}

impl StressTest<'_> {
    fn title(&self) -> String {
        let StressArgs { jobs, visits, files, file_size, seed, .. } = self.args;
        format!(
            "{jobs} jobs at a time, each {visits} times: one of {files} files of {file_size} by chance, 0 to 1024 reads of 0 to \
             128 KiB at any offset, close. Seed {seed}. Every byte is compared.\n"
        )
    }

    /// Measures one server that is started for it. The inner error describes what it did instead of answering.
    fn measure(&self, kind: ServerKind, store: Option<Store>) -> Result<Result<Measured, String>> {
        let dir = tempfile::Builder::new().prefix("stress-").tempdir_in(self.scene.dir())?;
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let run_dir = dir.path().join("server");
        let mut server = self.scene.start(kind, &run_dir)?;
        if store == Some(Store::Warm) {
            eprintln!("warming {}", kind.as_str());
            read_files(server.address(), self.files, self.cancelled)?;
            wait_until_stored(&store_dir(&run_dir), self.files.iter().map(|file| file.len).sum())?;
            rustix::fs::sync();
        }
        let measured = self.run(&server);
        let has_ended = |server: &mut Server| Ok(server.check_alive().err());
        let is_complete = matches!(&measured, Ok(measured) if measured.report.errors == 0);
        if !is_complete && let Ok(end) = wait_for(END_TIMEOUT, || has_ended(&mut server)) {
            return Ok(Err(format!("{end:#}")));
        }
        measured.map(Ok).with_context(|| format!("stress on {}", kind.as_str()))
    }

    fn run(&self, server: &Server) -> Result<Measured> {
        let stress = Stress::prepare(&StressOptions {
            server: server.address(),
            files: self.files.to_vec(),
            jobs: self.args.jobs,
            visits: self.args.visits,
            shape: VisitShape::default(),
            seed: self.args.seed,
        })?;
        Memory::reset_peak(server.pid())?;
        let (before, origin_before) = (Usage::of(server.pid())?, self.scene.origin_usage()?);
        let report = stress.run(self.cancelled)?;
        let cpu = Usage::of(server.pid())?.cpu_since(&before);
        let origin_bytes = self.scene.origin_usage()?.read_bytes_since(&origin_before);
        Ok(Measured { report, cpu, peak: Memory::of(server.pid())?.peak, origin_bytes })
    }
}

impl Line {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn row(&self) -> String {
        const MIB: f64 = (1_u64 << 20) as f64;
        let name = match self.store {
            None => format!("{}, direct", self.server.as_str()),
            Some(Store::Cold) => format!("{}, cold", self.server.as_str()),
            Some(Store::Warm) => format!("{}, warm", self.server.as_str()),
        };
        match &self.outcome {
            Err(why) => {
                let why = why.lines().next().unwrap_or_default();
                format!("| {name} | – | – | – | – | – | – | – | – | {why} |\n")
            }
            Ok(Measured { report, cpu, peak, origin_bytes }) => format!(
                "| {name} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.2} | {:.0} | {:.0} | {}{} |\n",
                report.visits as f64 * 3600.0 / report.wall_s,
                report.bytes as f64 / MIB / report.wall_s,
                report.read_p50_us / 1e3,
                report.read_p99_us / 1e3,
                report.read_max_us / 1e3,
                cpu.as_secs_f64() * 1024.0 * MIB / report.bytes as f64,
                *peak as f64 / MIB,
                if self.store.is_some() { *origin_bytes as f64 / MIB } else { 0.0 },
                report.errors,
                report.first_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default(),
            ),
        }
    }
}

fn table(lines: &[Line]) -> String {
    let mut text = "| server | files/h | MiB/s | read p50, ms | read p99, ms | read max, ms | CPU, s/GiB | peak memory, MiB | \
                    from the origin, MiB | jobs failed |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    lines.iter().for_each(|line| text.push_str(&line.row()));
    text
}

fn raw(lines: &[Line]) -> String {
    let mut text =
        "server,store,visits,reads,bytes,wall_s,first_done_s,cpu_s,read_p50_us,read_p99_us,read_max_us,open_p99_us,\
                    peak_bytes,origin_bytes,errors\n"
            .to_owned();
    for line in lines {
        let store = line.store.map_or_else(|| "direct".to_owned(), |store| format!("{store:?}").to_lowercase());
        let Ok(Measured { report: r, cpu, peak, origin_bytes }) = &line.outcome else { continue };
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{},{store},{},{},{},{:.3},{:.3},{:.3},{:.1},{:.1},{:.1},{:.1},{peak},{origin_bytes},{}",
            line.server.as_str(),
            r.visits,
            r.reads,
            r.bytes,
            r.wall_s,
            r.first_done_s,
            cpu.as_secs_f64(),
            r.read_p50_us,
            r.read_p99_us,
            r.read_max_us,
            r.open_p99_us,
            r.errors,
        )
        .ok();
    }
    text
}
