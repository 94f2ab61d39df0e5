//! Taking parts and giving them up.

use super::{Office, OnePart, PartSet};
use crate::{
    FillerRecord, Part, Registry, StoreError, VolumeId,
    parts::{Step, clear_lower, enter},
    prepare::prepare_root,
};
use forebay_types::Endpoint;
use std::{collections::BTreeMap, time::Instant};

/// A part that this process holds by now, or does not hold any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PartChange {
    Gained(VolumeId),
    Lost(VolumeId),
}

impl PartSet {
    /// Begins to take part: others see this process as a filler that clients reach at `url`. Nothing is written before the first turn.
    pub fn begin(&self, url: &str) {
        self.office.lock().record = Some(FillerRecord::of_this_process(url.to_owned()));
    }

    /// Renews the record of this process, and takes and gives up parts; `now_ms` is the time of the Unix epoch, for people who
    /// read the record. Blocking.
    ///
    /// # Errors
    /// When the disk fails; the first error if several parts cannot be taken or freed. The parts that it concerns stay as they are until
    /// their leases end.
    pub fn turn(&self, now_ms: i64) -> (Vec<PartChange>, Result<(), StoreError>) {
        let mut office = self.office.lock();
        let mut changes = Vec::new();
        let began = (self.clock)();
        // After a lease has ended others may have taken any part: nothing is continued, and each part is taken again.
        if !self.tenure.lasts(began) {
            changes.extend(self.epochs().into_keys().map(|part| self.let_go(part)));
        }
        let turned = self.try_turn(&mut office, (now_ms, began), &mut changes);
        (changes, turned)
    }

    fn try_turn(
        &self,
        office: &mut Office,
        (now_ms, began): (i64, Instant),
        changes: &mut Vec<PartChange>,
    ) -> Result<(), StoreError> {
        let Office { registry, observer, record: Some(record) } = office else { return Ok(()) };
        observer.note(registry.read()?, began);
        // Before the renewal, which prolongs the right to all parts that are left.
        let lost = observer.plan(&record.instance, &self.epochs(), self.options.count, began);
        changes.extend(lost.iter().filter_map(|step| match step {
            Step::Lose(part) => Some(self.let_go(*part)),
            Step::Free(..) | Step::Take(..) => None,
        }));
        registry.renew(record, now_ms)?;
        self.tenure.renew(began);
        // With our own record: the first one is there by now.
        observer.note(registry.read()?, began);
        let mut turned = Ok(());
        for step in observer.plan(&record.instance, &self.epochs(), self.options.count, began) {
            // A part that fails is tried again in the next turn, and keeps no other one back.
            turned = keep_first(turned, self.do_step(step, registry, &record.instance, began, changes));
        }
        for id in observer.obsolete(began) {
            turned = keep_first(turned, registry.forget(&id));
        }
        let endpoint = |record: &FillerRecord| record.url.strip_prefix("root://")?.parse::<Endpoint>().ok();
        let others = (0..self.options.count).map(|part| {
            let owner = observer.owner_of(part, began).filter(|owner| owner.instance != record.instance);
            owner.and_then(endpoint)
        });
        *self.holders.write() = others.collect();
        turned
    }

    fn do_step(
        &self,
        step: Step,
        registry: &mut Registry,
        own: &str,
        began: Instant,
        changes: &mut Vec<PartChange>,
    ) -> Result<(), StoreError> {
        match step {
            Step::Lose(part) => changes.push(self.let_go(part)),
            // The rest in the next turn: the lease of the parts that are held must not end meanwhile.
            Step::Free(..) | Step::Take(..) if (self.clock)().saturating_duration_since(began) > self.interval() => {}
            Step::Free(part, epoch) => {
                changes.push(self.let_go(part));
                registry.take(part, epoch, None)?;
            }
            Step::Take(part, epoch) => {
                if registry.take(part, epoch, Some(own))? && self.take_up(registry, part, epoch)? {
                    changes.push(PartChange::Gained(VolumeId(part)));
                }
            }
        }
        Ok(())
    }

