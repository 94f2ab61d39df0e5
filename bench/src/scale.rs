//! Thousands of idle connections and a thousand busy ones: the memory they cost, and the effect on the busy ones.

use crate::compare::memory::Memory;
use crate::compare::record::{Machine, keep_texts};
use crate::compare::scene::{FileSizes, Scene, read_files, wait_until_stored};
use crate::compare::servers::{ServerKind, store_dir};
use crate::compare::usage::Usage;
use crate::load::{Bound, Crowd, Entry, Load, LoadOptions, LoadReport, Operation, Order};
use crate::place::Place;
use crate::process::Server;
use anyhow::{Context as _, Result, ensure};
use forebay_bench::interrupt;
use forebay_types::ByteSize;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How many connections, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    /// Servers to measure, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain,xcache,forebay")]
    servers: Vec<ServerKind>,
    /// Connections that are idle.
    #[arg(long, default_value_t = 10_000)]
    idle: u16,
    /// Number of connections that read.
    #[arg(long, default_value_t = 1_000)]
    active: u16,
    /// Bytes that each of them reads at a time.
    #[arg(long, default_value = "4KiB")]
    size: ByteSize,
    /// Seconds of each run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds that the idle connections rest before they are looked at a last time.
    #[arg(long, default_value_t = 30.0)]
    rest: f64,
    /// Length of the file that is read.
    #[arg(long, default_value = "256MiB")]
    file_size: ByteSize,
    #[command(flatten)]
    place: Place,
}

/// The results of one server.
struct Found {
    server: ServerKind,
    /// Resident bytes with no idle connection, then with all of them: logged in, with the file open, having read, rested,
    /// together with the active ones at the most, and after all have gone.
    resident: [u64; STAGES.len()],
    alone: Active,
    beside: Active,
}

/// The active connections' part.
struct Active {
    report: LoadReport,
    cpu: Duration,
}

/// Descriptors that this process needs for other things than connections.
const DESCRIPTORS_SPARE: u64 = 64;

const STAGES: [&str; 7] = ["without", "logged-in", "open", "read", "rested", "peak", "closed"];

/// Measures the servers in turn, prints the tables and keeps the run.
pub(crate) fn run(args: &ScaleArgs) -> Result<()> {
    allow_descriptors(u64::from(args.idle) + u64::from(args.active) + DESCRIPTORS_SPARE)?;
    let cancelled = interrupt::flag()?;
    let needs_forebay = args.servers.iter().any(|server| server.is_forebay());
    let programs = args.place.programs(needs_forebay)?;
    let machine = Machine::find(&programs);
    let work_dir = args.place.work_dir()?;
    let sizes = FileSizes { large_len: args.file_size.0, ..FileSizes::default() };
    let test = ScaleTest { args, scene: &Scene::set_up(&work_dir, programs, sizes)?, cancelled };
    let mut found = Vec::new();
    for &server in &args.servers {
        found.push(test.measure(server).with_context(|| format!("scale on {}", server.as_str()))?);
    }
    let title = format!(
        "{} idle connections, {} that read {} at random offsets of a warm file, one request under way on each.",
        args.idle, args.active, args.size
    );
    let summary = format!("# Scale\n\n{}\n\n{title}\n\n{}", machine.summary(), tables(args, &found));
    println!("{summary}");
    match &args.place.out {
        None => Ok(()),
        Some(out) => keep_texts(out, &machine, &raw(&found), &summary),
    }
}

/// Allows this process, and the servers that it starts, `needed` descriptors.
fn allow_descriptors(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let allowed = limit.maximum.is_none_or(|maximum| maximum >= needed);
        ensure!(allowed, "{needed} open files are needed, but `ulimit -Hn` allows {:?}", limit.maximum);
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })?;
    }
    Ok(())
}

struct ScaleTest<'a> {
    args: &'a ScaleArgs,
    scene: &'a Scene,
    cancelled: &'a AtomicBool,
}

