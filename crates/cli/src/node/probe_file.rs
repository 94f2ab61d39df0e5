//! The probe file, with which clients prove that they see the store.

use forebay_config::{Config, Role};
use forebay_front::Probe;
use forebay_store::{Disk, ProbeFile};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Interval in which a manager looks for the file created by the filler.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The file of the server's own store, created if missing. Without it no client gets direct access.
pub(super) fn known(config: &Config, disk: Option<&dyn Disk>) -> Arc<OnceLock<Probe>> {
    let probe = Arc::default();
    let Some(disk) = disk.filter(|_| config.is_direct()) else { return probe };
    // The fillers of parts share the file.
    let divided = config.parts.count.and_then(|_| config.disks.first()).map(|disk| disk.path.clone());
    let Some(root) = divided.or_else(|| Some(disk.volumes().into_iter().next()?.path)) else { return probe };
    match ProbeFile::keep(&root) {
        Ok(file) => note(&probe, file),
        Err(error) => {
            tracing::warn!(store = %root.display(), %error, "no probe file: clients cannot prove that they see the store");
        }
    }
    probe
}

/// Waits for the file in the store of another server, until it exists or the server stops.
pub(super) fn look<S: Future<Output = ()>>(
    config: &Config,
    probe: Arc<OnceLock<Probe>>,
    stopped: S,
) -> impl Future<Output = ()> + use<S> {
    let is_elsewhere = config.server.role == Role::Manager;
    let root = config.disks.first().filter(|_| is_elsewhere).map(|disk| disk.path.clone());
    async move {
        let Some(root) = root else { return };
        tokio::select! {
            () = find(root, probe) => {}
            () = stopped => {}
        }
    }
}

async fn find(root: PathBuf, probe: Arc<OnceLock<Probe>>) {
    loop {
        let looked_in = root.clone();
        let found = tokio::task::spawn_blocking(move || ProbeFile::find(&looked_in)).await;
        if let Ok(Ok(Some(file))) = found {
            return note(&probe, file);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn note(probe: &OnceLock<Probe>, ProbeFile { path, token }: ProbeFile) {
    // It is set once: the file persists across restarts.
    let _ = probe.set(Probe { path, token });
}
