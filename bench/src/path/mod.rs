//! Cold reads over a long path: two hosts on one machine, joined by an emulated network.

mod measure;
mod row;
mod scene;
mod summary;

use crate::compare::record::{Machine, keep_texts};
use crate::place::Place;
use anyhow::{Context as _, Result, ensure};
use forebay_bench::interrupt;
use forebay_bench::wan::{PathPlan, PathShape, Plan, Tuning, line_mbit_to_data};
use forebay_types::ByteSize;
use measure::{Measure, Sample};
use row::{Task, Way};
use scene::{FAR, Files, NEAR, Scene};
use serde::Serialize;

/// The tasks, and the paths to measure them over.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct PathOptions {
    /// Round-trip times in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "10,50,150")]
    rtt: Vec<u64>,
    /// Rate of the path in each direction, in Mbit/s.
    #[arg(long, default_value_t = 1_000)]
    mbit: u64,
    /// Bytes that may wait at the narrowest point; what comes to a full queue is lost.
    #[arg(long, default_value = "4MiB", value_parser = bytes)]
    queue: u64,
    /// How TCP finds its rate.
    #[arg(long, default_value = "cubic")]
    congestion_control: String,
    /// Most bytes that TCP buffers for one connection, in each direction.
    #[arg(long, default_value = "64MiB", value_parser = bytes)]
    tcp_buffer: u64,
    /// Tasks to measure; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[serde(skip)]
    tasks: Vec<Task>,
    /// Through what: direct, forebay, xcache (with its defaults), or xcache-SIZE (that block size, prefetching 64 blocks).
    #[arg(long, value_delimiter = ',', default_value = "direct,forebay,xcache,xcache-64k,xcache-256k,xcache-1m")]
    #[serde(skip)]
    ways: Vec<Way>,
    /// Rounds; each does every task in every way.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Length of the file that is copied and read at random.
    #[arg(long, default_value = "256MiB", value_parser = bytes)]
    file_size: u64,
    /// How many files of 1 MiB are read.
    #[arg(long, default_value_t = 2_000)]
    files: u32,
    /// Reads of each row whose unit is milliseconds.
    #[arg(long, default_value_t = 100)]
    operations: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct SetUp<'a> {
    #[serde(flatten)]
    machine: Machine,
    path: &'a PathOptions,
}

/// Measures all that `options` ask for, prints the tables and keeps the run if that is wanted.
pub(crate) fn run(options: &PathOptions) -> Result<()> {
    let cancelled = interrupt::flag()?;
    ensure!(!options.ways.is_empty(), "there is no way to measure");
    let needs_forebay = options.ways.contains(&Way::Forebay);
    let programs = options.place.programs(needs_forebay)?;
    let machine = Machine::find(&programs);
    let tasks = if options.tasks.is_empty() { Task::ALL.to_vec() } else { options.tasks.clone() };
    let work_dir = options.place.work_dir()?;
    let files = Files::make(&work_dir, options.file_size, options.files, options.operations)?;
    let mut samples = Vec::new();
    let mut failures = Vec::new();
    for &rtt_ms in &options.rtt {
        let scene = Scene::set_up(&files, &programs, options.plan(rtt_ms))?;
        let measure = Measure { scene: &scene, files: &files, rtt_ms, operations: options.operations, cancelled };
        for round in 1..=options.rounds {
            for &task in &tasks {
                for &way in &options.ways {
                    let taken = measure.sample(task, way, round);
                    ensure!(!cancelled.load(std::sync::atomic::Ordering::Relaxed), "interrupted");
                    match taken {
                        Ok(sample) => {
                            tell(&sample);
                            samples.push(sample);
                        }
                        Err(error) if matches!(way, Way::Xcache(_)) => {
                            let failure = format!("{}, {}, {rtt_ms} ms: {error:#}", way.name(), task.title());
                            eprintln!("{failure}");
                            failures.push(failure);
                        }
                        Err(error) => return Err(error.context(format!("{} {}", task.name(), way.name()))),
                    }
                }
            }
        }
    }
    let tables = summary::tables(&samples, &options.ways) + &crate::compare::summary::failures(&failures);
    println!("{}\n\n{tables}", machine.summary());
    let Some(out) = &options.place.out else { return Ok(()) };
    let text = format!("# Over a long path\n\n{}\n\n{tables}", machine.summary());
    keep_texts(out, &SetUp { machine, path: options }, &summary::raw(&samples), &text)
}

impl PathOptions {
    /// A path with this round-trip time.
    #[expect(clippy::cast_precision_loss, reason = "nobody has such paths")]
    fn plan(&self, rtt_ms: u64) -> Plan {
        let shape = PathShape {
            rtt_ms: rtt_ms as f64,
            jitter_ms: 0.0,
            mbit: line_mbit_to_data(self.mbit as f64),
            loss: 0.0,
            buffer_bytes: self.queue,
        };
        let path = PathPlan { ends: [NEAR, FAR].map(str::to_owned), preset: "own".to_owned(), shape };
        let tuning = Tuning { tcp_buffer_bytes: self.tcp_buffer, congestion_control: self.congestion_control.clone() };
        Plan { paths: vec![path], tuning, seed: 1 }
    }
}

fn tell(sample: &Sample) {
    let Sample { rtt_ms, task, way, round, origin_bytes, .. } = sample;
    let (value, unit) = (sample.value(), task.unit().as_str());
    eprintln!("{rtt_ms:4} ms {round} {:9} {:28} {value:9.2} {unit:6} {origin_bytes:12}", task.name(), way.name());
}

fn bytes(text: &str) -> Result<u64> {
    Ok(text.parse::<ByteSize>().context("a size")?.0)
}
