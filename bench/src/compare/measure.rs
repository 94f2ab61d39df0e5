//! Takes one sample: one row, one server, one round.

use super::page_cache::{self, PageCache};
use super::row::{
    COLD_FIRST_BYTE_LEN, COLD_FIRST_BYTES, COLD_MEDIUM_CONNECTIONS, COLD_ONE_BY_ONE_MAX, COLD_PIPELINE, COLD_READ_LEN,
    COLD_SMALL_CONNECTIONS, ColdClient, LoginWay, Row, RowKind, Security, WarmRow,
};
use super::scene::{Scene, wait_until_stored};
use super::servers::{ServerKind, start_floor, start_relay_floor, store_dir};
use super::usage::Usage;
use crate::floor::FloorMode;
use crate::load::{Bound, Entry, Load, LoadFile, LoadOptions, LoadReport, Logins, Operation, Order};
use crate::process::{Program, Server};
use anyhow::{Context as _, Result, ensure};
use forebay_bench::wan::wait_for;
use forebay_net::clock;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The result of one server in one round of one row.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Name of the row.
    pub(crate) row: String,
    pub(crate) server: ServerKind,
    pub(crate) round: u32,
    pub(crate) report: LoadReport,
    /// Processor time of the server, all threads.
    pub(crate) cpu: Duration,
    /// Bytes that the origin read meanwhile for a cache; 0 for others.
    pub(crate) origin_bytes: u64,
    /// Events of the whole machine meanwhile.
    pub(crate) page_cache: PageCache,
}

/// The result of an attempt to take a sample.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Measured(Sample),
    /// The server has no part in the row.
    NoPart,
    /// The server's process ended while it was measured.
    Ended {
        /// The error that the client saw.
        why: String,
    },
}

#[derive(Debug)]
pub(crate) struct Measure<'a> {
    pub(crate) scene: &'a Scene,
    /// Duration of a run on a warm cache.
    pub(crate) time: Duration,
    pub(crate) cancelled: &'a AtomicBool,
}

/// The client's report, the server's CPU time, and the bytes that the origin read.
type Measured = (LoadReport, Duration, u64);

/// A run before the measured one lasts this share of its time: connections and processors find their pace.
const SETTLE_DIVISOR: u32 = 8;

/// How long the end of a process may come after the end of its connections.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A server that uses less than this in this time is at rest.
const REST_CPU_MAX: Duration = Duration::from_millis(10);
const REST_TIME: Duration = Duration::from_secs(2);

/// How long a server may have something left to do.
const REST_TIMEOUT: Duration = Duration::from_secs(60);

