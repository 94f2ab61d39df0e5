//! Checksums of whole files: made when a file is complete, and compared with those of its origin.

use crate::{
    Checksum,
    base::digest::ChecksumAlgorithm,
    entries::file_context::CompletedFile,
    namespace::routes::OriginTarget,
    upkeep::{
        entry_check::{EntryCheck, generation_on_disk},
        examination::Behind,
    },
};
use forebay_cache::{CacheKey, RateLimiter};
use forebay_index::Generation;
use forebay_origin::{OriginError, RefusalKind};
use forebay_telemetry::{ChecksumComparison, DiskOperation, DropReason};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

/// A file counts as so many bytes at least, so that a flood of small ones does not become one of questions to their origin.
const FILE_LEN_MIN: u64 = 1 << 20;

/// How long files that are complete right after a start wait for the index to be open.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(60);

/// Origins without a checksum of some kind that are remembered, and files whose origin disagrees with itself, at most.
const REMEMBERED_MAX: usize = 4096;

/// Makes checksums of complete files and compares them with those of their origins.
pub(crate) struct FileChecksums {
    pub(crate) check: EntryCheck,
    target_of: TargetOf,
    memory: Mutex<Memory>,
}

/// The file of an origin that an entry is a copy of, if it still belongs to the name space.
pub(crate) type TargetOf = Box<dyn Fn(&CacheKey) -> Option<OriginTarget> + Send + Sync>;

#[derive(Default)]
struct Memory {
    /// Origins, by label, that have no checksum of this kind.
    without: BTreeSet<(String, ChecksumAlgorithm)>,
    /// Checksums computed of files that were dropped because their origin reported another one.
    dropped: BTreeMap<CacheKey, String>,
}

impl FileChecksums {
    pub(crate) fn new(check: EntryCheck, target_of: TargetOf) -> Self {
        Self { check, target_of, memory: Mutex::default() }
    }

    /// Makes checksums of files as they become complete, until the engine stops.
    pub(crate) async fn run(self: Arc<Self>, mut completed: mpsc::Receiver<CompletedFile>) {
        let context = &self.check.context;
        let options = &context.options.integrity;
        let mut pace = RateLimiter::new(options.checksum_rate);
        while let Some(CompletedFile { key, generation, checksums }) = completed.recv().await {
            if let Some(checksums) = checksums {
                if self.is_to_be_asked(&key, &checksums) {
                    // At the same rate as reads: each comparison is a request to the origin.
                    tokio::time::sleep(pace.wait_for(FILE_LEN_MIN, forebay_net::clock::monotonic())).await;
                    self.settle(&key, generation, &checksums).await;
                }
                continue;
            }
            if let Some(catalog) = &context.catalog {
                catalog.settled(INDEX_WAIT_MAX).await;
            }
            let wait = pace.wait_for(FILE_LEN_MIN, forebay_net::clock::monotonic());
            tokio::time::sleep(wait).await;
            let examined = self.check.examine(&key, &options.checksums, Behind::Stays, Some(&mut pace)).await;
            if let Some(examined) = examined {
                self.settle(&examined.key, examined.generation, &examined.findings.checksums).await;
            }
        }
    }

    /// Compares the checksums of a copy of a file with those of its origin; drops a copy that is not what the origin says.
    pub(crate) async fn settle(&self, key: &CacheKey, generation: Generation, checksums: &[Checksum]) {
        if !self.check.context.options.integrity.compare {
            return;
        }
        let Some(target) = (self.target_of)(key) else { return };
        for ours in checksums {
            let Some(comparison) = self.compare(key, generation, &target, ours).await else { continue };
            self.check.context.metrics.add_checksum_comparison(comparison);
            match comparison {
                // One algorithm that agrees is enough: each further one is a request.
                ChecksumComparison::Equal => return,
                ChecksumComparison::Different => return self.drop_wrong(key, generation).await,
                // The origin contradicts itself in this algorithm: another one may still decide.
                ChecksumComparison::Disputed => {}
            }
        }
    }

    /// Whether an origin is known of that may have one of these checksums, and that they are compared with.
    fn is_to_be_asked(&self, key: &CacheKey, checksums: &[Checksum]) -> bool {
        if !self.check.context.options.integrity.compare {
            return false;
        }
        let Some(target) = (self.target_of)(key) else { return false };
        let memory = self.memory.lock();
        let may_have = |checksum: &Checksum| {
            let algorithm = ChecksumAlgorithm::parse(&checksum.algorithm);
            algorithm.is_ok_and(|algorithm| !memory.without.contains(&(target.origin.label().to_owned(), algorithm)))
        };
        checksums.iter().any(may_have)
    }

