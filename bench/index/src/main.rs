//! Compares embedded stores for the cache's index: the same entries, the same operations, each phase in a process of its own.
//!
//! An index has two tables: `entries` (name of the file → record) and `ids` (number → name). What is measured is what the cache
//! does with it: load it at once, look records up through a number, commit 1000 changed records durably, walk all in
//! order, open it after a clean end and after `kill -9`.

mod process;
mod shape;
mod stores;

use anyhow::{Context as _, Result, bail};
use process::{Usage, bytes_below};
use shape::{Names, Record};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use stores::{Fjall, Heed, Index, Redb};

/// Entries per commit of the bulk load.
const LOAD_BATCH: u64 = 10_000;
/// Changed records of one commit, as many as a busy cache changes in half a second.
const UPDATE_BATCH: u64 = 1000;
const UPDATES: u64 = 120;
const GETS: u64 = 200_000;
/// How long the process that is killed has been committing.
const KILLED_AFTER: Duration = Duration::from_secs(3);
const ENGINES: [&str; 4] = ["redb", "redb-quick", "fjall", "heed"];
const PHASES: [&str; 4] = ["load", "get", "update", "scan"];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["all", directory, entries] => all(Path::new(directory), entries.parse()?),
        ["phase", engine, phase, path, entries] => one(engine, phase, Path::new(path), entries.parse()?),
        _ => bail!("usage: forebay-bench-index all DIRECTORY ENTRIES"),
    }
}

/// Every phase of every store; rows of CSV on the standard output.
fn all(directory: &Path, entries: u64) -> Result<()> {
    println!("store,phase,measure,value,unit");
    for engine in ENGINES {
        let path = directory.join(engine);
        std::fs::create_dir_all(&path)?;
        for phase in PHASES {
            run(engine, phase, &path, entries)?;
        }
        println!("{engine},size,file,{},bytes", bytes_below(&path)?);
        kill_while_updating(engine, &path, entries)?;
        println!("{engine},size,file after updates,{},bytes", bytes_below(&path)?);
        run(engine, "open", &path, entries)?;
        run(engine, "open", &path, entries)?;
        std::fs::remove_dir_all(&path)?;
    }
    Ok(())
}

fn phase_command(engine: &str, phase: &str, path: &Path, entries: u64) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["phase", engine, phase]).arg(path).arg(entries.to_string());
    Ok(command)
}

fn run(engine: &str, phase: &str, path: &Path, entries: u64) -> Result<()> {
    let status = phase_command(engine, phase, path, entries)?.status()?;
    status.success().then_some(()).with_context(|| format!("{engine} {phase} failed"))
}

fn kill_while_updating(engine: &str, path: &Path, entries: u64) -> Result<()> {
    let mut child = phase_command(engine, "update-for-ever", path, entries)?.stdout(Stdio::null()).spawn()?;
    std::thread::sleep(KILLED_AFTER);
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn one(engine: &str, phase: &str, path: &Path, entries: u64) -> Result<()> {
    match engine {
        "redb" => measure(|| Redb::open(path, false), engine, phase, entries),
        "redb-quick" => measure(|| Redb::open(path, true), engine, phase, entries),
        "fjall" => measure(|| Fjall::open(path), engine, phase, entries),
        "heed" => measure(|| Heed::open(path), engine, phase, entries),
        other => bail!("no store {other}"),
    }
}

fn measure<I: Index>(open: impl Fn() -> Result<I>, engine: &str, phase: &str, entries: u64) -> Result<()> {
    let row = |measure: &str, value: f64, unit: &str| println!("{engine},{phase},{measure},{value:.2},{unit}");
    let (before, begun) = (Usage::now()?, Instant::now());
    let index = open()?;
    row("open", begun.elapsed().as_secs_f64() * 1e3, "ms");
    let begun = Instant::now();
    match phase {
        "load" => {
            for first in (0..entries).step_by(LOAD_BATCH as usize) {
                index.load(&records(first..(first + LOAD_BATCH).min(entries)))?;
            }
            let written = Usage::now()?.written_bytes - before.written_bytes;
            row("entries", entries as f64 / begun.elapsed().as_secs_f64(), "per s");
            row("written", written as f64 / entries as f64, "bytes per entry");
        }
        "get" => {
            let mut random = shape::Random(1);
            for _ in 0..GETS {
                let id = random.below(entries);
                let record = index.get(id)?.with_context(|| format!("entry {id} is gone"))?;
                anyhow::ensure!(Record::id_of(&record) == id, "a wrong record");
            }
            row("get", begun.elapsed().as_secs_f64() * 1e6 / GETS as f64, "us");
        }
        "update" | "update-for-ever" => {
            let mut times: Vec<f64> = Vec::new();
            let mut random = shape::Random(2);
            while phase == "update-for-ever" || times.len() < UPDATES as usize {
                let changed: Vec<_> = (0..UPDATE_BATCH).map(|_| shape::entry(random.below(entries), 1)).collect();
                let begun = Instant::now();
                index.update(&changed)?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let written = Usage::now()?.written_bytes - before.written_bytes;
            times.sort_by(f64::total_cmp);
            row("commit p50", times[times.len() / 2], "ms");
            row("commit p99", times[times.len() * 99 / 100], "ms");
            row("commit max", times[times.len() - 1], "ms");
            row("written", written as f64 / (UPDATES * UPDATE_BATCH) as f64, "bytes per record");
        }
        "scan" => {
            let seen = index.scan()?;
            anyhow::ensure!(seen == entries, "{seen} of {entries} entries");
            row("scan", begun.elapsed().as_secs_f64() * 1e3, "ms");
        }
        "open" => {}
        other => bail!("no phase {other}"),
    }
    let used = Usage::now()?;
    row("processor", used.processor_seconds - before.processor_seconds, "s");
    row("resident", used.resident_bytes as f64 / 1e6, "MB");
    row("anonymous", used.anonymous_bytes as f64 / 1e6, "MB");
    let begun = Instant::now();
    drop(index);
    row("close", begun.elapsed().as_secs_f64() * 1e3, "ms");
    Ok(())
}

/// Entries with their numbers.
fn records(ids: std::ops::Range<u64>) -> Vec<(u64, Names, Record)> {
    ids.map(|id| shape::entry(id, 0)).collect()
}

/// The file or directory of a store.
fn below(path: &Path, name: &str) -> PathBuf {
    path.join(name)
}
