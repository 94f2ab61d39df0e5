//! Takes one sample: one task, one way, one path.

use super::row::{Task, Unit, Way};
use super::scene::{Files, Scene};
use crate::compare::summary::MIB;
use crate::content::Content;
use crate::load::{Bound, Entry, Load, LoadFile, LoadOptions, LoadReport};
use crate::process::Program;
use anyhow::{Context as _, Result, ensure};
use forebay_bench::wan::wait_for;
use forebay_net::clock;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The result of one way in one round of one task.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Round-trip time of the path in milliseconds.
    pub(crate) rtt_ms: u64,
    pub(crate) task: Task,
    pub(crate) way: Way,
    pub(crate) round: u32,
    pub(crate) report: LoadReport,
    /// Bytes that the origin has read for it, until requests to the origin ended.
    pub(crate) origin_bytes: u64,
}

impl Sample {
    /// The result in the unit of the task.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    pub(crate) fn value(&self) -> f64 {
        match self.task.unit() {
            Unit::MibPerSecond => self.report.bytes as f64 / MIB / self.report.wall_s,
            Unit::Milliseconds => self.report.wall_s * 1e3 / self.report.operations as f64,
        }
    }
}

/// Takes samples on one path.
#[derive(Debug)]
pub(crate) struct Measure<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) files: &'a Files,
    pub(crate) rtt_ms: u64,
    /// Operations of a task whose unit is milliseconds.
    pub(crate) operations: u32,
    pub(crate) cancelled: &'a AtomicBool,
}

/// Round-trip times without a byte read after which requests to an origin have ended.
const QUIET_ROUND_TRIPS: u64 = 4;

const QUIET_TIMEOUT: Duration = Duration::from_secs(30);

impl Measure<'_> {
    /// Takes one sample with a cache that is empty.
    pub(crate) fn sample(&self, task: Task, way: Way, round: u32) -> Result<Sample> {
        let dir = tempfile::Builder::new().prefix("cache-").tempdir_in(self.files.dir())?;
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        let (report, origin_bytes) = self.scene.near(|| {
            let cache = self.scene.start_cache(way, dir.path())?;
            let server = cache.as_ref().map_or_else(|| self.scene.origin(), |cache| cache.address());
            let before = self.scene.origin_usage()?;
            let report = match task.load() {
                None => self.copy(server, dir.path())?,
                Some(_) => self.load(task, server)?,
            };
            self.wait_until_quiet()?;
            Ok((report, self.scene.origin_usage()?.read_bytes_since(&before)))
        })?;
        Ok(Sample { rtt_ms: self.rtt_ms, task, way, round, report, origin_bytes })
    }

    fn load(&self, task: Task, server: SocketAddr) -> Result<LoadReport> {
        let plan = task.load().context("the reference client does this")?;
        let (files, operations) = match task {
            Task::Files => (self.files.files.as_slice(), self.files.files.len() as u64),
            Task::Opens => (self.files.small.as_slice(), self.files.small.len() as u64),
            Task::Copy | Task::Read4k | Task::Read32k | Task::Readv => {
                (std::slice::from_ref(&self.files.large), u64::from(self.operations))
            }
        };
        let options = LoadOptions {
            server,
            files: files.to_vec(),
            operation: plan.operation,
            order: plan.order,
            connections: plan.connections,
            pipeline: 1,
            entry: Some(Entry::default()),
        };
        Load::prepare(&options)?.run(Bound::Operations(operations), self.cancelled)
    }

    /// Copies the large file with the reference client, into memory, and compares every byte afterwards.
    fn copy(&self, server: SocketAddr, dir: &Path) -> Result<LoadReport> {
        let file = &self.files.large;
        let target = dir.join("copy");
        let program = self.scene.xrdcp(&format!("root://{server}/{}", file.path), &target);
        let start = clock::monotonic();
        run(&program)?;
        let wall_s = (clock::monotonic() - start).as_secs_f64();
        verify(&target, file)?;
        let latency = wall_s * 1e6;
        Ok(LoadReport { operations: 1, bytes: file.len, wall_s, p50_us: latency, p99_us: latency, max_us: latency })
    }

    fn wait_until_quiet(&self) -> Result<()> {
        let pause = Duration::from_millis(50 + QUIET_ROUND_TRIPS * self.rtt_ms);
        wait_for(QUIET_TIMEOUT, || {
            let before = self.scene.origin_usage()?;
            std::thread::sleep(pause);
            Ok((self.scene.origin_usage()?.read_bytes_since(&before) == 0).then_some(()))
        })
        .context("the origin is asked for more and more")
    }
}

/// Compares a copy with what the file holds.
fn verify(path: &Path, file: &LoadFile) -> Result<()> {
    let content = Content::of_path(&file.path);
    let mut copy = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let len = copy.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        content.verify(offset, buffer.get(..len).unwrap_or_default())?;
        offset += len as u64;
    }
    ensure!(offset == file.len, "copied {offset} of {} bytes", file.len);
    Ok(())
}

/// Runs a client program to its end.
fn run(program: &Program) -> Result<()> {
    let mut command = Command::new(&program.path);
    command.args(&program.args).envs(program.env.clone()).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {}", program.path.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed ({}): {}", program.path.display(), output.status, said.trim());
    Ok(())
}
