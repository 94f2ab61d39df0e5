//! The cost of one operation on a warm cache, in the server's instructions and system calls, compared with a baseline.
//!
//! Nothing is timed, so the figures are the same on a busy machine. The program measured is the one that users run: it runs
//! within callgrind, then within strace, and a client outside of them sends requests one by one.

mod baseline;
mod instrument;
mod profile;
mod row;
mod scene;

use anyhow::{Context as _, Result, bail};
use baseline::{Baseline, Cost, Tools, change};
use forebay_bench::interrupt;
use instrument::{Callgrind, Count as _, Instructions, Strace, SystemCalls, version};
use row::Row;
use scene::Scene;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The operations to count, and the baseline to compare with.
#[derive(Debug, clap::Args)]
pub(crate) struct CostsOptions {
    /// Rows; all of them by default.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Keep the figures as the new baseline instead of comparing them.
    #[arg(long)]
    accept: bool,
    /// Print this many functions of each row, the most expensive ones, and each system call.
    #[arg(long, default_value_t = 0)]
    functions: usize,
    /// File with the baseline. [default: bench/costs.toml]
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// The program `forebay`. [default: in the directory of this program]
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// Where to put files and the cache: on a file system of a disk, as caches are.
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

/// The counts of one row.
#[derive(Debug)]
struct Counted {
    row: Row,
    instructions: Instructions,
    calls: SystemCalls,
}

/// Counts, prints a table, and fails when a figure is too far above the baseline.
pub(crate) fn run(options: &CostsOptions) -> Result<()> {
    let rows = row::select(&options.rows)?;
    let path = match &options.baseline {
        Some(path) => path.clone(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("costs.toml"),
    };
    let mut baseline = Baseline::read(&path)?;
    let tools = find_tools()?;
    let cancelled = interrupt::flag()?;
    let scene = Scene::set_up(&options.work_dir.clone().unwrap_or_else(std::env::temp_dir), &forebay(options)?)?;
    let count = |rows: &[Row]| count(&scene, rows, cancelled);
    let counted = if options.accept { usual(&rows, count)? } else { doubted(&rows, &baseline, count)? };
    let costs: Vec<_> = counted.iter().map(|counted| (counted.row.name, counted.cost())).collect();
    print!("{}", table(&baseline, &costs));
    for counted in &counted {
        print!("{}", counted.details(options.functions));
    }
    if options.accept {
        baseline.tools = tools;
        baseline.rows.extend(costs.iter().map(|(row, cost)| ((*row).to_owned(), *cost)));
        return baseline.write(&path);
    }
    for row in baseline.outdated(&costs) {
        println!("{row} has become more than 10 % cheaper: keep that with `make costs ACCEPT=1`");
    }
    let complaints = baseline.complaints(&costs);
    if complaints.is_empty() {
        return Ok(());
    }
    let hints = baseline.tools.differences(&tools);
    bail!(
        "{}\n`make costs FUNCTIONS=20` tells where; `make costs ACCEPT=1` accepts it for good reason, told in the commit",
        [complaints, hints].concat().join("\n")
    )
}

fn find_tools() -> Result<Tools> {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = processors.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = names.map(|(_, name)| name.to_owned()).next().unwrap_or_default();
    Ok(Tools { rustc: version("rustc")?, valgrind: version("valgrind")?, processor })
}

fn forebay(options: &CostsOptions) -> Result<PathBuf> {
    let forebay = match &options.forebay {
        Some(forebay) => forebay.clone(),
        None => std::env::current_exe()?.with_file_name("forebay"),
    };
    forebay.canonicalize().context("build it with `cargo build --release -p forebay`")
}

/// Counts `rows` on three servers and takes the median of each row: the cost of memory also depends on
/// how the allocator happens to have divided it.
fn usual(rows: &[Row], count: impl Fn(&[Row]) -> Result<Vec<Counted>>) -> Result<Vec<Counted>> {
    let mut servers = [count(rows)?.into_iter(), count(rows)?.into_iter(), count(rows)?.into_iter()];
    let middle = |_: &Row| {
        let mut counted: Vec<Counted> = servers.iter_mut().filter_map(Iterator::next).collect();
        counted.sort_by_key(|counted| counted.instructions.served());
        counted.into_iter().nth(1).context("each server counts each row")
    };
    rows.iter().map(middle).collect()
}

/// Counts `rows`, and those that `baseline` complains of on up to two more servers: a change costs more on each of them.
fn doubted(rows: &[Row], baseline: &Baseline, count: impl Fn(&[Row]) -> Result<Vec<Counted>>) -> Result<Vec<Counted>> {
    let mut counted = count(rows)?;
    for _ in 0..2 {
        let is_dear = |counted: &&mut Counted| !baseline.complaints(&[(counted.row.name, counted.cost())]).is_empty();
        let mut dear: Vec<&mut Counted> = counted.iter_mut().filter(is_dear).collect();
        let rows: Vec<Row> = dear.iter().map(|counted| counted.row).collect();
        if rows.is_empty() {
            break;
        }
        for (counted, again) in dear.iter_mut().zip(count(&rows)?) {
            if again.instructions.served() < counted.instructions.served() {
                **counted = again;
            }
        }
    }
    Ok(counted)
}

/// Counts `rows` on a server of their own.
fn count(scene: &Scene, rows: &[Row], cancelled: &AtomicBool) -> Result<Vec<Counted>> {
    let mut in_callgrind = scene.start_warm("callgrind", Callgrind::wrap, cancelled)?;
    let instructions = rows
        .iter()
        .map(|row| in_callgrind.cheapest_slice(row, cancelled).context(row.name))
        .collect::<Result<Vec<_>>>()?;
    drop(in_callgrind);
    let mut in_strace = scene.start_warm("strace", Strace::wrap, cancelled)?;
    let counted = rows.iter().zip(instructions).map(|(row, instructions)| {
        let calls = in_strace.cheapest_slice(row, cancelled).context(row.name)?;
        Ok(Counted { row: *row, instructions, calls })
    });
    counted.collect()
}

impl Counted {
    fn cost(&self) -> Cost {
        Cost {
            instructions: self.instructions.served().div_ceil(self.row.operations()),
            system_calls: self.per_operation(self.calls.served()),
        }
    }

    /// `count` in a slice as a figure per operation, to a hundredth.
    #[expect(clippy::cast_precision_loss, reason = "counts of a slice are small")]
    fn per_operation(&self, count: u64) -> f64 {
        (count as f64 * 100.0 / self.row.operations() as f64).round() / 100.0
    }

    /// The most expensive functions, at most `functions_max`, and each system call.
    fn details(&self, functions_max: usize) -> String {
        let mut text = String::new();
        if functions_max == 0 {
            return text;
        }
        let _ = writeln!(text, "\n{}", self.row.name);
        for (name, spent) in self.instructions.serving.by_cost().into_iter().take(functions_max) {
            let _ = writeln!(text, "{:10.1}  {name}", self.per_operation(spent));
        }
        for (name, count) in &self.calls.serving {
            let _ = writeln!(text, "{:10.2}  {name}()", self.per_operation(*count));
        }
        text
    }
}

fn table(baseline: &Baseline, costs: &[(&str, Cost)]) -> String {
    let mut text = format!(
        "{:16} {:>13} {:>13} {:>8} {:>13} {:>13}\n",
        "", "instructions", "baseline", "", "system calls", "baseline"
    );
    for (row, cost) in costs {
        let _ = write!(text, "{row:16} {:13}", cost.instructions);
        let _ = match baseline.rows.get(*row) {
            Some(kept) => {
                let percent = change(kept.instructions, cost.instructions) * 100.0;
                writeln!(
                    text,
                    " {:13} {percent:+7.1}% {:13} {:13}",
                    kept.instructions, cost.system_calls, kept.system_calls
                )
            }
            None => writeln!(text, " {:>13} {:>8} {:13} {:>13}", "-", "", cost.system_calls, "-"),
        };
    }
    text
}
