//! Which fillers live, and which parts change hands, by what one process has seen over time.

use super::{Part, Snapshot};
use crate::FillerRecord;
use forebay_cache::{Candidate, placement_hash, placement_order};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Sightings of one process of the fillers of a store, by its own clock. Call [`Self::note`] with each snapshot.
#[derive(Debug)]
pub struct Observer {
    lease: Duration,
    latest: Snapshot,
    /// When the record of each filler last changed.
    changed: BTreeMap<String, Instant>,
}

/// An action of a filler for a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Another filler has taken it.
    Lose(Part),
    /// It is to be freed in this epoch, because another filler is to have it.
    Free(Part, u64),
    /// It is to be taken in this epoch.
    Take(Part, u64),
}

/// The share of the lease after which a record that does not change is not believed by those that send clients to its filler.
const SILENCE_SHARE: u32 = 3;

impl Observer {
    /// Fillers whose records do not change for `lease` are dead.
    pub fn new(lease: Duration) -> Self {
        Self { lease, latest: Snapshot::default(), changed: BTreeMap::new() }
    }

    /// Takes in a snapshot, begun at `now`.
    pub fn note(&mut self, snapshot: Snapshot, now: Instant) {
        let latest = std::mem::replace(&mut self.latest, snapshot);
        self.changed.retain(|id, _| self.latest.fillers.contains_key(id));
        for (id, record) in &self.latest.fillers {
            if latest.fillers.get(id) != Some(record) {
                self.changed.insert(id.clone(), now);
            }
        }
    }

    /// The filler that owns a part, if it seems to live.
    pub fn owner_of(&self, part: Part, now: Instant) -> Option<&FillerRecord> {
        let owner = self.latest.owners.get(&part)?.owner.as_deref()?;
        let is_silent = self.silence(owner, now).is_none_or(|silence| silence >= self.lease / SILENCE_SHARE);
        if is_silent { None } else { self.latest.fillers.get(owner)?.as_ref() }
    }

    /// The fillers that live, by their ids.
    pub fn live(&self, now: Instant) -> impl Iterator<Item = (&str, &FillerRecord)> {
        let live = self.latest.fillers.iter().filter(move |(id, _)| self.is_live(id, now));
        live.filter_map(|(id, record)| Some((id.as_str(), record.as_ref()?)))
    }

    /// Records of fillers that are dead and own nothing.
    pub(crate) fn obsolete(&self, now: Instant) -> Vec<String> {
        let owns = |id: &str| self.latest.owners.values().any(|ownership| ownership.owner.as_deref() == Some(id));
        let dead = self.latest.fillers.keys().filter(|id| !self.is_live(id, now) && !owns(id));
        dead.cloned().collect()
    }

    /// The actions of the filler `own`, which holds the parts of `held` in these epochs, for `count` parts.
    pub(crate) fn plan(&self, own: &str, held: &BTreeMap<Part, u64>, count: u16, now: Instant) -> Vec<Step> {
        let live: Vec<(&str, &FillerRecord)> = self.live(now).collect();
        // By address: a filler that is started again gets the parts that it had.
        let seed = |(_, record): &(&str, &FillerRecord)| placement_hash(record.url.as_bytes());
        let candidates: Vec<Candidate> =
            live.iter().map(|filler| Candidate { seed: seed(filler), weight: 1.0 }).collect();
        let winner = |part: Part| {
            let order = placement_order(placement_hash(&part.to_le_bytes()), &candidates);
            order.first().and_then(|&position| live.get(position)).map(|(id, _)| *id)
        };
        let ours = |part| (own, held.get(&part).copied(), winner(part) == Some(own));
        (0..count).flat_map(|part| self.steps(part, ours(part), now)).collect()
    }

    /// The steps for one part, which filler `own` holds in the epoch `held`, if at all, and is to have if `is_ours`.
    fn steps(&self, part: Part, (own, held, is_ours): (&str, Option<u64>, bool), now: Instant) -> Vec<Step> {
        let Some(found) = self.latest.owners.get(&part) else {
            let lost = held.map(|_| Step::Lose(part));
            return lost.into_iter().chain(is_ours.then_some(Step::Take(part, 1))).collect();
        };
        let next = found.epoch.saturating_add(1);
        if held == Some(found.epoch) {
            return if is_ours { Vec::new() } else { vec![Step::Free(part, next)] };
        }
        let lost = held.map(|_| Step::Lose(part));
        let is_free = match found.owner.as_deref() {
            // An earlier turn took it and could not open it, or has lost its lease.
            Some(owner) if owner == own => true,
            // Without a record it has left.
            Some(owner) => !self.is_live(owner, now),
            None => true,
        };
        lost.into_iter().chain((is_ours && is_free).then_some(Step::Take(part, next))).collect()
    }