impl ScaleTest<'_> {
    fn measure(&self, kind: ServerKind) -> Result<Found> {
        let run_dir = self.scene.dir().join(format!("scale-{kind:?}").to_lowercase());
        let server = self.scene.start(kind, &run_dir)?;
        let file = &self.scene.files.large;
        if kind.is_cache() {
            read_files(server.address(), [file], self.cancelled)?;
            wait_until_stored(&store_dir(&run_dir), file.len)?;
        }
        let alone = self.run_active(&server)?;
        let resident = || Memory::of(server.pid()).map(|memory| memory.resident);
        let without = resident()?;
        let mut crowd = Crowd::log_in(server.address(), self.args.idle, file)?;
        let logged_in = resident()?;
        crowd.open()?;
        let open = resident()?;
        crowd.read()?;
        let read = resident()?;
        std::thread::sleep(seconds(self.args.rest)?);
        let rested = resident()?;
        Memory::reset_peak(server.pid())?;
        let beside = self.run_active(&server)?;
        let peak = Memory::of(server.pid())?.peak;
        crowd.read().context("after the rest")?;
        drop(crowd);
        std::thread::sleep(Duration::from_secs(1));
        let resident = [without, logged_in, open, read, rested, peak, resident()?];
        let found = Found { server: kind, resident, alone, beside };
        eprintln!("{}: {:?}", kind.as_str(), found.resident);
        Ok(found)
    }

    fn run_active(&self, server: &Server) -> Result<Active> {
        let options = LoadOptions {
            server: server.address(),
            files: vec![self.scene.files.large.clone()],
            operation: Operation::Read { len: u32::try_from(self.args.size.0)? },
            order: Order::Random,
            connections: self.args.active,
            pipeline: 1,
            entry: Some(Entry::default()),
        };
        let mut load = Load::prepare(&options)?;
        let before = Usage::of(server.pid())?;
        let report = load.run(Bound::Time(seconds(self.args.seconds)?), self.cancelled)?;
        Ok(Active { report, cpu: Usage::of(server.pid())?.cpu_since(&before) })
    }
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).context("the duration makes no sense")
}

#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
fn tables(args: &ScaleArgs, found: &[Found]) -> String {
    let mut text =
        "| server | without, MiB | logged in | file open | has read | rested | most beside the active, MiB | all \
                    closed, MiB |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for Found { server, resident, .. } in found {
        let [without, logged_in, open, read, rested, peak, closed] = resident.map(|bytes| bytes as f64);
        let each = |bytes: f64| (bytes - without) / 1024.0 / f64::from(args.idle);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        // Writing to a string cannot fail.
        writeln!(
            text,
            "| {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
            server.as_str(),
            mib(without),
            each(logged_in),
            each(open),
            each(read),
            each(rested),
            mib(peak),
            mib(closed)
        )
        .ok();
    }
    text.push_str("\nKiB of resident memory per idle connection where not told otherwise.\n\n");
    text.push_str("| server | idle beside | op/s | p50, ms | p99, ms | max, ms | CPU, µs/op |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for Found { server, alone, beside, .. } in found {
        for (idle, Active { report, cpu }) in [(0, alone), (args.idle, beside)] {
            let operations = report.operations as f64;
            writeln!(
                text,
                "| {} | {idle} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} |",
                server.as_str(),
                operations / report.wall_s,
                report.p50_us / 1e3,
                report.p99_us / 1e3,
                report.max_us / 1e3,
                cpu.as_secs_f64() * 1e6 / operations
            )
            .ok();
        }
    }
    text
}

fn raw(found: &[Found]) -> String {
    let mut text = "server,what,resident_bytes,operations,wall_s,cpu_s,p50_us,p99_us,max_us\n".to_owned();
    for Found { server, resident, alone, beside } in found {
        let server = server.as_str();
        for (stage, bytes) in STAGES.iter().zip(resident) {
            // Writing to a string cannot fail.
            writeln!(text, "{server},{stage},{bytes},,,,,,").ok();
        }
        for (name, Active { report: r, cpu }) in [("active-alone", alone), ("active-beside", beside)] {
            let cpu = cpu.as_secs_f64();
            let (operations, wall) = (r.operations, r.wall_s);
            writeln!(
                text,
                "{server},{name},,{operations},{wall:.4},{cpu:.4},{:.1},{:.1},{:.1}",
                r.p50_us, r.p99_us, r.max_us
            )
            .ok();
        }
    }
    text
}
