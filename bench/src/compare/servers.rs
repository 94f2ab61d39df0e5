//! The servers that are compared: how each is configured and started.

use super::absolute;
use super::secured::Guard;
use crate::floor::FloorMode;
use crate::load::{Load, LoadFile};
use crate::process::{Program, Server, make_server_dir, ready_address};
use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// A column of the table.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub(crate) enum ServerKind {
    /// The reference cache: xrootd with libXrdPfc.
    Xcache,
    /// The reference cache with other settings than its defaults.
    XcacheTuned,
    /// The reference file server, which is also the origin of both caches.
    Plain,
    /// Forebay with its defaults.
    Forebay,
    /// Forebay, with a trace of reads.
    ForebayTraced,
    /// The least that a server must do if it had all bytes in memory.
    FloorPingPong,
    /// The least that a server must do, bytes copied.
    FloorCopy,
    /// The least that a server must do, with sendfile.
    FloorSendfile,
    /// The least that a cache must do with what it does not have.
    FloorRelay,
}

impl ServerKind {
    /// Its name in tables and files.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Xcache => "XCache",
            Self::XcacheTuned => "tuned XCache",
            Self::Plain => "plain xrootd",
            Self::Forebay => "Forebay",
            Self::ForebayTraced => "traced Forebay",
            Self::FloorPingPong => "floor (ping-pong)",
            Self::FloorCopy => "floor (copy)",
            Self::FloorSendfile => "floor (sendfile)",
            Self::FloorRelay => "floor (relay)",
        }
    }

    /// How the floor server works, if it is one.
    pub(crate) const fn floor_mode(self) -> Option<FloorMode> {
        match self {
            Self::FloorPingPong => Some(FloorMode::PingPong),
            Self::FloorCopy => Some(FloorMode::Copy),
            Self::FloorSendfile => Some(FloorMode::Sendfile),
            Self::Xcache | Self::XcacheTuned | Self::Plain | Self::Forebay | Self::ForebayTraced | Self::FloorRelay => {
                None
            }
        }
    }

    /// Whether it keeps what it has fetched from the origin.
    pub(crate) const fn is_cache(self) -> bool {
        matches!(self, Self::Xcache | Self::XcacheTuned) || self.is_forebay()
    }

    /// Whether it is the program `forebay`.
    pub(crate) const fn is_forebay(self) -> bool {
        matches!(self, Self::Forebay | Self::ForebayTraced)
    }
}

/// Name of the directory under which the origin exports its files.
pub(crate) const EXPORT: &str = "bench";

/// Memory for buffers that each cache may use.
const MEMORY: (&str, &str) = ("1g", "1GiB");

/// Forebay's storage budget: more than any run reads, however full the file system is.
const BUDGET: &str = "1TiB";

/// The settings of an XCache that differ from its defaults.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct XcacheSettings {
    /// Blocks that may be fetched ahead of one file's readers at a time.
    pub(crate) prefetch: Option<u32>,
    /// Length of a block in bytes.
    pub(crate) block_len: Option<u64>,
}

impl XcacheSettings {
    /// With the default block size and without prefetching, which rows on a warm cache do not need; cold rows would otherwise
    /// measure how far it runs ahead.
    pub(crate) const WITHOUT_PREFETCH: Self = Self { prefetch: Some(0), block_len: None };
}

/// Where programs are found.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Installation of XRootD to use instead of the distribution's.
    pub(crate) xrootd_prefix: Option<PathBuf>,
    pub(crate) forebay: PathBuf,
}

impl Programs {
    /// Finds the programs: Forebay, if `needs_forebay`, next to this program if no path is given. Servers are started in
    /// directories of their own, so all paths are absolute.
    pub(crate) fn find(xrootd_prefix: Option<&Path>, forebay: Option<&Path>, needs_forebay: bool) -> Result<Self> {
        let mut forebay = match forebay {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("forebay"),
        };
        if needs_forebay {
            forebay = absolute(&forebay).context("build it with `cargo build --release -p forebay`")?;
        }
        let xrootd_prefix = xrootd_prefix.map(absolute).transpose()?;
        if let Some(prefix) = &xrootd_prefix {
            absolute(&prefix.join("bin/xrootd"))?;
        }
        Ok(Self { xrootd_prefix, forebay })
    }

    /// Program `name` of the chosen XRootD, with the library path that it needs.
    pub(crate) fn xrootd(&self, name: &str, args: &[&Path]) -> Program {
        let args = args.iter().map(|arg| arg.as_os_str().to_owned()).collect();
        let (path, env) = match &self.xrootd_prefix {
            None => (PathBuf::from(name), Vec::new()),
            Some(prefix) => {
                let libraries = std::env::join_paths([prefix.join("lib"), prefix.join("lib64")]).unwrap_or_default();
                (prefix.join("bin").join(name), vec![("LD_LIBRARY_PATH".into(), libraries)])
            }
        };
        Program { path, args, env, refuses_root: true }
    }

    /// Starts the file server that exports `root`/bench at an address of this host; its own files go to `run_dir`.
    pub(crate) fn start_plain(&self, host: IpAddr, root: &Path, guard: Guard<'_>, run_dir: &Path) -> Result<Server> {
        let config = format!("oss.localroot {}\n", root.display());
        self.start_xrootd(ServerKind::Plain.as_str(), host, guard, run_dir, &config)
    }

