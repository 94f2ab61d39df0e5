//! The set-up of a comparison: the files, the running servers, and caches that hold all of it.

use super::row::{LOGIN_CLIENTS, LoginWay, Security, WarmRow};
use super::secured::Guard;
use super::servers::{EXPORT, Programs, ServerKind, XcacheSettings, store_dir};
use super::usage::Usage;
use crate::file::make_file;
use crate::grid::Grid;
use crate::load::{Bound, Entry, Load, LoadFile, LoadOptions, Operation, Order};
use crate::process::{Server, make_server_dir};
use anyhow::{Context as _, Result, bail, ensure};
use forebay_bench::wan::wait_for;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

/// Files that are opened and closed in turn.
const SMALL_FILES: usize = 64;
const SMALL_FILE_LEN: u64 = 64 << 10;

/// Length of the many small files that are read cold.
const COLD_SMALL_FILE_LEN: u64 = 16 << 10;

/// Length of the other files that are read cold.
const COLD_MEDIUM_FILE_LEN: u64 = 1 << 20;

/// Reads that warm a cache.
const WARM_READ_LEN: u32 = 1 << 20;

/// How often a cache is read from end to end until it fetches nothing any more. One pass is enough unless it was so busy with its
/// start that it did not keep account of the first files.
const WARM_PASSES_MAX: u32 = 3;

/// How long a cache may take to bring to disk what it has delivered.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The files of a comparison, as requests name them.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The file that is read.
    pub(crate) large: LoadFile,
    /// The file that is read cold.
    pub(crate) cold: LoadFile,
    /// The files that are opened and closed.
    pub(crate) small: Vec<LoadFile>,
    /// The many small files that are read cold.
    pub(crate) cold_small: Vec<LoadFile>,
    /// The files of 1 MiB that are read cold.
    pub(crate) cold_medium: Vec<LoadFile>,
}

/// How large, and how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSizes {
    pub(crate) large_len: u64,
    pub(crate) cold_len: u64,
    pub(crate) cold_small_files: u32,
    pub(crate) cold_medium_files: u32,
}

/// The part of all opens that a traced server traces by default.
pub(crate) const TRACED: &str = "1/1";

/// Files and servers. All of it goes with this value.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) programs: Programs,
    pub(crate) files: Files,
    /// Servers that run through all rounds.
    servers: Vec<(ServerKind, Security, Server)>,
    /// Certificates, keys and tokens of the servers that use security.
    grid: Option<Grid>,
    /// Of the tuned XCache; its defaults unless they are set.
    pub(crate) tuned: XcacheSettings,
    /// The part of all opens that the traced Forebay traces.
    pub(crate) traced: String,
    // Last, so that the servers are stopped before their files go.
    dir: TempDir,
}