impl Measure<'_> {
    /// Tries to take one sample.
    pub(crate) fn sample(&self, row: &Row, server: ServerKind, round: u32) -> Result<Outcome> {
        if row.kind.is_from_device() {
            // Connections and opens follow: they are few pages.
            page_cache::drop_all()?;
        }
        let pages_before = PageCache::now()?;
        let measured = match (row.kind, server.floor_mode()) {
            (RowKind::Warm(warm), Some(mode)) if warm.has_floor() => {
                let server = start_floor(mode, &self.scene.large_path(), warm.connections, self.scene.dir())?;
                self.warm(&warm, &server, Some(mode))?
            }
            (RowKind::Cold(ColdClient::Load), None) if server == ServerKind::FloorRelay => self.cold_relay()?,
            (_, None) if server == ServerKind::FloorRelay => return Ok(Outcome::NoPart),
            (_, Some(_)) => return Ok(Outcome::NoPart),
            (RowKind::Warm(warm), None) => self.warm(&warm, self.scene.server(server, warm.security())?, None)?,
            (RowKind::Logins(_), None) if !row.asks(server) => return Ok(Outcome::NoPart),
            (RowKind::Logins(way), None) => match self.logins(way, server)? {
                Ok(measured) => measured,
                Err(error) => return Ok(Outcome::Ended { why: format!("{error:#}") }),
            },
            (RowKind::Cold(client), None) if server.is_cache() => match self.cold_cache(client, server)? {
                Ok(measured) => measured,
                Err(error) => return Ok(Outcome::Ended { why: format!("{error:#}") }),
            },
            (RowKind::Cold(client), None) => self.cold(client, self.scene.server(server, Security::None)?, None)?,
        };
        let (report, cpu, origin_bytes) = measured;
        let origin_bytes = if server.is_cache() { origin_bytes } else { 0 };
        let page_cache = PageCache::now()?.since(&pages_before);
        let row = row.name.clone();
        Ok(Outcome::Measured(Sample { row, server, round, report, cpu, origin_bytes, page_cache }))
    }

    fn warm(&self, row: &WarmRow, server: &Server, floor: Option<FloorMode>) -> Result<Measured> {
        let files = &self.scene.files;
        let (large, order) = match (floor, row.operation) {
            // It answers from the file's beginning: a file of one read has nothing else.
            (Some(FloorMode::PingPong), Operation::Read { len }) => {
                (LoadFile { len: len.into(), ..files.large.clone() }, Order::Random)
            }
            _ => (files.large.clone(), row.order),
        };
        let options = LoadOptions {
            server: server.address(),
            files: match row.operation {
                Operation::OpenStatClose | Operation::OpenReadClose => files.small.clone(),
                Operation::Read { .. } | Operation::ReadVector { .. } | Operation::PageRead { .. } => {
                    vec![large]
                }
            },
            operation: row.operation,
            order,
            connections: row.connections,
            pipeline: row.pipeline,
            entry: floor.is_none().then(|| self.scene.reader(row)).transpose()?,
        };
        let mut load = Load::prepare(&options)?;
        if !row.from_device {
            load.run(Bound::Time(self.time / SETTLE_DIVISOR), self.cancelled)?;
        }
        let (before, origin_before) = (Usage::of(server.pid())?, self.scene.origin_usage()?);
        let report = load.run(Bound::Time(self.time), self.cancelled)?;
        let cpu = Usage::of(server.pid())?.cpu_since(&before);
        Ok((report, cpu, self.scene.origin_usage()?.read_bytes_since(&origin_before)))
    }

    /// Logs in at a server that is started for it: Debian's XRootD 5.5.3 crashes after some thousand logins over TLS. The inner error
    /// reports that the server has ended meanwhile.
    fn logins(&self, way: LoginWay, kind: ServerKind) -> Result<Result<Measured>> {
        let dir = tempfile::Builder::new().prefix("logins-").tempdir_in(self.scene.dir())?;
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let mut server = self.scene.start_secured(kind, way.security(), &dir.path().join("server"))?;
        let measured = self.log_in(way, &server);
        if measured.is_err() && !has_ended(&mut server) {
            return measured.map(Ok);
        }
        Ok(measured)
    }

    fn log_in(&self, way: LoginWay, server: &Server) -> Result<Measured> {
        let logins = Logins { server: server.address(), entries: self.scene.clients(way)? };
        logins.run(self.time / SETTLE_DIVISOR, self.cancelled)?;
        let before = Usage::of(server.pid())?;
        let report = logins.run(self.time, self.cancelled)?;
        Ok((report, Usage::of(server.pid())?.cpu_since(&before), 0))
    }

    /// Reads cold through a cache that is started for it. The inner error reports that the cache has ended meanwhile.
    fn cold_cache(&self, client: ColdClient, kind: ServerKind) -> Result<Result<Measured>> {
        let dir = tempfile::Builder::new().prefix("cold-").tempdir_in(self.scene.dir())?;
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let run_dir = dir.path().join("cache");
        let mut server = self.scene.start_cache(kind, &run_dir)?;
        let measured = self.cold(client, &server, Some(&store_dir(&run_dir)));
        if measured.is_err() && !has_ended(&mut server) {
            return measured.map(Ok);
        }
        drop(server);
        rustix::fs::sync();
        if matches!(client, ColdClient::SmallFiles | ColdClient::OneByOne) {
            // It goes with the scene: ext4 searches long for inodes that were not deleted a moment ago, which would count
            // against the next cache.
            drop(dir.keep());
        }
        Ok(measured)
    }

    /// Reads the cold file through the least that a cache must do.
    fn cold_relay(&self) -> Result<Measured> {
        let dir = tempfile::Builder::new().prefix("relay-").tempdir_in(self.scene.dir())?;
        let (origin, file) = (self.scene.server(ServerKind::Plain, Security::None)?, &self.scene.files.cold);
        let server = start_relay_floor(origin.address(), file, dir.path())?;
        let (operation, order) = (Operation::Read { len: COLD_READ_LEN }, Order::Sequential);
        let options = LoadOptions {
            server: server.address(),
            files: vec![file.clone()],
            operation,
            order,
            connections: 1,
            pipeline: COLD_PIPELINE,
            entry: None,
        };
        let mut load = Load::prepare(&options)?;
        let before = Usage::of(server.pid())?;
        let report = load.run(Bound::Operations(file.len.div_ceil(COLD_READ_LEN.into())), self.cancelled)?;
        let cpu = Usage::of(server.pid())?.cpu_since(&before);
        ensure!(report.bytes == file.len, "read {} of {} bytes", report.bytes, file.len);
        Ok((report, cpu, file.len))
    }

    /// Reads cold files once. The figures include the work that a cache with a store at `store` does until all of it is
    /// on disk.
    fn cold(&self, client: ColdClient, server: &Server, store: Option<&Path>) -> Result<Measured> {
        let files = &self.scene.files;
        let (before, origin_before) = (Usage::of(server.pid())?, self.scene.origin_usage()?);
        let load = |operation, files: &[LoadFile], connections, pipeline, operations| {
            let files = files.to_vec();
            let server = server.address();
            let order = if client == ColdClient::FirstByte { Order::Random } else { Order::Sequential };
            let options =
                LoadOptions { server, files, operation, order, connections, pipeline, entry: Some(Entry::default()) };
            Load::prepare(&options)?.run(Bound::Operations(operations), self.cancelled)
        };
        let cold = std::slice::from_ref(&files.cold);
        let (files, report) = match client {
            ColdClient::Xrdcp => (cold, self.xrdcp(server.address(), &files.cold)?),
            ColdClient::Load => {
                let read = Operation::Read { len: COLD_READ_LEN };
                (cold, load(read, cold, 1, COLD_PIPELINE, files.cold.len.div_ceil(COLD_READ_LEN.into()))?)
            }
            ColdClient::SmallFiles => {
                let small = files.cold_small.as_slice();
                (small, load(Operation::OpenReadClose, small, COLD_SMALL_CONNECTIONS, 1, small.len() as u64)?)
            }
            ColdClient::MediumFiles => {
                let medium = files.cold_medium.as_slice();
                (medium, load(Operation::OpenReadClose, medium, COLD_MEDIUM_CONNECTIONS, 1, medium.len() as u64)?)
            }
            ColdClient::OneByOne => {
                let few = files.cold_small.get(..COLD_ONE_BY_ONE_MAX).unwrap_or(&files.cold_small);
                (few, load(Operation::OpenReadClose, few, 1, 1, few.len() as u64)?)
            }
            ColdClient::FirstByte => {
                let read = Operation::Read { len: COLD_FIRST_BYTE_LEN };
                (cold, load(read, cold, 1, 1, COLD_FIRST_BYTES)?)
            }
        };
        let expected = match client {
            ColdClient::FirstByte => COLD_FIRST_BYTES * u64::from(COLD_FIRST_BYTE_LEN),
            _ => files.iter().map(|file| file.len).sum(),
        };
        ensure!(report.bytes == expected, "read {} of {expected} bytes", report.bytes);
        if let Some(store) = store {
            wait_until_stored(store, expected)?;
            wait_until_at_rest(server)?;
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
        let latency = wall_s * 1e6;
        Ok(LoadReport { operations: 1, bytes: file.len, wall_s, p50_us: latency, p99_us: latency, max_us: latency })
    }
}

/// Whether a server that a client has had trouble with has ended, or does so in a moment.
fn has_ended(server: &mut Server) -> bool {
    wait_for(END_TIMEOUT, || Ok(server.check_alive().is_err().then_some(()))).is_ok()
}

/// Waits until a server has nothing left to do for what it was asked: records, checksums, an index.
fn wait_until_at_rest(server: &Server) -> Result<()> {
    let mut last = (clock::monotonic(), Usage::of(server.pid())?);
    wait_for(REST_TIMEOUT, || {
        let now = Usage::of(server.pid())?;
        if now.cpu_since(&last.1) >= REST_CPU_MAX {
            last = (clock::monotonic(), now);
        }
        Ok((clock::monotonic().saturating_duration_since(last.0) >= REST_TIME).then_some(()))
    })
    .context("the server does not come to rest")
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