    /// Starts an XCache in front of `origin` that keeps everything in `run_dir`.
    pub(crate) fn start_xcache(
        &self,
        origin: SocketAddr,
        settings: XcacheSettings,
        guard: Guard<'_>,
        run_dir: &Path,
    ) -> Result<Server> {
        let store = store_dir(run_dir);
        make_server_dir(&store)?;
        let mut config = format!("oss.localroot {}\nofs.osslib libXrdPss.so\n", store.display());
        write!(config, "pss.cachelib libXrdPfc.so\npss.origin {origin}\n")?;
        write!(config, "pfc.ram {}\npfc.diskusage 0.98 0.99\n", MEMORY.0)?;
        if let Some(blocks) = settings.prefetch {
            writeln!(config, "pfc.prefetch {blocks}")?;
        }
        if let Some(block_len) = settings.block_len {
            writeln!(config, "pfc.blocksize {block_len}")?;
        }
        self.start_xrootd(ServerKind::Xcache.as_str(), Ipv4Addr::LOCALHOST.into(), guard, run_dir, &config)
    }

    fn start_xrootd(
        &self,
        name: &'static str,
        host: IpAddr,
        guard: Guard<'_>,
        run_dir: &Path,
        config: &str,
    ) -> Result<Server> {
        make_server_dir(run_dir)?;
        // The reference server does not report the port that it was assigned, so it gets one that was free a moment
        // ago.
        let port = TcpListener::bind((host, 0))?.local_addr()?.port();
        let config_path = run_dir.join("xrootd.cfg");
        let dir = run_dir.display();
        let security = guard.xrootd_lines();
        let text = format!(
            "all.export /{EXPORT} r/o\nall.adminpath {dir}\nall.pidpath {dir}\nxrd.port {port}\n{config}{security}"
        );
        std::fs::write(&config_path, text).with_context(|| format!("cannot write {}", config_path.display()))?;
        let mut program = self.xrootd("xrootd", &[Path::new("-c"), &config_path]);
        program.env.extend(guard.xrootd_env());
        let (address, entry) = (SocketAddr::new(host, port), guard.entry());
        Server::start(name, &program, &run_dir.join("log"), |_| Load::answers(address, &entry).then_some(address))
    }

    /// Starts Forebay in front of `origin`, with its store in `run_dir`; it traces a part of all opens if one is given,
    /// such as `1/10`.
    pub(crate) fn start_forebay(
        &self,
        origin: SocketAddr,
        trace: Option<&str>,
        guard: Guard<'_>,
        run_dir: &Path,
    ) -> Result<Server> {
        let store = store_dir(run_dir);
        std::fs::create_dir_all(&store)?;
        let (store, trace_dir) = (serde_json::to_string(&store)?, serde_json::to_string(&run_dir.join("trace"))?);
        let trace =
            trace.map_or_else(String::new, |part| format!("[trace]\npath = {trace_dir}\nsample = \"{part}\"\n"));
        let (memory, security) = (MEMORY.1, guard.forebay_tables()?);
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[store]\npath = {store}\n[memory]\nbudget = \"{memory}\"\n\
             [purge]\nbudget = \"{BUDGET}\"\n[[export]]\norigins = [\"root://{origin}\"]\n{trace}{security}"
        );
        let config_path = run_dir.join("forebay.toml");
        std::fs::write(&config_path, config)?;
        let args = vec!["serve".into(), "--config".into(), config_path.into_os_string()];
        let program = Program { path: self.forebay.clone(), args, env: Vec::new(), refuses_root: false };
        let kind = if trace.is_empty() { ServerKind::Forebay } else { ServerKind::ForebayTraced };
        Server::start(kind.as_str(), &program, &run_dir.join("log"), |log| ready_address(log, "ready root://"))
    }
}

/// Starts a floor server for `file` and `connections` connections.
pub(crate) fn start_floor(mode: FloorMode, file: &Path, connections: u16, run_dir: &Path) -> Result<Server> {
    let mode = mode.to_possible_value().context("each mode has a name")?.get_name().to_owned();
    let args = vec!["floor".into(), file.into(), mode.into(), connections.to_string().into()];
    let program = Program { path: std::env::current_exe()?, args, env: Vec::new(), refuses_root: false };
    Server::start("floor", &program, &run_dir.join("floor.log"), |log| ready_address(log, "ready "))
}

/// Starts the floor of cold reads of `file`, which `origin` has.
pub(crate) fn start_relay_floor(origin: SocketAddr, file: &LoadFile, run_dir: &Path) -> Result<Server> {
    let store = store_dir(run_dir);
    let args = ["relay-floor", &origin.to_string(), &file.path, &file.len.to_string()];
    let args = args.iter().map(Into::into).chain([store.into_os_string()]).collect();
    let program = Program { path: std::env::current_exe()?, args, env: Vec::new(), refuses_root: false };
    Server::start("relay floor", &program, &run_dir.join("log"), |log| ready_address(log, "ready "))
}

/// Where a cache whose files are in `run_dir` keeps what it has fetched.
pub(crate) fn store_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("store")
}
