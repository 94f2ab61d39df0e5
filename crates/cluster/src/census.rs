//! Counts, again and again, the bytes of this node by the member that placement selects for their file, and those that are duplicates.
//!
//! Of a file that is on several members each one after the first in their order of placement counts its copy as a duplicate, so the sum over all
//! members has each surplus copy once. A copy can be a duplicate only if placement selects another member for it: the others are not asked for.

use crate::{shared::Shared, standing::Census, view::View};
use forebay_cache::{CacheKey, placement_hash};
use forebay_types::Lfn;
use std::{collections::BinaryHeap, sync::Arc, time::Duration};
use tokio::time::sleep;

/// Entries read from the index at a time, and the pause after them: ten million take some minutes, and a few percent of a core.
const PAGE_LEN: usize = 1000;
const PAGE_PAUSE: Duration = Duration::from_millis(20);

/// Files that are ranked without a pause for other tasks: with 64 members some hundred microseconds.
const FILES_AT_ONCE: usize = 100;

/// Files that other members are asked for. If there are more, the part of duplicates among these is that of all: one of 1 % is found within 0.3 %.
const SAMPLE_MAX: usize = 4096;

/// Longest wait for the answers of other members.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause for each question that was sent.
const QUESTION_PAUSE: Duration = Duration::from_millis(1);

/// Pause between two counts, by the time that one takes.
const PAUSE_BY_DURATION: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The sums over all entries, and a sample of the foreign ones.
#[derive(Debug, Default)]
struct Tally {
    held_bytes: u64,
    foreign_bytes: u64,
    /// The ones with the smallest numbers.
    sample: BinaryHeap<Foreign>,
}

/// A file that placement selects another member for.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Foreign {
    /// Depends on its name only, so that counts after each other are of the same files, and differ by what has changed.
    number: u64,
    bytes: u64,
    key: CacheKey,
}

/// The members' answers for a sample.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    asked_bytes: u64,
    duplicate_bytes: u64,
}

/// Counts until the task is ended.
pub(crate) async fn run(shared: Arc<Shared>) {
    let paths: Vec<Lfn> = shared.options.paths.iter().filter_map(|path| Lfn::parse(path).ok()).collect();
    // An error means that the node stops.
    let _ = shared.is_prepared.subscribe().wait_for(|&is_prepared| is_prepared).await;
    loop {
        let begin = forebay_net::clock::monotonic();
        if let Some(census) = take(&shared, &paths).await {
            let Census { held_bytes, foreign_bytes, duplicate_bytes } = census;
            tracing::debug!(held_bytes, foreign_bytes, duplicate_bytes, "counted the bytes of this node");
            shared.metrics.set_cluster_census(foreign_bytes, duplicate_bytes);
            shared.members.lock().set_census(census);
        }
        sleep(pause(forebay_net::clock::monotonic().saturating_duration_since(begin))).await;
    }
}

fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE_BY_DURATION).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// `None` if the index cannot be read.
async fn take(shared: &Shared, paths: &[Lfn]) -> Option<Census> {
    let owners = shared.members.lock().owners();
    let (mut tally, mut after) = (Tally::default(), None);
    loop {
        let page = shared.engine.committed_files(after.take(), PAGE_LEN).await?;
        let is_last = page.len() < PAGE_LEN;
        after = page.last().map(|(key, _)| key.clone());
        for files in page.chunks(FILES_AT_ONCE) {
            for (key, bytes) in files.iter().filter(|(key, _)| is_placed(key, paths)) {
                tally.add(key, *bytes, owners.own_rank(key.as_str()));
            }
            tokio::task::yield_now().await;
        }
        if is_last {
            break;
        }
        sleep(PAGE_PAUSE).await;
    }
    let answers = ask(shared, &owners, &tally.sample).await;
    Some(tally.census(answers))
}

/// Whether managers ask for the entry by its key: below the paths of the cluster, and not that of a Rucio file with several names.
fn is_placed(key: &CacheKey, paths: &[Lfn]) -> bool {
    let is_below_a_path = |lfn: Lfn| paths.iter().any(|path| lfn.is_within(path));
    Lfn::parse(key.as_str()).is_ok_and(is_below_a_path) && CacheKey::rucio_from_text(key.as_str()).is_none()
}

/// Asks the live members that come before this node for each file.
async fn ask(shared: &Shared, owners: &View, sample: &BinaryHeap<Foreign>) -> Answers {
    let mut answers = Answers::default();
    for Foreign { key, bytes, .. } in sample {
        let now = forebay_net::clock::monotonic();
        let before: Vec<_> = {
            let members = shared.members.lock();
            let ranked = owners.ranked(key.as_str()).into_iter().map_while(|member| member.address);
            ranked.filter(|&address| members.is_alive(address, now)).collect()
        };
        let has_data = match before.is_empty() {
            true => Some(false),
            false => shared.has_data_elsewhere(key.as_str(), &before, ANSWER_TIME_MAX).await,
        };
        answers.add(*bytes, has_data);
        sleep(QUESTION_PAUSE.saturating_mul(u32::try_from(before.len()).unwrap_or(u32::MAX))).await;
    }
    answers
}

