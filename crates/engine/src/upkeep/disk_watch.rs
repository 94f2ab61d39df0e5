//! Looking after the disks: probes, what is known of them, and letting go of files whose disk is gone.

use crate::{
    entries::{file_context::FileContext, open_files::OpenFiles},
    upkeep::disk_work::offline_disks,
};
use forebay_cache::Health;
use forebay_store::{Disk, VolumeId, VolumeInfo};
use forebay_telemetry::{DiskGauges, DropReason};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

const TICK: Duration = Duration::from_secs(1);

/// Looks after the disks for ever.
pub(crate) async fn run(context: Arc<FileContext>, table: Arc<OpenFiles>) {
    let Some(disk) = context.disk.clone() else { return };
    let watched = Arc::downgrade(&context);
    context.metrics.watch_disks(move || {
        watched.upgrade().map_or_else(Vec::new, |context| {
            context.volumes.lock().iter().filter(|volume| !volume.is_elsewhere).map(gauges).collect()
        })
    });
    let mut watch = DiskWatch { context, table, disk, offline: BTreeSet::new(), measuring: None };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        watch.start_probes();
        watch.lose_files();
        watch.measure();
    }
}

fn gauges(volume: &VolumeInfo) -> DiskGauges {
    DiskGauges {
        path: volume.path.display().to_string(),
        states: Health::ALL.map(|health| (health.as_str(), health == volume.health)).to_vec(),
        total_bytes: volume.space.map(|space| space.total_bytes),
        free_bytes: volume.space.map(|space| space.free_bytes),
        failures: volume.errors,
        latency: volume.latency,
    }
}

struct DiskWatch {
    context: Arc<FileContext>,
    table: Arc<OpenFiles>,
    disk: Arc<dyn Disk>,
    /// The disks that were offline when last looked at.
    offline: BTreeSet<VolumeId>,
    measuring: Option<JoinHandle<()>>,
}

impl DiskWatch {
    fn start_probes(&self) {
        for volume in self.disk.due_probes() {
            // Not awaited: a probe of a dead disk may hang, and the others are probed in the meantime.
            let disk = Arc::clone(&self.disk);
            // It runs detached, for as long as the disk takes; its outcome shows in the disk's state.
            drop(self.context.options.workers.start(move || {
                if let Err(error) = disk.probe(volume) {
                    tracing::debug!(disk = volume.0, %error, "a probe of a disk failed");
                }
            }));
        }
    }

    /// Lets go of open files on disks that have gone offline: what they hold is read from the origin, and the next open finds
    /// them missing.
    fn lose_files(&mut self) {
        // Files of parts that another process has are dropped when a part is given up.
        let offline = offline_disks(&self.context);
        if offline.difference(&self.offline).next().is_some() {
            // A measurement may hang on the disk that is gone.
            self.measuring = None;
        }
        // A disk has come back, perhaps with other contents.
        if self.offline.difference(&offline).next().is_some() {
            self.context.forget_trust();
        }
        self.offline.difference(&offline).for_each(|volume| self.context.renew_places(*volume));
        self.offline.union(&offline).for_each(|volume| self.context.closed.forget_volume(*volume));
        if !offline.is_empty() {
            for file in self.table.files() {
                if file.volume().is_some_and(|volume| offline.contains(&volume)) {
                    file.retire(DropReason::DiskOffline);
                }
            }
        }
        self.note_offline(offline);
    }

    /// Has the ledger of purges know which disks are offline.
    fn note_offline(&mut self, offline: BTreeSet<VolumeId>) {
        if offline != self.offline {
            let mut ledger = self.context.purge_ledger.ledger.lock();
            ledger.set_offline(offline.iter().map(|volume| volume.0));
            // The writes that were noted there and not recorded are lost.
            offline.difference(&self.offline).for_each(|volume| ledger.forget_growth(volume.0));
        }
        self.offline = offline;
    }

    /// Has the disks measured, unless they are being measured.
    fn measure(&mut self) {
        // A measurement may hang with its disk: no second one is started after it.
        if self.measuring.as_ref().is_some_and(|measuring| !measuring.is_finished()) {
            return;
        }
        let context = Arc::clone(&self.context);
        let disk = Arc::clone(&self.disk);
        self.measuring = Some(self.context.options.workers.start(move || {
            // Measured first, locked afterwards: no reader of the list waits for a disk.
            let volumes = disk.volumes();
            *context.volumes.lock() = volumes;
        }));
    }
}
