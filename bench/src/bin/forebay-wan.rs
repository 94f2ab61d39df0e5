//! Wide area networks on one machine, for programs to run in.

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use forebay_bench::interrupt;
use forebay_bench::wan::{
    Accuracy, AccuracyOptions, Description, Lab, PRESETS, PathPlan, Plan, TABLE_HEAD, Traffic, enter_namespace, keep,
    measure, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Joins hosts on this machine by paths with delay, jitter, rate, loss and buffer. TCP is the system's own.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// List the paths that have names.
    Presets {
        /// Print the presets as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Set up hosts and paths, run a command on a host, and take everything away when it ends. Needs root.
    Up(UpArgs),
    /// Run a command on a host of a lab that is up.
    In {
        /// Name of the host.
        host: String,
        /// The file that `up --json` wrote. Set in the environment of commands that `up` runs.
        #[arg(long, env = LAB_VARIABLE)]
        lab: PathBuf,
        /// The command, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Measure how exactly paths are what they are meant to be. Needs root.
    Accuracy {
        /// Paths as `up` takes them, such as `near:far=KIT`; all presets, and two paths with losses, when there is none.
        #[arg(long = "path")]
        paths: Vec<PathPlan>,
        /// How long each stream runs at least.
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// Write what was measured to this file.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Keep a network namespace until the standard input ends.
    #[command(hide = true)]
    Keep {
        /// The namespace that is not to be cleared.
        outside: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// A file in TOML that describes the lab.
    #[arg(long, required_unless_present = "paths", conflicts_with = "paths")]
    file: Option<PathBuf>,
    /// A path `HOST[:HOST]=PRESET[,NAME=VALUE...]`; NAME is one of `rtt_ms`, `jitter_ms`, `mbit`, `loss`, `buffer`. The second host is
    /// called as the preset, in small letters, unless it is named. Several make a lab of several paths.
    #[arg(long = "path")]
    paths: Vec<PathPlan>,
    /// Write names, addresses and namespaces to this file when the lab is up. It is removed in the end.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the command runs; on the first host by default.
    #[arg(long = "in")]
    host: Option<String>,
    /// Without a command: end when the standard input ends. Otherwise only a signal ends the lab.
    #[arg(long, conflicts_with = "command")]
    until_eof: bool,
    /// The command, after `--`.
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Where commands find the description of the lab that they run in.
const LAB_VARIABLE: &str = "FOREBAY_WAN";

/// How long a command may take to end after a request to stop.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two looks at the command, and at whether to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Subject::Presets { json } => presets(json),
        Subject::Up(args) => up(args),
        Subject::In { host, lab, command } => run_in(&host, &lab, &command),
        Subject::Accuracy { paths, seconds, json } => accuracy(paths, seconds, json.as_deref()),
        Subject::Keep { outside } => keep(&outside).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("forebay-wan: {error:#}");
        ExitCode::FAILURE
    })
}

fn presets(json: bool) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&PRESETS)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{:12} {:>14} {:>8} {:>12}", "name", "round trip, ms", "Mbit/s", "buffer, KiB")?;
    for preset in &PRESETS {
        let buffer_kib = preset.shape().buffer_bytes >> 10;
        let (name, rtt_ms, mbit, about) = (preset.name, preset.rtt_ms, preset.mbit, preset.about);
        writeln!(out, "{name:12} {rtt_ms:>14} {mbit:>8} {buffer_kib:>12}  {about}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn up(args: UpArgs) -> Result<ExitCode> {
    let plan = match &args.file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Plan::from_toml(&text).with_context(|| file.display().to_string())?
        }
        None => Plan::of_paths(args.paths)?,
    };
    let hosts = plan.hosts();
    let host = args.host.as_deref().or_else(|| hosts.first().copied()).context("a lab has hosts")?.to_owned();
    ensure!(hosts.contains(&host.as_str()), "there is no host {host}, but {}", hosts.join(", "));
    let cancelled = interrupt::flag()?;
    let lab = Lab::set_up(plan)?;
    let kept = Kept::write(args.json, &lab.description())?;
    eprintln!("forebay-wan: {} is up", kept.path.display());
    let code = match args.command.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).env(LAB_VARIABLE, &kept.path);
            run(&lab, &host, command, cancelled)?
        }
        None => {
            wait_for_end(args.until_eof, cancelled)?;
            ExitCode::SUCCESS
        }
    };
    tell_traffic(&lab);
    Ok(code)
}