impl Tally {
    /// Adds an entry; `rank` is the position of this node among the owners of its file.
    fn add(&mut self, key: &CacheKey, bytes: u64, rank: Option<usize>) {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        if rank == Some(0) {
            return;
        }
        self.foreign_bytes = self.foreign_bytes.saturating_add(bytes);
        let number = placement_hash(key.as_str().as_bytes());
        let is_sampled =
            self.sample.len() < SAMPLE_MAX || self.sample.peek().is_some_and(|largest| number < largest.number);
        if is_sampled {
            self.sample.push(Foreign { number, bytes, key: key.clone() });
        }
        if self.sample.len() > SAMPLE_MAX {
            self.sample.pop();
        }
    }

    /// The part of the foreign bytes that are duplicates is that of the answers.
    fn census(&self, answers: Answers) -> Census {
        let foreign = u128::from(self.foreign_bytes);
        let duplicate = foreign * u128::from(answers.duplicate_bytes) / u128::from(answers.asked_bytes.max(1));
        Census {
            held_bytes: self.held_bytes,
            foreign_bytes: self.foreign_bytes,
            duplicate_bytes: u64::try_from(duplicate).unwrap_or(u64::MAX),
        }
    }
}

impl Answers {
    /// A file without all answers is not a part of the sample.
    fn add(&mut self, bytes: u64, has_data: Option<bool>) {
        let Some(has_data) = has_data else { return };
        self.asked_bytes = self.asked_bytes.saturating_add(bytes);
        if has_data {
            self.duplicate_bytes = self.duplicate_bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> CacheKey {
        CacheKey::from_text(&format!("/store/f{number}")).unwrap()
    }

    #[test]
    fn own_files_are_held_and_others_are_foreign() {
        let mut tally = Tally::default();
        tally.add(&key(0), 100, Some(0));
        tally.add(&key(1), 10, Some(1));
        tally.add(&key(2), 20, Some(7));
        let mut answers = Answers::default();
        answers.add(10, Some(true));
        answers.add(20, Some(false));
        let census = Census { held_bytes: 130, foreign_bytes: 30, duplicate_bytes: 10 };
        assert_eq!(tally.census(answers), census);
        assert_eq!(tally.census(Answers::default()).duplicate_bytes, 0, "no member has answered");
    }

    #[test]
    fn many_files_are_estimated_from_a_sample_of_fixed_size() {
        let mut tally = Tally::default();
        let files = 10 * SAMPLE_MAX;
        for number in 0..files {
            tally.add(&key(number), 1000, Some(1));
        }
        assert_eq!(tally.sample.len(), SAMPLE_MAX);
        assert_eq!(tally.foreign_bytes, 1000 * files as u64);
        let mut answers = Answers::default();
        let numbers = tally.sample.iter().map(|file| file.key.as_str()[8..].parse::<usize>().unwrap());
        // Every hundredth file is a duplicate, and every tenth question is lost.
        for number in numbers {
            answers.add(1000, (number % 10 != 1).then_some(number % 100 == 0));
        }
        let part = tally.census(answers).duplicate_bytes as f64 / tally.foreign_bytes as f64;
        assert!((0.008..0.015).contains(&part), "{part}");
    }

    #[test]
    fn the_sample_is_that_of_the_smallest_numbers_in_any_order() {
        let numbers_of = |order: &mut dyn Iterator<Item = usize>| {
            let mut tally = Tally::default();
            order.for_each(|number| tally.add(&key(number), 1, None));
            let mut numbers: Vec<u64> = tally.sample.into_iter().map(|file| file.number).collect();
            numbers.sort_unstable();
            numbers
        };
        let files = 2 * SAMPLE_MAX;
        let mut all: Vec<u64> = (0..files).map(|number| placement_hash(key(number).as_str().as_bytes())).collect();
        all.sort_unstable();
        all.truncate(SAMPLE_MAX);
        assert_eq!(numbers_of(&mut (0..files)), all);
        assert_eq!(numbers_of(&mut (0..files).rev()), all);
    }

    #[test]
    fn only_files_that_managers_ask_for_count() {
        let paths = [Lfn::parse("/store").unwrap(), Lfn::parse("/root:").unwrap()];
        let is_placed = |text: &str| is_placed(&CacheKey::from_text(text).unwrap(), &paths);
        assert!(is_placed("/store/a") && is_placed("/root:/origin:1094/a"));
        assert!(!is_placed("/storeroom/a") && !is_placed("/local/a"));
    }

    #[test]
    fn counts_take_a_small_part_of_the_time() {
        assert_eq!(pause(Duration::from_millis(20)), PAUSE_MIN);
        assert_eq!(pause(Duration::from_secs(60)), Duration::from_secs(1200));
        assert_eq!(pause(Duration::from_secs(3600)), PAUSE_MAX);
    }
}