    /// Asks the origin for a checksum and compares; `None` when it has none, or does not say now, or another copy has taken the
    /// place of the one that is compared.
    async fn compare(
        &self,
        key: &CacheKey,
        generation: Generation,
        target: &OriginTarget,
        ours: &Checksum,
    ) -> Option<ChecksumComparison> {
        let algorithm = ChecksumAlgorithm::parse(&ours.algorithm).ok()?;
        let at_origin = (target.origin.label().to_owned(), algorithm);
        if self.memory.lock().without.contains(&at_origin) {
            return None;
        }
        let mut theirs = self.ask(key, target, algorithm, &at_origin).await?;
        if !same_value(&theirs.value, &ours.value) {
            // An xrootd answers with a computation that is under way for the path (5.5.3), even if that began before the file
            // changed. A second question is answered by a new one.
            theirs = self.ask(key, target, algorithm, &at_origin).await?;
        }
        if same_value(&theirs.value, &ours.value) {
            self.memory.lock().dropped.remove(key);
            return Some(ChecksumComparison::Equal);
        }
        // The copy was replaced while the origin was asked: the answer may be about the new one.
        if !self.is_still(key, generation).await {
            return None;
        }
        let mut memory = self.memory.lock();
        let expected = theirs.value.as_str();
        let found = ours.value.as_str();
        // The second copy has the same checksum as the first: dropping it again would fetch the same bytes for ever.
        if memory.dropped.get(key).is_some_and(|before| before == &ours.to_string()) {
            tracing::error!(%key, %algorithm, expected, found, "a file fetched again is the same as before: the checksum that its origin reports is wrong, the file is kept");
            return Some(ChecksumComparison::Disputed);
        }
        tracing::error!(%key, %algorithm, expected, found, "a file is not what its origin says: it is dropped");
        if memory.dropped.len() < REMEMBERED_MAX {
            memory.dropped.insert(key.clone(), ours.to_string());
        }
        Some(ChecksumComparison::Different)
    }

    /// The origin's checksum of a file in `algorithm`; `None` if it has none, or does not answer now.
    async fn ask(
        &self,
        key: &CacheKey,
        target: &OriginTarget,
        algorithm: ChecksumAlgorithm,
        at_origin: &(String, ChecksumAlgorithm),
    ) -> Option<Checksum> {
        match target.origin.checksum(&target.path, Some(algorithm.as_str())).await {
            // The server may answer with another algorithm: then nothing can be compared.
            Ok(theirs) => theirs.algorithm.eq_ignore_ascii_case(algorithm.as_str()).then_some(theirs),
            Err(error) => {
                tracing::debug!(%key, %error, "the origin reports no checksum to compare with");
                let mut memory = self.memory.lock();
                if is_without(&error) && memory.without.len() < REMEMBERED_MAX {
                    memory.without.insert(at_origin.clone());
                }
                None
            }
        }
    }

    /// Whether the cache has this very copy of a file.
    async fn is_still(&self, key: &CacheKey, generation: Generation) -> bool {
        if let Some(file) = self.check.open_files.find(key) {
            return file.stored.as_ref().is_some_and(|stored| stored.generation() == generation);
        }
        let Some(disk) = self.check.context.disk.clone() else { return false };
        let key = key.clone();
        let found = self.check.context.options.workers.run(move || generation_on_disk(disk.as_ref(), &key)).await;
        matches!(found, Ok(Ok(Some(found))) if found == generation)
    }

    /// Takes a copy of a file out of the cache that is not what its origin says.
    async fn drop_wrong(&self, key: &CacheKey, generation: Generation) {
        if let Some(file) = self.check.open_files.find(key) {
            if file.stored.as_ref().is_some_and(|stored| stored.generation() == generation) {
                file.retire(DropReason::Mismatch);
            }
            return;
        }
        // An open in the meantime waits, and fetches it again. A file that is being opened now is left to the next comparison.
        let leaving = self.check.open_files.reserve_for_removal([key.clone()]);
        // In use: the next comparison or scrub finds it again.
        if leaving.keys().is_empty() {
            return;
        }
        let context = Arc::clone(&self.check.context);
        let key = key.clone();
        let removing = self.check.context.options.workers.run(move || {
            let _leaving = leaving;
            let Some(disk) = &context.disk else { return };
            let removed = match generation_on_disk(disk.as_ref(), &key) {
                Ok(found) if found == Some(generation) => disk.remove_entry(&key),
                Ok(_) => return,
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => {
                    context.metrics.add_file_dropped(DropReason::Mismatch);
                    context.catalog.iter().for_each(|catalog| catalog.note_removed(&key));
                }
                Err(error) => context.note_store_failure(DiskOperation::Remove, None, &error),
            }
        });
        if removing.await.is_err() {
            tracing::error!("removing an entry broke off");
        }
    }
}

/// Whether an error says that the origin never reports such a checksum, whatever the file.
const fn is_without(error: &OriginError) -> bool {
    let is_refused = matches!(error.refusal(), Some(RefusalKind::InvalidArgument | RefusalKind::Unsupported));
    is_refused || matches!(error, OriginError::Protocol { .. })
}

/// Whether two values are the same number: some servers leave leading zeros out.
fn same_value(theirs: &str, ours: &str) -> bool {
    let digits = |value: &str| value.trim_start_matches('0').to_ascii_lowercase();
    digits(theirs) == digits(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers() {
        assert!(same_value("91E01de", "091e01de"));
        assert!(same_value("0", "00000000"));
        assert!(!same_value("91e01d", "091e01de"));
    }
}
