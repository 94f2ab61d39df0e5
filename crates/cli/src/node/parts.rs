//! A store that several fillers share, and the files that each of them has for itself.

use super::unusable::unusable;
use anyhow::{Context as _, anyhow};
use forebay_cache::HealthLimits;
use forebay_config::{Config, DiskConfig, Role, Settings};
use forebay_store::{PartOptions, PartSet, Registry, StoreError};
use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf, sync::Arc};

/// Directory of a filler's own files, below the root of a store with parts. Without parts they are in `.forebay`.
const OWN_IN_PARTS: &str = ".parts/own";

const OWN_IN_STORE: &str = ".forebay";

/// Files of this process in the store, if it writes there.
pub(super) struct OwnFiles {
    pub(super) index: Option<PathBuf>,
    pub(super) history: Option<PathBuf>,
}

impl OwnFiles {
    /// Those of the server that clients reach at `url`.
    pub(super) fn of(config: &Config, parts: Option<&PartSet>, url: Option<&str>) -> anyhow::Result<Self> {
        let index = config.index.path.clone();
        // A manager writes nothing to the store.
        let disk = config.disks.first().filter(|_| config.server.role != Role::Manager);
        let Some(disk) = disk else { return Ok(Self { index, history: None }) };
        let own = match (parts, url.and_then(|url| url.strip_prefix("root://"))) {
            (Some(parts), Some(address)) => {
                let own = parts.root().join(OWN_IN_PARTS).join(address);
                let created = DirBuilder::new().recursive(true).mode(0o700).create(&own);
                created.with_context(|| format!("creating {}", own.display()))?;
                own
            }
            _ => disk.path.join(OWN_IN_STORE),
        };
        Ok(Self { index: index.or_else(|| Some(own.join("index"))), history: Some(own.join("history")) })
    }
}

/// Opens the store for this filler, if it is divided into parts.
pub(super) fn open(settings: &Settings) -> anyhow::Result<Option<Arc<PartSet>>> {
    let Config { disks, parts, permissions, .. } = &settings.config;
    let (Some(count), Some(disk)) = (parts.count, disks.first()) else { return Ok(None) };
    // Its own directory in the root is for the probe file, which the fillers share.
    let checked = forebay_store::check(&disk.path);
    checked.map_err(|error| unusable(settings, &disk.setting, format_args!("{:#}", anyhow!(error)), true))?;
    let options = PartOptions { count, lease: parts.lease, permissions: *permissions };
    let opened = PartSet::open(&disk.path, options, HealthLimits::default(), forebay_net::clock::monotonic);
    let opened = opened.map_err(|error| {
        let is_passing = error.is_retryable();
        unusable(settings, &disk.setting, format_args!("{:#}", anyhow!(error)), is_passing)
    })?;
    Ok(Some(Arc::new(opened)))
}

/// Refuses a store that other fillers share to a server that would fill all of it.
pub(super) fn refuse_divided(settings: &Settings, disk: &DiskConfig) -> anyhow::Result<()> {
    match Registry::count_in(&disk.path) {
        Ok(None) => Ok(()),
        Ok(Some(parts)) => {
            let error = StoreError::Divided { path: disk.path.clone(), parts };
            Err(unusable(settings, &disk.setting, error, false))
        }
        Err(error) => Err(unusable(settings, &disk.setting, format_args!("{:#}", anyhow!(error)), true)),
    }
}
