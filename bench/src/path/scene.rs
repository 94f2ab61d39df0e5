//! What is measured on: the files, a path, the origin at its far end and the caches at its near end.

use super::link::LinkShape;
use super::namespace::{Namespace, Tuning};
use super::row::Way;
use crate::compare::secured::Guard;
use crate::compare::servers::{EXPORT, Programs};
use crate::compare::usage::Usage;
use crate::file::make_file;
use crate::load::LoadFile;
use crate::process::{Program, Server, make_server_dir};
use anyhow::{Context as _, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The network of the path, and its ends.
const NETWORK: &str = "10.77.0.0/30";
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Lengths of the small files.
const FILE_LEN: u64 = 1 << 20;
const SMALL_FILE_LEN: u64 = 4 << 10;

/// Makes the interfaces of the relay.
const TUN_SCRIPT: &str = include_str!("tun.py");

/// The files of a run, as they are asked for.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) large: LoadFile,
    /// Files of 1 MiB.
    pub(crate) files: Vec<LoadFile>,
    /// Files of 4 KiB.
    pub(crate) small: Vec<LoadFile>,
    // Goes with its files.
    dir: TempDir,
}

impl Files {
    /// Makes the files below `work_dir`.
    pub(crate) fn make(work_dir: &Path, large_len: u64, files: u32, small: u32) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("forebay-path-")
            .tempdir_in(work_dir)
            .with_context(|| format!("cannot make a directory in {}", work_dir.display()))?;
        // The reference server may run as another user, who has to find its files.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
        let exported = dir.path().join("origin").join(EXPORT);
        make_server_dir(&exported)?;
        let make = |name: &str, len| -> Result<LoadFile> {
            make_file(&exported.join(name), len)?;
            Ok(LoadFile { path: format!("/{EXPORT}/{name}"), len })
        };
        Ok(Self {
            large: make("large", large_len)?,
            files: (0..files).map(|index| make(&format!("file-{index:05}"), FILE_LEN)).collect::<Result<_>>()?,
            small: (0..small).map(|index| make(&format!("small-{index:05}"), SMALL_FILE_LEN)).collect::<Result<_>>()?,
            dir,
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// A path with the origin at its far end. All of it goes with this value.
#[derive(Debug)]
pub(crate) struct Scene {
    programs: Programs,
    origin: Server,
    near: Namespace,
    // Held so that they live as long as the path does.
    _far: Namespace,
    _relay: Server,
}

impl Scene {
    /// Sets up a path of `shape` between hosts that are tuned alike, and starts the origin of `files`.
    pub(crate) fn set_up(
        files: &Files,
        programs: &Programs,
        shape: LinkShape,
        tuning: Tuning,
        congestion_control: &str,
    ) -> Result<Self> {
        let (near, far) = (Namespace::make(tuning)?, Namespace::make(tuning)?);
        let names = ["near", "far"].map(|end| format!("fb{}{end}", std::process::id()));
        let relay = start_relay(&names, shape, &files.dir().join("relay.log"))?;
        let [near_name, far_name] = &names;
        near.adopt(near_name, NEAR, NETWORK, congestion_control)?;
        far.adopt(far_name, FAR, NETWORK, congestion_control)?;
        let run_dir = files.dir().join("origin-run");
        let origin =
            far.within(|| programs.start_plain(FAR.into(), &files.dir().join("origin"), Guard::None, &run_dir))?;
        Ok(Self { programs: programs.clone(), origin, near, _far: far, _relay: relay })
    }

    /// Does something at the near end of the path.
    pub(crate) fn near<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.near.within(work)
    }

    /// Where the origin is.
    pub(crate) fn origin(&self) -> SocketAddr {
        self.origin.address()
    }

    /// What the origin has used so far.
    pub(crate) fn origin_usage(&self) -> Result<Usage> {
        Usage::of(self.origin.pid())
    }

    /// Starts the cache of `way` with its files in `run_dir`; `None` when there is none. To be called at the near end.
    pub(crate) fn start_cache(&self, way: Way, run_dir: &Path) -> Result<Option<Server>> {
        match way {
            Way::Direct => Ok(None),
            Way::Forebay => self.programs.start_forebay(self.origin(), Guard::None, run_dir).map(Some),
            Way::Xcache(settings) => {
                self.programs.start_xcache(self.origin(), settings, Guard::None, run_dir).map(Some)
            }
        }
    }

    /// `xrdcp` from `url` to `target`.
    pub(crate) fn xrdcp(&self, url: &str, target: &Path) -> Program {
        self.programs.xrootd("xrdcp", &[Path::new("--nopbar"), Path::new("--force"), Path::new(url), target])
    }
}

/// Starts the process that moves the packets; the interfaces `names` are there when this returns.
fn start_relay(names: &[String; 2], shape: LinkShape, log: &Path) -> Result<Server> {
    let relay = std::env::current_exe()?;
    let mut args: Vec<_> =
        ["-c", TUN_SCRIPT].iter().chain(names.each_ref().map(|name| name.as_str()).iter()).map(Into::into).collect();
    args.extend([relay.into_os_string(), "relay".into()]);
    args.extend([
        format!("--delay-us={}", shape.delay.as_micros()).into(),
        format!("--bytes-per-second={}", shape.bytes_per_s).into(),
        format!("--queue={}", shape.queue_bytes_max).into(),
    ]);
    let program = Program { path: PathBuf::from("python3"), args, env: Vec::new(), refuses_root: false };
    // It has no address of its own; that of the near end stands for it.
    let address = SocketAddr::from((NEAR, 0));
    Server::start("relay", &program, log, |log| log.contains("ready").then_some(address))
}
