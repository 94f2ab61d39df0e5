//! Operations that take long.

use super::*;
use crate::{Scan, ScanSlice, disk_set::watched_file::WatchedScan};
use std::{cell::Cell, sync::LazyLock};
use tempfile::TempDir;

#[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static ELAPSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn clock() -> Instant {
    *START + ELAPSED.get()
}

fn pass(seconds: u64) {
    ELAPSED.set(ELAPSED.get() + Duration::from_secs(seconds));
}

fn volume() -> (TempDir, Arc<Volume>) {
    let root = tempfile::tempdir().unwrap();
    let spec = VolumeSpec::local(root.path().join("root"), 1, Permissions::default());
    let volume = Volume::new(VolumeId(0), spec, HealthLimits::default(), clock);
    volume.open().unwrap();
    (root, Arc::new(volume))
}

#[test]
fn operations_that_may_sync_a_directory_have_the_time_of_syncs() {
    let (_root, volume) = volume();
    let sync = |seconds| {
        let synced = volume.run_syncing(|_| {
            pass(seconds);
            volume.begin_probe();
            Ok(())
        });
        synced.unwrap();
        volume.health()
    };
    assert_eq!(sync(119), Health::Healthy, "neither hung nor slow");
    assert_eq!(sync(120), Health::Offline);
}

#[test]
fn an_operation_that_never_ends_takes_its_disk_offline_once() {
    let (_root, volume) = volume();
    let ended = volume.run(|_| {
        pass(20);
        assert!(!volume.begin_probe());
        assert_eq!(volume.health(), Health::Offline);
        pass(5);
        assert!(volume.begin_probe());
        volume.probe()?;
        assert!(!volume.begin_probe());
        assert_eq!(volume.health(), Health::Healthy, "the disk has worked since");
        Ok(())
    });
    ended.unwrap();
}

/// Runs `count` operations within each other, which hang, and `then` while they do.
fn hang(volume: &Volume, count: usize, then: &mut dyn FnMut()) {
    if count == 0 {
        pass(20);
        volume.begin_probe();
        return then();
    }
    let ended = volume.run(|_| {
        hang(volume, count - 1, then);
        Ok(())
    });
    ended.unwrap();
}

#[test]
fn a_disk_with_many_operations_that_never_end_stays_offline_until_most_have_ended() {
    let (_root, volume) = volume();
    for (count, state) in [(HUNG_MAX, Health::Healthy), (HUNG_MAX + 1, Health::Offline)] {
        hang(&volume, count, &mut || {
            pass(600);
            assert!(volume.begin_probe());
            volume.probe().unwrap();
            assert_eq!(volume.health(), state, "{count}");
        });
        pass(600);
        assert!(volume.begin_probe() || volume.health().is_online());
        volume.probe().unwrap();
        assert_eq!(volume.health(), Health::Healthy);
    }
    assert_eq!(volume.hangs(), 2 * HUNG_MAX as u64 + 1);
}

/// A walk that examines a name in two seconds.
struct SlowScan(Arc<Volume>);

impl Scan for SlowScan {
    fn next_slice(&mut self, limit: usize) -> Result<ScanSlice, StoreError> {
        pass(2 * u64::try_from(limit).unwrap());
        self.0.begin_probe();
        Ok(ScanSlice { orphans: u64::try_from(limit).unwrap(), ..ScanSlice::default() })
    }
}

#[test]
fn a_walk_over_a_slow_disk_does_not_count_as_an_operation_that_hangs() {
    let (_root, volume) = volume();
    let scan = Box::new(SlowScan(Arc::clone(&volume)));
    let mut walk = WatchedScan { volume: Arc::clone(&volume), scan };
    assert_eq!(walk.next_slice(100).unwrap().orphans, 100);
    assert!(volume.health().is_online());
}
