//! Follows which files clients open here.

use crate::{
    datagram::Datagram,
    shared::{Announcement, Shared},
    verdict::Holding,
};
use forebay_telemetry::{CloseEvent, FileEvents, OpenEvent, OpenPurpose, PlacedOn, ReadEvents};
use forebay_types::Lfn;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

/// Events that wait. Further ones are dropped: a manager then hears later of a file, or asks.
const EVENTS_MAX: usize = 16_384;

/// Files whose opens are counted.
const COUNTED_MAX: usize = 65_536;

/// How often it is asked whether the data of closed files has arrived, how often for each, and for how many.
const LATE_INTERVAL: Duration = Duration::from_secs(1);
const LATE_LOOKS_MAX: u32 = 60;
const LATE_MAX: usize = 1024;

/// Something that happened to a file.
#[derive(Debug)]
pub(crate) enum FileEvent {
    Opened(Lfn),
    Closed(Lfn),
    /// It is not in the cache any more.
    Removed(Lfn),
}

/// Passes file events of the engine to the membership.
#[derive(Debug)]
pub struct Observer(mpsc::Sender<FileEvent>);

/// The events of an [`Observer`].
#[derive(Debug)]
pub struct Feed(mpsc::Receiver<FileEvent>);

/// A subscriber of file events, and what [`Cluster::start`](crate::Cluster::start) takes.
#[must_use]
pub fn observe() -> (Observer, Feed) {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    (Observer(sender), Feed(receiver))
}

impl Observer {
    fn pass(&self, event: FileEvent) {
        // Never waits: it is called in the middle of requests.
        let _full = self.0.try_send(event);
    }
}

impl FileEvents for Observer {
    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        if event.purpose == OpenPurpose::Read && event.origin.is_some() {
            self.pass(FileEvent::Opened(event.lfn.clone()));
        }
        None
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        if event.purpose == OpenPurpose::Read && event.origin.is_some() {
            self.pass(FileEvent::Closed(event.lfn.clone()));
        }
    }

    fn removed(&self, lfn: &Lfn) {
        self.pass(FileEvent::Removed(lfn.clone()));
    }
}

/// Files that are open, and whether another member was asked to serve them, too.
#[derive(Debug, Default)]
struct OpenFiles(HashMap<Lfn, (u32, bool)>);

impl OpenFiles {
    /// Counts an open; true if it is the one from which on another member serves the file, too.
    fn open(&mut self, lfn: Lfn, shared_from: u32) -> bool {
        if self.0.len() >= COUNTED_MAX && !self.0.contains_key(&lfn) {
            // Events were lost, or there are more than are counted: hot files are counted again.
            self.0.clear();
        }
        let (opens, is_shared) = self.0.entry(lfn).or_default();
        *opens = opens.saturating_add(1);
        let is_due = *opens >= shared_from.max(1) && !*is_shared;
        *is_shared |= is_due;
        is_due
    }

    /// Counts a close; true if it was the last one.
    fn close(&mut self, lfn: &Lfn) -> bool {
        let Some((opens, _)) = self.0.get_mut(lfn) else { return true };
        *opens = opens.saturating_sub(1);
        let is_last = *opens == 0;
        if is_last {
            self.0.remove(lfn);
        }
        is_last
    }
}

/// Files that were closed before their data was on the disk: writes do not delay clients.
#[derive(Debug, Default)]
struct LateFiles(HashMap<Lfn, u32>);

impl LateFiles {
    fn add(&mut self, lfn: Lfn) {
        if self.0.len() < LATE_MAX {
            self.0.entry(lfn).or_insert(0);
        }
    }

    /// Forgets the files that have arrived, and those that have been looked at too often.
    fn look(&mut self, has_arrived: impl Fn(&Lfn) -> bool) {
        self.0.retain(|lfn, looks| {
            *looks += 1;
            !has_arrived(lfn) && *looks < LATE_LOOKS_MAX
        });
    }
}