impl Scene {
    /// Makes the files below `work_dir` and starts the origin, which is the plain server as well.
    pub(crate) fn set_up(work_dir: &Path, programs: Programs, sizes: FileSizes) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("forebay-bench-")
            .tempdir_in(work_dir)
            .with_context(|| format!("cannot make a directory in {}", work_dir.display()))?;
        // The reference server may run as another user, who has to find its files.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        let root = dir.path().join("origin");
        make_server_dir(&root.join(EXPORT))?;
        let make = |name: &str, len| -> Result<LoadFile> {
            let path = format!("/{EXPORT}/{name}");
            make_file(&root.join(EXPORT).join(name), len)?;
            Ok(LoadFile { path, len })
        };
        let small = (0..SMALL_FILES).map(|index| make(&format!("small-{index:02}"), SMALL_FILE_LEN));
        let cold_small =
            (0..sizes.cold_small_files).map(|index| make(&format!("cold-small-{index:05}"), COLD_SMALL_FILE_LEN));
        let cold_medium =
            (0..sizes.cold_medium_files).map(|index| make(&format!("cold-medium-{index:05}"), COLD_MEDIUM_FILE_LEN));
        let files = Files {
            large: make("large", sizes.large_len)?,
            cold: make("cold", sizes.cold_len)?,
            small: small.collect::<Result<_>>()?,
            cold_small: cold_small.collect::<Result<_>>()?,
            cold_medium: cold_medium.collect::<Result<_>>()?,
        };
        let plain_dir = dir.path().join("plain");
        let plain = programs.start_plain(Ipv4Addr::LOCALHOST.into(), &root, Guard::None, &plain_dir)?;
        let servers = vec![(ServerKind::Plain, Security::None, plain)];
        Ok(Self {
            programs,
            files,
            servers,
            grid: None,
            tuned: XcacheSettings::default(),
            traced: TRACED.to_owned(),
            dir,
        })
    }

    /// Makes what servers are configured with that do something for security.
    pub(crate) fn make_grid(&mut self) -> Result<()> {
        self.grid = Some(Grid::make(&self.dir.path().join("grid")).context("cannot make certificates")?);
        Ok(())
    }

    /// Starts a server that runs through all rounds, unless it runs already, and makes it warm if it is a cache.
    pub(crate) fn start_for_all_rounds(
        &mut self,
        kind: ServerKind,
        security: Security,
        cancelled: &AtomicBool,
    ) -> Result<()> {
        if self.server(kind, security).is_ok() {
            return Ok(());
        }
        let run_dir = self.dir.path().join(format!("warm-{kind:?}-{security:?}").to_lowercase());
        let server = self.start_secured(kind, security, &run_dir)?;
        if kind.is_cache() {
            self.warm(kind, &server, &run_dir, cancelled)?;
        }
        self.servers.push((kind, security, server));
        Ok(())
    }

    /// Starts one more server that does this for security, with its files in `run_dir`.
    pub(crate) fn start_secured(&self, kind: ServerKind, security: Security, run_dir: &Path) -> Result<Server> {
        let guard = Guard::new(security, self.grid.as_ref()).context("certificates are made where they are needed")?;
        self.start_guarded(kind, guard, run_dir)
    }

    /// Has a cache fetch everything, over one connection: Debian's XCache 5.5.3 crashes when several connections read many small
    /// cold files.
    fn warm(&self, kind: ServerKind, server: &Server, run_dir: &Path, cancelled: &AtomicBool) -> Result<()> {
        let name = kind.as_str();
        eprintln!("warming {name}");
        self.read_everything(server.address(), cancelled).with_context(|| format!("cannot warm {name}"))?;
        let expected = self.files.large.len + self.files.small.iter().map(|file| file.len).sum::<u64>();
        wait_until_stored(&store_dir(run_dir), expected)?;
        rustix::fs::sync();
        for _ in 0..WARM_PASSES_MAX {
            let before = self.origin_usage()?;
            self.read_everything(server.address(), cancelled).with_context(|| format!("cannot read {name} warm"))?;
            let fetched = self.origin_usage()?.read_bytes_since(&before);
            if fetched < expected / 100 {
                return Ok(());
            }
            eprintln!("{name} has read everything and fetched another {fetched} bytes");
        }
        bail!("{name} is warm and goes on fetching from its origin")
    }

    /// Starts a cache with its files in `run_dir`.
    pub(crate) fn start_cache(&self, kind: ServerKind, run_dir: &Path) -> Result<Server> {
        ensure!(kind.is_cache(), "{} is no cache", kind.as_str());
        self.start_guarded(kind, Guard::None, run_dir)
    }

    /// Starts one more server of a kind, with its files in `run_dir`.
    pub(crate) fn start(&self, kind: ServerKind, run_dir: &Path) -> Result<Server> {
        self.start_guarded(kind, Guard::None, run_dir)
    }

    fn start_guarded(&self, kind: ServerKind, guard: Guard<'_>, run_dir: &Path) -> Result<Server> {
        std::fs::create_dir_all(run_dir)?;
        let origin = self.server(ServerKind::Plain, Security::None)?.address();
        let programs = &self.programs;
        match kind {
            ServerKind::Plain => programs.start_plain(Ipv4Addr::LOCALHOST.into(), &self.root(), guard, run_dir),
            ServerKind::Xcache => programs.start_xcache(origin, XcacheSettings::WITHOUT_PREFETCH, guard, run_dir),
            ServerKind::XcacheTuned => programs.start_xcache(origin, self.tuned, guard, run_dir),
            ServerKind::Forebay => programs.start_forebay(origin, None, guard, run_dir),
            ServerKind::ForebayTraced => programs.start_forebay(origin, Some(&self.traced), guard, run_dir),
            ServerKind::FloorPingPong | ServerKind::FloorCopy | ServerKind::FloorSendfile | ServerKind::FloorRelay => {
                bail!("{} is started for each row", kind.as_str())
            }
        }
    }

    /// Makes `count` further files of `len` bytes at the origin.
    pub(crate) fn make_files(&self, name: &str, count: u32, len: u64) -> Result<Vec<LoadFile>> {
        let dir = self.root().join(EXPORT);
        let make = |index| -> Result<LoadFile> {
            let name = format!("{name}-{index:05}");
            make_file(&dir.join(&name), len)?;
            Ok(LoadFile { path: format!("/{EXPORT}/{name}"), len })
        };
        (0..count).map(make).collect()
    }

    /// A server that runs through all rounds.
    pub(crate) fn server(&self, kind: ServerKind, security: Security) -> Result<&Server> {
        let found = self.servers.iter().find(|(other, same, _)| (*other, *same) == (kind, security));
        found.map(|(_, _, server)| server).with_context(|| format!("{} was not started", kind.as_str()))
    }

    /// How clients log in to read in a row on a warm cache.
    pub(crate) fn reader(&self, row: &WarmRow) -> Result<Entry> {
        if row.tls { self.grid()?.encrypted(false) } else { Ok(Entry::default()) }
    }

    /// How the clients of a row of logins log in.
    pub(crate) fn clients(&self, way: LoginWay) -> Result<Vec<Entry>> {
        let grid = self.grid()?;
        let entry = |client| match way {
            LoginWay::Plain => Ok(Entry::default()),
            LoginWay::Secret => Ok(grid.with_secret()),
            LoginWay::Certificate => Ok(grid.with_certificate(false)),
            LoginWay::CertificateWithAttribute => Ok(grid.with_certificate(true)),
            LoginWay::Tls => grid.encrypted(false),
            LoginWay::TlsResumed => grid.encrypted(true),
            LoginWay::Token => grid.with_token(client),
        };
        (0..LOGIN_CLIENTS).map(entry).collect()
    }

    fn grid(&self) -> Result<&Grid> {
        self.grid.as_ref().context("certificates are made where they are needed")
    }

    /// Resources that the origin has used since its start.
    pub(crate) fn origin_usage(&self) -> Result<Usage> {
        Usage::of(self.server(ServerKind::Plain, Security::None)?.pid())
    }

    /// The large file as the origin's disk has it.
    pub(crate) fn large_path(&self) -> PathBuf {
        self.root().join(self.files.large.path.trim_start_matches('/'))
    }

    /// The parent of the directory that the origin exports.
    fn root(&self) -> PathBuf {
        self.dir.path().join("origin")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn read_everything(&self, server: SocketAddr, cancelled: &AtomicBool) -> Result<()> {
        read_files(server, std::iter::once(&self.files.large).chain(&self.files.small), cancelled)
    }
}

