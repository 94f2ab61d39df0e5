//! The set-up of a measurement: the files, a path, the origin at its far end and the caches at its near end.

use super::row::Way;
use crate::compare::secured::Guard;
use crate::compare::servers::{EXPORT, Programs};
use crate::compare::usage::Usage;
use crate::file::make_file;
use crate::load::LoadFile;
use crate::process::{Program, Server, make_server_dir};
use anyhow::{Context as _, Result};
use forebay_bench::wan::{Lab, Plan};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// Names of the two hosts.
pub(super) const NEAR: &str = "near";
pub(super) const FAR: &str = "far";

/// Lengths of the small files.
const FILE_LEN: u64 = 1 << 20;
const SMALL_FILE_LEN: u64 = 4 << 10;

/// The files of a run, as requests name them.
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
    // Goes after those who use it.
    lab: Lab,
}

impl Scene {
    /// Sets up the path of `plan`, and starts the origin of `files` at its far end.
    pub(crate) fn set_up(files: &Files, programs: &Programs, plan: Plan) -> Result<Self> {
        let lab = Lab::set_up(plan)?;
        let [_, far] = Lab::addresses(0);
        let run_dir = files.dir().join("origin-run");
        let origin =
            lab.within(FAR, || programs.start_plain(far.into(), &files.dir().join("origin"), Guard::None, &run_dir))?;
        Ok(Self { programs: programs.clone(), origin, lab })
    }

    /// Does something at the near end of the path.
    pub(crate) fn near<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.lab.within(NEAR, work)
    }

    /// Where the origin is.
    pub(crate) fn origin(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Resources that the origin has used since its start.
    pub(crate) fn origin_usage(&self) -> Result<Usage> {
        Usage::of(self.origin.pid())
    }

    /// Starts the cache of `way` with its files in `run_dir`; `None` when there is none. To be called at the near end.
    pub(crate) fn start_cache(&self, way: Way, run_dir: &Path) -> Result<Option<Server>> {
        match way {
            Way::Direct => Ok(None),
            Way::Forebay => self.programs.start_forebay(self.origin(), None, Guard::None, run_dir).map(Some),
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
