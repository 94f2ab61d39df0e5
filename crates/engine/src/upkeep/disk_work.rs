//! Waiting for work on all disks, of which one may hang.

use crate::entries::file_context::FileContext;
use forebay_store::VolumeId;
use std::{collections::BTreeSet, pin::pin, time::Duration};

/// How often the states of the disks are looked at meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The result of work on the disks; `None` when one of them has gone offline meanwhile, because the work may wait for it without end.
/// Work that has a thread of its own continues there.
pub(super) async fn unless_a_disk_is_lost<T>(context: &FileContext, work: impl Future<Output = T>) -> Option<T> {
    let mut online = online_disks(context);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        let now = online_disks(context);
        if !online.is_subset(&now) {
            return None;
        }
        online = now;
    }
}

/// The disks that are online. Does not wait for any of them.
pub(super) fn online_disks(context: &FileContext) -> BTreeSet<VolumeId> {
    by_state(context).0
}

/// Those that are not, without parts that another process has.
pub(super) fn offline_disks(context: &FileContext) -> BTreeSet<VolumeId> {
    by_state(context).1
}

fn by_state(context: &FileContext) -> (BTreeSet<VolumeId>, BTreeSet<VolumeId>) {
    let Some(disk) = &context.disk else { return (BTreeSet::new(), BTreeSet::new()) };
    let volumes = context.volumes.lock();
    let here = volumes.iter().filter(|volume| !volume.is_elsewhere).map(|volume| volume.id);
    here.partition(|volume| disk.is_online(*volume))
}