/// Reads `files` from end to end, over one connection at a time.
pub(crate) fn read_files<'a>(
    server: SocketAddr,
    files: impl IntoIterator<Item = &'a LoadFile>,
    cancelled: &AtomicBool,
) -> Result<()> {
    for file in files {
        let options = LoadOptions {
            server,
            files: vec![file.clone()],
            operation: Operation::Read { len: WARM_READ_LEN },
            order: Order::Sequential,
            connections: 1,
            pipeline: 1,
            entry: Some(Entry::default()),
        };
        let reads = file.len.div_ceil(WARM_READ_LEN.into());
        let report = Load::prepare(&options)?.run(Bound::Operations(reads), cancelled)?;
        ensure!(report.bytes == file.len, "read {} of {} bytes of {}", report.bytes, file.len, file.path);
    }
    Ok(())
}

/// Waits until the files below `store` occupy at least `expected` bytes of disk.
pub(crate) fn wait_until_stored(store: &Path, expected: u64) -> Result<()> {
    wait_for(STORE_TIMEOUT, || Ok((stored_bytes(store)? >= expected).then_some(())))
        .with_context(|| format!("{} holds {} of {expected} bytes", store.display(), stored_bytes(store).unwrap_or(0)))
}

fn stored_bytes(dir: &Path) -> Result<u64> {
    /// Unit of `st_blocks`, whatever the file system's block is.
    const STAT_BLOCK_LEN: u64 = 512;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // A file that goes while we look occupies nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        // A cache's own files do not count as data: an index may be larger than the data that is still to come.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        bytes += if metadata.is_dir() { stored_bytes(&entry.path())? } else { metadata.blocks() * STAT_BLOCK_LEN };
    }
    Ok(bytes)
}