/// Counts opens, announces files, and shares those that many clients have open, until the observer is gone.
pub(crate) async fn follow(shared: Arc<Shared>, mut feed: Feed) {
    let (mut open, mut late) = (OpenFiles::default(), LateFiles::default());
    // A node without disks has no data of any file.
    let has_disks = !shared.engine.volumes().is_empty();
    let mut looks = interval(LATE_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            event = feed.0.recv() => event,
            _ = looks.tick(), if !late.0.is_empty() => {
                late.look(|lfn| announce(&shared, lfn) != Holding::Assigned);
                continue;
            }
        };
        match event {
            Some(FileEvent::Opened(lfn)) => {
                count(&shared, &lfn);
                let path = lfn.clone();
                if open.open(lfn, shared.options.shared_from_opens) {
                    share(&shared, path.as_str());
                }
            }
            Some(FileEvent::Closed(lfn)) => {
                if open.close(&lfn) && announce(&shared, &lfn) == Holding::Assigned && has_disks {
                    late.add(lfn);
                }
            }
            Some(FileEvent::Removed(lfn)) => retract(&shared, &lfn),
            None => return,
        }
    }
}

/// Announces a file that managers expect here, once there is data of it; returns what this node has of it.
fn announce(shared: &Shared, lfn: &Lfn) -> Holding {
    let holding = shared.holding(lfn);
    if holding == Holding::Data && shared.arrived(lfn.as_str()) {
        shared.announce(Announcement::Online(lfn.as_str().into()));
    }
    holding
}

/// A client that was sent here is served, whatever node the file is placed on.
fn count(shared: &Shared, lfn: &Lfn) {
    let view = shared.view.borrow().clone();
    if view.members().is_empty() {
        return;
    }
    let is_own = view.own_rank(lfn.as_str()) == Some(0);
    shared.metrics.add_cluster_open(if is_own { PlacedOn::ThisNode } else { PlacedOn::OtherNode });
}

/// Lets the best other member serve a file, too.
fn share(shared: &Shared, path: &str) {
    let view = shared.view.borrow().clone();
    let partner = view.ranked(path).into_iter().find_map(|member| member.address);
    if let (Some(partner), Some(socket)) = (partner, shared.socket()) {
        tracing::info!(path, %partner, "many clients have a file open: another member serves it, too");
        socket.send(&Datagram::Share { path }.encode(), partner);
    }
}

/// A removed file that this node would fetch again stays with it. Otherwise its best member takes it, unless a client has opened it here
/// since and there is a new copy.
fn retract(shared: &Shared, lfn: &Lfn) {
    if shared.holds_data(lfn) {
        return;
    }
    let view = shared.view.borrow().clone();
    if view.own_rank(lfn.as_str()) != Some(0) {
        shared.release(lfn.as_str());
        shared.announce(Announcement::Gone(lfn.as_str().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lfn(path: &str) -> Lfn {
        Lfn::parse(path).unwrap()
    }

    #[test]
    fn a_file_is_shared_once_while_it_is_open() {
        let mut files = OpenFiles::default();
        let due: Vec<bool> = (0..4).map(|_| files.open(lfn("/a"), 3)).collect();
        assert_eq!(due, [false, false, true, false]);
        assert!(!files.open(lfn("/b"), 3));
        let last: Vec<bool> = (0..4).map(|_| files.close(&lfn("/a"))).collect();
        assert_eq!(last, [false, false, false, true]);
        assert!(!files.open(lfn("/a"), 2) && files.open(lfn("/a"), 2));
    }

    #[test]
    fn the_number_of_counted_files_is_limited() {
        let mut files = OpenFiles::default();
        for number in 0..COUNTED_MAX {
            files.open(lfn(&format!("/{number}")), 50);
        }
        assert_eq!(files.0.len(), COUNTED_MAX);
        files.open(lfn("/another"), 50);
        assert_eq!(files.0.len(), 1);
    }

    #[test]
    fn files_without_data_are_looked_at_for_a_while() {
        let mut late = LateFiles::default();
        (0..2 * LATE_MAX).for_each(|number| late.add(lfn(&format!("/{number}"))));
        assert_eq!(late.0.len(), LATE_MAX);
        late.look(|file| *file != lfn("/7"));
        assert_eq!(late.0, [(lfn("/7"), 1)].into());
        (1..LATE_LOOKS_MAX).for_each(|_| late.look(|_| false));
        assert!(late.0.is_empty());
    }
}