    fn is_live(&self, id: &str, now: Instant) -> bool {
        self.silence(id, now).is_some_and(|silence| silence < self.lease)
    }

    fn silence(&self, id: &str, now: Instant) -> Option<Duration> {
        self.changed.get(id).map(|&changed| now.saturating_duration_since(changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Ownership;

    const LEASE: Duration = Duration::from_secs(30);
    const COUNT: u16 = 64;

    fn record(id: &str, renewed_ms: i64) -> Option<FillerRecord> {
        let url = format!("root://{id}:1094");
        Some(FillerRecord { instance: id.to_owned(), renewed_ms, ..FillerRecord::of_this_process(url) })
    }

    fn fillers(renewed: &[(&str, i64)]) -> BTreeMap<String, Option<FillerRecord>> {
        renewed.iter().map(|&(id, renewed_ms)| (id.to_owned(), record(id, renewed_ms))).collect()
    }

    fn owners(owner: Option<&str>, epoch: u64) -> BTreeMap<Part, Ownership> {
        let ownership = Ownership { epoch, owner: owner.map(str::to_owned) };
        (0..COUNT).map(|part| (part, ownership.clone())).collect()
    }

    fn parts(steps: &[Step]) -> Vec<Part> {
        let part = |step: &Step| match *step {
            Step::Lose(part) | Step::Free(part, _) | Step::Take(part, _) => part,
        };
        steps.iter().map(part).collect()
    }

    #[test]
    fn each_part_is_taken_by_one_of_the_fillers_that_live() {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let now = Instant::now();
        let mut observer = Observer::new(LEASE);
        observer.note(Snapshot { fillers: fillers(&[("a", 1), ("b", 1)]), owners: BTreeMap::new() }, now);
        let of = |own| parts(&observer.plan(own, &BTreeMap::new(), COUNT, now));
        let mut all = [of("a"), of("b")].concat();
        assert!(of("a").len() > 16 && of("b").len() > 16, "both have about half");
        all.sort_unstable();
        assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_a_silent_filler_are_taken_after_the_lease_and_those_of_one_that_left_at_once() {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let begin = Instant::now();
        let mut observer = Observer::new(LEASE);
        let owned = owners(Some("b"), 7);
        observer.note(Snapshot { fillers: fillers(&[("a", 1), ("b", 1)]), owners: owned.clone() }, begin);
        let late = begin + LEASE;
        observer.note(Snapshot { fillers: fillers(&[("a", 2), ("b", 1)]), owners: owned.clone() }, late);
        let before = late - Duration::from_millis(1);
        assert_eq!(observer.plan("a", &BTreeMap::new(), COUNT, before), []);
        assert!(observer.owner_of(3, begin + LEASE / 4).is_some());
        assert!(observer.owner_of(3, before).is_none(), "no client is sent to a filler that is silent");
        let all = (0..COUNT).map(|part| Step::Take(part, 8)).collect::<Vec<_>>();
        assert_eq!(observer.plan("a", &BTreeMap::new(), COUNT, late), all);
        observer.note(Snapshot { fillers: fillers(&[("a", 3)]), owners: owned }, begin);
        assert_eq!(observer.plan("a", &BTreeMap::new(), COUNT, begin), all);
    }

    #[test]
    fn a_filler_that_comes_gets_its_share_from_those_that_free_it() {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let now = Instant::now();
        let mut observer = Observer::new(LEASE);
        observer.note(Snapshot { fillers: fillers(&[("a", 1), ("b", 1)]), owners: owners(Some("a"), 1) }, now);
        let held = (0..COUNT).map(|part| (part, 1)).collect();
        let freed = observer.plan("a", &held, COUNT, now);
        assert!(freed.iter().all(|step| matches!(step, Step::Free(_, 2))));
        assert!((16..48).contains(&freed.len()), "{}", freed.len());
        assert_eq!(observer.plan("b", &BTreeMap::new(), COUNT, now), [], "not before they are free");
        observer.note(Snapshot { fillers: fillers(&[("a", 1), ("b", 1)]), owners: owners(None, 2) }, now);
        let taken = observer.plan("b", &BTreeMap::new(), COUNT, now);
        assert_eq!(parts(&taken), parts(&freed));
    }

    #[test]
    fn a_part_with_a_higher_epoch_is_lost() {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let now = Instant::now();
        let mut observer = Observer::new(LEASE);
        observer.note(Snapshot { fillers: fillers(&[("a", 1)]), owners: owners(Some("b"), 3) }, now);
        let steps = observer.plan("a", &BTreeMap::from([(5, 2)]), COUNT, now);
        assert_eq!(steps[5..7], [Step::Lose(5), Step::Take(5, 4)], "b has left: it is taken again at once");
        assert_eq!(observer.obsolete(now + LEASE), ["a"]);
    }
}