    /// Opens a part that was taken in `epoch`; false if another filler has it by now.
    fn take_up(&self, registry: &mut Registry, part: Part, epoch: u64) -> Result<bool, StoreError> {
        let Some(OnePart { lease, volume }) = self.parts.get(usize::from(part)) else { return Ok(false) };
        let root = &volume.spec.path;
        prepare_root(root, self.options.permissions)?;
        enter(root, epoch)?;
        // Only now: a filler with a higher epoch that is not seen here removes the directory that was made just now.
        let found = registry.read()?.owners.remove(&part);
        if found.is_none_or(|found| found.epoch != epoch) {
            return Ok(false);
        }
        clear_lower(root, epoch)?;
        lease.begin(epoch);
        let opened = volume.open();
        if opened.is_err() {
            lease.end();
        }
        opened.map(|()| true)
    }

    fn let_go(&self, part: Part) -> PartChange {
        if let Some(OnePart { lease, volume }) = self.parts.get(usize::from(part)) {
            lease.end();
            volume.close();
        }
        PartChange::Lost(VolumeId(part))
    }

    fn epochs(&self) -> BTreeMap<Part, u64> {
        let held = |part: &OnePart| Some((part.volume.id.0, part.lease.epoch()?));
        self.parts.iter().filter_map(held).collect()
    }

    /// Gives up all parts, so that others can take them at once. Blocking.
    ///
    /// # Errors
    /// When the disk fails: then others take the parts when the lease has ended.
    pub fn leave(&self) -> Result<(), StoreError> {
        let mut office = self.office.lock();
        let epochs = self.epochs();
        epochs.keys().for_each(|part| {
            self.let_go(*part);
        });
        self.tenure.end();
        // Without a record its parts count as free.
        match office.record.take() {
            Some(record) => office.registry.forget(&record.instance),
            None => Ok(()),
        }
    }
}

