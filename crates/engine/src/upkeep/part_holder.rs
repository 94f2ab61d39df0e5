//! Takes and gives up parts of a store that several fillers share.

use crate::{
    base::error::with_cause,
    entries::{file_context::FileContext, open_files::OpenFiles},
};
use forebay_store::{PartChange, PartSet, VolumeId};
use forebay_telemetry::DropReason;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::MissedTickBehavior};

/// Changes that wait for the index: the index may be busy for some turns, in which all parts change hands at most.
const CHANGES_MAX: usize = 4096;

/// How long a shutdown waits until the parts are given up.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);

/// Holds parts of a store until the engine stops.
pub(crate) struct PartHolder {
    pub(crate) parts: Arc<PartSet>,
    pub(crate) context: Arc<FileContext>,
    pub(crate) open_files: Arc<OpenFiles>,
}

impl PartHolder {
    pub(crate) async fn run(self) {
        let (changes, noted) = mpsc::channel(CHANGES_MAX);
        // Next to each other: the leases are renewed while the index is brought up to date.
        tokio::join!(self.take_turns(changes), self.follow(noted));
    }

    async fn take_turns(&self, changes: mpsc::Sender<PartChange>) {
        let mut ticks = tokio::time::interval(self.parts.interval());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            ticks.tick().await;
            let parts = Arc::clone(&self.parts);
            let now_ms = forebay_net::clock::now_unix().saturating_mul(1000);
            // Only a panic of our own ends it, and with it the leases.
            let Ok((changed, turned)) = self.context.options.workers.run(move || parts.turn(now_ms)).await else {
                return;
            };
            let lost = lost_of(&changed);
            if !changed.is_empty() {
                tracing::info!(
                    gained = changed.len() - lost.len(),
                    lost = lost.len(),
                    "parts of the store change hands"
                );
            }
            self.let_go(&lost);
            match turned {
                Ok(()) => is_failing = false,
                Err(error) if !is_failing => {
                    is_failing = true;
                    let reason = with_cause(&error);
                    tracing::warn!(reason, "the leases of the parts cannot be renewed: other fillers may take them");
                }
                Err(_) => {}
            }
            for change in changed {
                // The receiver lives as long as this.
                let _ = changes.send(change).await;
            }
        }
    }

    /// Lets go of files of parts that are not held any more: what they hold is read from the origin.
    fn let_go(&self, lost: &BTreeSet<VolumeId>) {
        if lost.is_empty() {
            return;
        }
        lost.iter().for_each(|volume| self.context.closed.forget_volume(*volume));
        for file in self.open_files.files() {
            if file.volume().is_some_and(|volume| lost.contains(&volume)) {
                file.retire(DropReason::DiskOffline);
            }
        }
    }

    async fn follow(&self, mut changes: mpsc::Receiver<PartChange>) {
        let Some(catalog) = &self.context.catalog else { return };
        let mut some = Vec::new();
        while changes.recv_many(&mut some, CHANGES_MAX).await > 0 {
            let lost = lost_of(&some);
            if !lost.is_empty() {
                catalog.forget_volumes(&lost).await;
            }
            for change in some.drain(..) {
                if let PartChange::Gained(volume) = change {
                    catalog.begin_volume(volume);
                }
            }
        }
    }

    /// Gives up all parts when the engine stops, and everything is synced.
    pub(crate) async fn leave(parts: Arc<PartSet>, context: &FileContext) {
        let left = context.options.workers.run(move || parts.leave());
        match tokio::time::timeout(LEAVE_TIME_MAX, left).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                tracing::warn!(reason = with_cause(&error), "other fillers take the parts when the lease has ended");
            }
            Ok(Err(_)) => tracing::error!("giving up the parts of the store was aborted"),
            Err(_) => tracing::warn!("the disk does not answer: other fillers take the parts when the lease has ended"),
        }
    }
}

fn lost_of(changes: &[PartChange]) -> BTreeSet<VolumeId> {
    let lost = |change: &PartChange| match *change {
        PartChange::Lost(volume) => Some(volume),
        PartChange::Gained(_) => None,
    };
    changes.iter().filter_map(lost).collect()
}
