//! Which programs are measured, and where files go: options that all side-by-side measurements share.

use crate::compare::{absolute, servers::Programs};
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;

/// Which programs are measured, and where files go.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Place {
    /// Installation of XRootD to measure instead of the one in the search path.
    #[arg(long)]
    xrootd_prefix: Option<PathBuf>,
    /// The program `forebay`. [default: in the directory of this program]
    #[arg(long)]
    forebay: Option<PathBuf>,
    /// Where to put files and caches; others must be able to reach it, and it holds several times what is read.
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// Where to keep the run. [default: nowhere; `compare` keeps it in a new directory in bench/runs, unless it is quick]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

impl Place {
    /// The programs; Forebay's must be there when the measurement `needs_forebay`.
    pub(crate) fn programs(&self, needs_forebay: bool) -> Result<Programs> {
        Programs::find(self.xrootd_prefix.as_deref(), self.forebay.as_deref(), needs_forebay)
    }

    /// Where files and caches go.
    pub(crate) fn work_dir(&self) -> Result<PathBuf> {
        absolute(&self.work_dir.clone().unwrap_or_else(std::env::temp_dir))
    }
}