/// The first failure of several steps.
fn keep_first(before: Result<(), StoreError>, now: Result<(), StoreError>) -> Result<(), StoreError> {
    if before.is_err() { before } else { now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk as _, Holder, PartOptions, Permissions, directory_of};
    use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry, HealthLimits};
    use forebay_types::{BlockIndex, BlockSize, Lfn};
    use std::{cell::Cell, fs, path::Path, sync::LazyLock, time::Duration};

    const COUNT: u16 = 8;
    const LEASE: Duration = Duration::from_secs(30);

    #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    thread_local! {
        static ELAPSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    fn clock() -> Instant {
        *START + ELAPSED.get()
    }

    fn pass(time: Duration) {
        ELAPSED.set(ELAPSED.get() + time);
    }

    fn filler(root: &Path, url: &str) -> PartSet {
        let options = PartOptions { count: COUNT, lease: LEASE, permissions: Permissions::default() };
        let set = PartSet::open(root, options, HealthLimits::default(), clock).unwrap();
        set.begin(url);
        set
    }

    fn turn(set: &PartSet) -> Vec<PartChange> {
        let (changes, turned) = set.turn(1_000);
        turned.unwrap();
        changes
    }

    fn keys() -> Vec<CacheKey> {
        (0..64).map(|n| CacheKey::fixed(&Lfn::parse(&format!("/a/file-{n}")).unwrap()).unwrap()).collect()
    }

    fn cinfo() -> Cinfo {
        let geometry = Geometry::of_new_file(BlockSize::new(4096).unwrap(), 8192).unwrap();
        Cinfo::new(geometry, 1_000, ChecksumState::Net)
    }

    /// Two fillers that have shared the parts out.
    fn pair(root: &Path) -> (PartSet, PartSet) {
        let (one, other) = (filler(root, "root://one:1"), filler(root, "root://other:2"));
        assert_eq!(turn(&one).len(), usize::from(COUNT), "it is alone");
        turn(&other);
        assert!(turn(&one).iter().all(|change| matches!(change, PartChange::Lost(_))));
        assert!(turn(&other).iter().all(|change| matches!(change, PartChange::Gained(_))));
        turn(&one);
        turn(&other);
        (one, other)
    }

    #[test]
    fn each_entry_is_kept_by_one_filler_and_others_know_which() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = pair(root.path());
        let mut of_one = 0;
        for key in keys() {
            match (one.holder(&key), other.holder(&key)) {
                (Holder::This, Holder::Other(Some(endpoint))) => {
                    of_one += 1;
                    assert_eq!(endpoint.to_string(), "one:1");
                    one.create_entry(&key, cinfo(), None).unwrap();
                    assert!(other.create_entry(&key, cinfo(), None).is_err());
                    assert!(other.open_entry(&key).unwrap().is_none());
                }
                (Holder::Other(Some(endpoint)), Holder::This) => assert_eq!(endpoint.to_string(), "other:2"),
                holders => panic!("{key}: {holders:?}"),
            }
        }
        assert!((8..56).contains(&of_one), "{of_one} of 64");
    }

    #[test]
    fn parts_of_a_filler_that_leaves_are_taken_at_once() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = pair(root.path());
        one.leave().unwrap();
        turn(&other);
        assert!(keys().iter().all(|key| other.holder(key) == Holder::This));
    }

    #[test]
    fn a_part_that_cannot_be_opened_keeps_no_other_one_back() {
        let root = tempfile::tempdir().unwrap();
        let one = filler(root.path(), "root://one:1");
        fs::write(directory_of(root.path(), 0), "not a directory").unwrap();
        let (changes, turned) = one.turn(1_000);
        turned.unwrap_err();
        assert_eq!(changes, (1..COUNT).map(|part| PartChange::Gained(VolumeId(part))).collect::<Vec<_>>());
        fs::remove_file(directory_of(root.path(), 0)).unwrap();
        assert_eq!(turn(&one), [PartChange::Gained(VolumeId(0))]);
    }

    #[test]
    fn a_filler_that_was_stopped_publishes_nothing_after_the_takeover() {
        let root = tempfile::tempdir().unwrap();
        let (stopped, next) = pair(root.path());
        let key = keys().into_iter().find(|key| stopped.holder(key) == Holder::This).unwrap();
        let entry = stopped.create_entry(&key, cinfo(), None).unwrap();
        // Its disk itself, as an operation has it that has passed all checks before the process stopped.
        let late = stopped.volume_of(&key).unwrap().disk().unwrap();
        pass(LEASE / 2);
        turn(&next);
        assert_eq!(next.holder(&key), Holder::Other(None), "silent, and not dead yet");
        assert!(matches!(stopped.holder(&key), Holder::Other(_)), "it does not trust its lease any more");
        pass(LEASE / 2);
        turn(&next);
        assert_eq!(next.holder(&key), Holder::This);
        let taken = next.open_entry(&key).unwrap().unwrap();
        assert_eq!(taken.data.identity(), entry.data.identity(), "the entry is continued");
        let mut full = cinfo();
        full.blocks.insert(BlockIndex(0));
        full.blocks.insert(BlockIndex(1));
        late.write_cinfo(&key, entry.data.as_ref(), &full, None).unwrap_err();
        late.create_entry(&key, full.clone(), None).unwrap_err();
        let other = keys().into_iter().find(|other| *other != key && next.holder(other) == Holder::This).unwrap();
        late.create_entry_if_free(&other, full, None).unwrap_err();
        let kept = next.open_entry(&key).unwrap();
        assert!(kept.is_none_or(|kept| !kept.cinfo.blocks.contains(BlockIndex(0))), "no late record is believed");
        let changes = turn(&stopped);
        assert!(!changes.is_empty());
        assert!(changes.iter().all(|change| matches!(change, PartChange::Lost(_))), "{changes:?}");
    }

    #[test]
    fn a_store_that_cannot_be_written_costs_the_parts_when_the_lease_is_half_over() {
        let root = tempfile::tempdir().unwrap();
        let (one, _) = pair(root.path());
        let key = keys().into_iter().find(|key| one.holder(key) == Holder::This).unwrap();
        fs::rename(root.path().join(".parts"), root.path().join("away")).unwrap();
        pass(LEASE / 2 - Duration::from_secs(1));
        assert!(one.turn(1_000).1.is_err());
        assert_eq!(one.holder(&key), Holder::This);
        pass(Duration::from_secs(1));
        assert!(matches!(one.holder(&key), Holder::Other(_)));
        let (changes, _) = one.turn(1_000);
        assert!(changes.contains(&PartChange::Lost(VolumeId(crate::part_of(&key, COUNT)))));
    }
}