/// Runs a command on a host until it ends, or ends it when this program is to end.
fn run(lab: &Lab, host: &str, mut command: Command, cancelled: &AtomicBool) -> Result<ExitCode> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = lab.within(host, || command.spawn().with_context(|| format!("cannot run {program}")))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        if cancelled.load(Ordering::Relaxed) {
            return stop(&mut child).map(exit_code);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn stop(child: &mut Child) -> Result<ExitStatus> {
    kill_process(Pid::from_child(child), Signal::TERM)?;
    if let Ok(status) = wait_for(END_TIMEOUT, || Ok(child.try_wait()?)) {
        return Ok(status);
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// The exit code of a command, as a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn wait_for_end(until_eof: bool, cancelled: &AtomicBool) -> Result<()> {
    static ENDED: AtomicBool = AtomicBool::new(false);
    if until_eof {
        let watch = || {
            let mut input = std::io::stdin().lock();
            // An input that cannot be read has ended too.
            while input.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
            ENDED.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(watch).context("cannot watch the input")?;
    }
    while !cancelled.load(Ordering::Relaxed) && !ENDED.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

fn tell_traffic(lab: &Lab) {
    for (path, [there, back]) in lab.paths().iter().zip(lab.traffic()) {
        let [near, far] = &path.ends;
        let way = |from: &str, to: &str, traffic: Traffic| {
            let Traffic { line_bytes, dropped, lost, .. } = traffic;
            format!("{from} to {to} {} KiB ({dropped} dropped, {lost} lost)", line_bytes >> 10)
        };
        eprintln!("forebay-wan: {}, {}", way(near, far, there), way(far, near, back));
    }
}

/// The description of a lab, while it is up.
struct Kept {
    path: PathBuf,
    /// Set if the command line names no file.
    _dir: Option<tempfile::TempDir>,
}

impl Kept {
    /// Writes the file atomically, so that no reader sees a part of it.
    fn write(path: Option<PathBuf>, description: &Description) -> Result<Self> {
        let (path, dir) = match path {
            Some(path) => (std::path::absolute(path)?, None),
            None => {
                let dir = tempfile::Builder::new().prefix("forebay-wan-").tempdir()?;
                (dir.path().join("lab.json"), Some(dir))
            }
        };
        write_json(&path, description)?;
        Ok(Self { path, _dir: dir })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Another process may have removed it.
        std::fs::remove_file(&self.path).ok();
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let write = || -> Result<()> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let mut file = tempfile::Builder::new().permissions(readable_by_all()).tempfile_in(dir)?;
        file.write_all(serde_json::to_string_pretty(value)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn readable_by_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

/// Becomes the command, on the host.
fn run_in(host: &str, lab: &Path, command: &[OsString]) -> Result<ExitCode> {
    let text = std::fs::read_to_string(lab).with_context(|| format!("cannot read {}", lab.display()))?;
    let description: Description = serde_json::from_str(&text).with_context(|| lab.display().to_string())?;
    let found = description.hosts.get(host).with_context(|| {
        let names: Vec<_> = description.hosts.keys().map(String::as_str).collect();
        format!("there is no host {host}, but {}", names.join(", "))
    })?;
    enter_namespace(&found.netns)?;
    let (program, rest) = command.split_first().context("there is a command")?;
    Err(Command::new(program).args(rest).env(LAB_VARIABLE, lab).exec()).with_context(|| program.display().to_string())
}

fn accuracy(paths: Vec<PathPlan>, seconds: f64, json: Option<&Path>) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Record {
        kernel: String,
        processors: usize,
        seconds: f64,
        paths: Vec<Accuracy>,
    }
    ensure!((0.1..=3_600.0).contains(&seconds), "a stream runs 0.1 to 3600 seconds");
    print!("{TABLE_HEAD}");
    let tell = |one: &Accuracy| print!("{}", one.line());
    let paths = measure(&AccuracyOptions { paths, seconds }, tell)?;
    let Some(json) = json else { return Ok(ExitCode::SUCCESS) };
    let record = Record {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processors: std::thread::available_parallelism()?.get(),
        seconds,
        paths,
    };
    write_json(json, &record)?;
    Ok(ExitCode::SUCCESS)
}
