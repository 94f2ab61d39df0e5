//! Takes one sample: one row, one server, one round.

use super::process::{Program, Server};
use super::row::{COLD_PIPELINE, COLD_READ_LEN, ColdClient, Row, RowKind, WarmRow};
use super::scene::{Scene, wait_until_stored};
use super::servers::{ServerKind, start_floor, store_dir};
use super::usage::Usage;
use crate::load::{Bound, Load, LoadFile, LoadOptions, LoadReport, Operation, Order};
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What one server did in one round of one row.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Name of the row.
    pub(crate) row: String,
    pub(crate) server: ServerKind,
    /// Counted from 1.
    pub(crate) round: u32,
    pub(crate) report: LoadReport,
    /// Processor time of the server, all threads.
    pub(crate) cpu: Duration,
    /// Bytes that the origin read meanwhile for a cache; 0 for others.
    pub(crate) origin_bytes: u64,
}

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Measure<'a> {
    pub(crate) scene: &'a Scene,
    /// Duration of a run on a warm cache.
    pub(crate) time: Duration,
    pub(crate) cancelled: &'a AtomicBool,
}

/// A run before the measured one lasts this share of its time: connections and processors find their pace.
const SETTLE_DIVISOR: u32 = 8;

impl Measure<'_> {
    /// Takes one sample. None when the server has no part in the row.
    pub(crate) fn sample(&self, row: &Row, server: ServerKind, round: u32) -> Result<Option<Sample>> {
        let measured = match (row.kind, server.floor_mode()) {
            (RowKind::Warm(warm), Some(mode)) if warm.has_floor() => {
                let server = start_floor(mode, &self.scene.large_path(), warm.connections, self.scene.dir())?;
                self.warm(&warm, &server, true)?
            }
            (_, Some(_)) => return Ok(None),
            (RowKind::Warm(warm), None) => self.warm(&warm, self.scene.server(server)?, false)?,
            (RowKind::Cold(client), None) => self.cold(client, server)?,
        };
        let (report, cpu, origin_bytes) = measured;
        let origin_bytes = if server.is_cache() { origin_bytes } else { 0 };
        Ok(Some(Sample { row: row.name.clone(), server, round, report, cpu, origin_bytes }))
    }

    fn warm(&self, row: &WarmRow, server: &Server, bare: bool) -> Result<(LoadReport, Duration, u64)> {
        let files = &self.scene.files;
        let files =
            if row.operation == Operation::OpenStatClose { files.small.clone() } else { vec![files.large.clone()] };
        let options = LoadOptions {
            server: server.address(),
            files,
            operation: row.operation,
            order: row.order,
            connections: row.connections,
            pipeline: row.pipeline,
            bare,
        };
        let mut load = Load::prepare(&options)?;
        load.run(Bound::Time(self.time / SETTLE_DIVISOR), self.cancelled)?;
        let (before, origin_before) = (Usage::of(server.pid())?, self.scene.origin_usage()?);
        let report = load.run(Bound::Time(self.time), self.cancelled)?;
        let cpu = Usage::of(server.pid())?.cpu_since(&before);
        Ok((report, cpu, self.scene.origin_usage()?.read_bytes_since(&origin_before)))
    }

    /// Reads the cold file once, through a cache that was started for it. What a cache spends until all of it is on disk
    /// counts.
    fn cold(&self, client: ColdClient, kind: ServerKind) -> Result<(LoadReport, Duration, u64)> {
        let file = &self.scene.files.cold;
        if !kind.is_cache() {
            return self.cold_read(client, self.scene.server(kind)?, file, None);
        }
        let run_dir = tempfile::Builder::new().prefix("cold-").tempdir_in(self.scene.dir())?;
        std::fs::set_permissions(run_dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let run_dir_path = run_dir.path().join("cache");
        let server = self.scene.start_cache(kind, &run_dir_path)?;
        let measured = self.cold_read(client, &server, file, Some(&store_dir(&run_dir_path)));
        drop(server);
        rustix::fs::sync();
        measured
    }

    fn cold_read(
        &self,
        client: ColdClient,
        server: &Server,
        file: &LoadFile,
        store: Option<&Path>,
    ) -> Result<(LoadReport, Duration, u64)> {
        let (before, origin_before) = (Usage::of(server.pid())?, self.scene.origin_usage()?);
        let report = match client {
            ColdClient::Xrdcp => self.xrdcp(server.address(), file)?,
            ColdClient::Load => {
                let options = LoadOptions {
                    server: server.address(),
                    files: vec![file.clone()],
                    operation: Operation::Read { len: COLD_READ_LEN },
                    order: Order::Sequential,
                    connections: 1,
                    pipeline: COLD_PIPELINE,
                    bare: false,
                };
                let reads = file.len.div_ceil(COLD_READ_LEN.into());
                Load::prepare(&options)?.run(Bound::Operations(reads), self.cancelled)?
            }
        };
        ensure!(report.bytes == file.len, "read {} of {} bytes", report.bytes, file.len);
        if let Some(store) = store {
            wait_until_stored(store, file.len)?;
        }
        let cpu = Usage::of(server.pid())?.cpu_since(&before);
        Ok((report, cpu, self.scene.origin_usage()?.read_bytes_since(&origin_before)))
    }

    fn xrdcp(&self, server: SocketAddr, file: &LoadFile) -> Result<LoadReport> {
        let url = format!("root://{server}/{}", file.path);
        let program = self.scene.programs.xrootd("xrdcp", &["--nopbar", "--force", &url, "/dev/null"].map(Path::new));
        let start = clock::monotonic();
        run(&program)?;
        let wall_s = (clock::monotonic() - start).as_secs_f64();
        Ok(LoadReport { operations: 1, bytes: file.len, wall_s, p50_us: wall_s * 1e6, p99_us: wall_s * 1e6 })
    }
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
