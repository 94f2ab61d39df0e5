//! Compares Forebay with XCache and the plain XRootD file server, using a load generator that verifies every byte.

mod compare;
mod content;
mod costs;
mod file;
mod floor;
mod grid;
mod jobs;
mod load;
mod path;
mod place;
mod placement;
mod process;
mod relay_floor;
mod scale;
mod store;
mod stress;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use compare::CompareOptions;
use costs::CostsOptions;
use floor::FloorMode;
use forebay_bench::{interrupt, wan};
use forebay_types::ByteSize;
use jobs::JobsArgs;
use load::{Bound, Entry, Load, LoadFile, LoadOptions, Operation, Order};
use path::PathOptions;
use placement::PlacementArgs;
use scale::ScaleArgs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stress::StressArgs;

/// Load generator and side-by-side benchmark.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a file whose content follows from its name, for `load`.
    MakeFile {
        /// The file; it is replaced.
        path: PathBuf,
        /// Its length, such as 1GiB.
        size: ByteSize,
    },
    /// Fill a store with small files that are complete, for measuring what their number costs.
    MakeStore {
        /// Directory of the store.
        path: PathBuf,
        /// How many files; each has 4 KiB, and is read by its path /bench/DDDDDD/NNNNNNNNN.root.
        #[arg(long, default_value_t = 1_000_000)]
        files: u64,
    },
    /// Put one load on one server and print a report as JSON.
    Load(LoadArgs),
    /// Start XCache, the plain server and Forebay side by side, measure them in turn and print a table.
    Compare(Box<CompareOptions>),
    /// Measure each server with thousands of idle connections while other connections are busy.
    Scale(ScaleArgs),
    /// Simulate the placement of names on the members of a cluster.
    Placement(PlacementArgs),
    /// Have hundreds of jobs at a time visit random files, on each server, cold and warm.
    Stress(StressArgs),
    /// Run jobs that visit random files against one server, and print their results second by second as lines of JSON.
    Jobs(JobsArgs),
    /// Measure cold reads over long paths: two network namespaces and a relay between them. Needs root.
    Path(Box<PathOptions>),
    /// Keep a network namespace until the standard input ends.
    #[command(hide = true)]
    Keep {
        /// The namespace that is not to be cleared.
        outside: PathBuf,
    },
    /// Count what operations on a warm cache cost Forebay, in instructions and system calls, and compare with a baseline.
    Costs(CostsOptions),
    /// Answer reads of one file with the least possible work.
    #[command(hide = true)]
    Floor {
        /// Path of the file.
        file: PathBuf,
        /// How bytes get to the socket.
        mode: FloorMode,
        /// Connections to accept; the server ends when all of them are closed.
        connections: u16,
    },
    /// Pass reads of one file on to its origin, and keep what comes, with the least possible work.
    #[command(hide = true)]
    RelayFloor {
        /// Address of the origin.
        origin: SocketAddr,
        /// The file's path there.
        path: String,
        /// The file's length in bytes.
        len: u64,
        /// The file that its bytes are written to.
        store: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum OperationKind {
    Read,
    Readv,
    Pgread,
    OpenStatClose,
    OpenReadClose,
}

#[derive(Debug, Args)]
struct LoadArgs {
    /// Address of the server.
    server: SocketAddr,
    /// Absolute path of a file made by `make-file`; several for those that open.
    #[arg(required_unless_present = "store_files", requires = "file_size")]
    paths: Vec<String>,
    /// Length of the files.
    #[arg(long)]
    file_size: Option<ByteSize>,
    /// Use this many files of a store made by `make-store` instead.
    #[arg(long, conflicts_with = "paths")]
    store_files: Option<u64>,
    /// Operation to repeat on each connection.
    #[arg(long, value_enum, default_value = "read")]
    operation: OperationKind,
    /// Order of reads within the file.
    #[arg(long, value_enum, default_value = "random")]
    order: Order,
    /// Bytes per read, or per element of a readv.
    #[arg(long, default_value = "4KiB")]
    size: ByteSize,
    /// Elements of a readv.
    #[arg(long, default_value_t = 64)]
    elements: u16,
    /// Number of connections to open.
    #[arg(long, default_value_t = 1)]
    connections: u16,
    /// Requests under way on each connection.
    #[arg(long, default_value_t = 1)]
    pipeline: u16,
    /// Run for this many seconds.
    #[arg(long, default_value_t = 5.0, conflicts_with = "operations")]
    seconds: f64,
    /// Run for this many operations instead.
    #[arg(long)]
    operations: Option<u64>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::MakeFile { path, size } => file::make_file(&path, size.0),
        Command::MakeStore { path, files } => store::make_store(&path, files),
        Command::Load(args) => run_load(&args),
        Command::Compare(options) => compare::run(&options),
        Command::Scale(args) => scale::run(&args),
        Command::Placement(args) => placement::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Path(options) => path::run(&options),
        Command::Keep { outside } => wan::keep(&outside),
        Command::Costs(options) => costs::run(&options),
        Command::Floor { file, mode, connections } => floor::serve(&file, mode, connections),
        Command::RelayFloor { origin, path, len, store } => relay_floor::serve(origin, &path, len, &store),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_load(args: &LoadArgs) -> Result<()> {
    let len = u32::try_from(args.size.0).context("a read is shorter than 4 GiB")?;
    let file_len = args.file_size.map_or(0, |size| size.0);
    let files = match args.store_files {
        Some(count) => store::files_of(count),
        None => args.paths.iter().map(|path| LoadFile { path: path.clone(), len: file_len }).collect(),
    };
    let options = LoadOptions {
        server: args.server,
        files,
        operation: match args.operation {
            OperationKind::Read => Operation::Read { len },
            OperationKind::Readv => Operation::ReadVector { elements: args.elements, len },
            OperationKind::Pgread => Operation::PageRead { len },
            OperationKind::OpenStatClose => Operation::OpenStatClose,
            OperationKind::OpenReadClose => Operation::OpenReadClose,
        },
        order: args.order,
        connections: args.connections,
        pipeline: args.pipeline,
        entry: Some(Entry::default()),
    };
    let bound = match args.operations {
        Some(operations) => Bound::Operations(operations),
        None => Bound::Time(Duration::try_from_secs_f64(args.seconds).context("the duration makes no sense")?),
    };
    let report = Load::prepare(&options)?.run(bound, interrupt::flag()?)?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
