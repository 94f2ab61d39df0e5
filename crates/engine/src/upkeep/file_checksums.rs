//! Checksums of whole files: made when a file is complete, compared with those of its origin, told to who asks.

use crate::{
    Caller, Checksum, Delegation, Engine, OpenRequest,
    api::engine::WeakEngine,
    base::digest::ChecksumAlgorithm,
    namespace::routes::{OriginTarget, Target},
    upkeep::{entry_check::generation_on_disk, examination::Behind},
};
use forebay_cache::{CacheKey, RateLimiter};
use forebay_index::{Change, Generation};
use forebay_origin::OriginError;
use forebay_telemetry::{ChecksumComparison, DiskOperation, DropReason};
use forebay_types::Lfn;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::sync::mpsc;

/// Complete files that wait for their checksums, at most. What does not fit gets them with the next scrub, or when somebody
/// asks.
const WAITING_MAX: usize = 4096;

/// A file counts as so many bytes at least, so that a flood of small ones does not become one of questions to their origin.
const FILE_LEN_MIN: u64 = 1 << 20;

/// How long files that are complete right after a start wait for the index to be open.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(60);

/// Origins without a checksum of some kind that are remembered, and files whose origin disagrees with itself, at most.
const REMEMBERED_MAX: usize = 4096;

/// Files that are complete since a moment, and what is known of origins' checksums.
pub(crate) struct Completions {
    sender: mpsc::Sender<Completed>,
    receiver: Mutex<Option<mpsc::Receiver<Completed>>>,
    memory: Mutex<Memory>,
}

/// A file that is complete.
struct Completed {
    key: CacheKey,
    /// Which copy of it: by the time that its origin is asked there may be another.
    generation: Generation,
    /// Its checksums, when they were made while it was written.
    checksums: Option<Vec<Checksum>>,
}

#[derive(Default)]
struct Memory {
    /// Origins, by label, that have no checksum of this kind.
    without: BTreeSet<(String, ChecksumAlgorithm)>,
    /// What was computed of files that were dropped because their origin told another checksum.
    dropped: BTreeMap<CacheKey, String>,
}

impl Default for Completions {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Self { sender, receiver: Mutex::new(Some(receiver)), memory: Mutex::default() }
    }
}

impl Completions {
    /// A file is complete and on disk; its checksums, if they are known, are noted for the index. Never waits.
    pub(crate) fn add(&self, key: &CacheKey, generation: Generation, checksums: Option<Vec<Checksum>>) {
        // Full: the next scrub makes up for it.
        let _ = self.sender.try_send(Completed { key: key.clone(), generation, checksums });
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

/// Makes checksums of files that were completed, for ever.
pub(crate) async fn run(engine: WeakEngine) {
    let Some(strong) = engine.upgrade() else { return };
    let options = strong.shared().options.integrity.clone();
    let receiver = strong.shared().completions.receiver.lock().take();
    drop(strong);
    let Some(mut completed) = receiver else { return };
    let mut pace = RateLimiter::new(options.checksum_rate);
    while let Some(Completed { key, generation, checksums }) = completed.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        if let Some(checksums) = checksums {
            if engine.is_to_be_asked(&key, &checksums) {
                tokio::time::sleep(pace.wait_for(FILE_LEN_MIN, forebay_net::clock::monotonic())).await;
                engine.settle(&key, generation, &checksums).await;
            }
            continue;
        }
        if let Some(catalog) = &engine.shared().catalog {
            catalog.settled(INDEX_WAIT_MAX).await;
        }
        let wait = pace.wait_for(FILE_LEN_MIN, forebay_net::clock::monotonic());
        tokio::time::sleep(wait).await;
        let examined = engine.examine(&key, &options.checksums, Behind::Stays, Some(&mut pace)).await;
        if let Some(examined) = examined {
            engine.settle(&examined.key, examined.generation, &examined.findings.checksums).await;
        }
    }
}

impl Engine {
    /// Compares the checksums of a copy of a file with those of its origin; drops a copy that is not what the origin says.
    pub(crate) async fn settle(&self, key: &CacheKey, generation: Generation, checksums: &[Checksum]) {
        if !self.shared().options.integrity.compare {
            return;
        }
        let Some(target) = self.target_of(key) else { return };
        for ours in checksums {
            let Some(comparison) = self.compare(key, generation, &target, ours).await else { continue };
            self.metrics().add_checksum_comparison(comparison);
            match comparison {
                ChecksumComparison::Equal => return,
                ChecksumComparison::Different => return self.drop_wrong(key, generation).await,
                ChecksumComparison::Disputed => {}
            }
        }
    }

    /// Whether an origin is known of that may have one of these checksums, and that they are compared with.
    fn is_to_be_asked(&self, key: &CacheKey, checksums: &[Checksum]) -> bool {
        let Some(target) = self.target_of(key).filter(|_| self.shared().options.integrity.compare) else {
            return false;
        };
        let memory = self.shared().completions.memory();
        let may_have = |checksum: &Checksum| {
            let algorithm = ChecksumAlgorithm::parse(&checksum.algorithm);
            algorithm.is_ok_and(|algorithm| !memory.without.contains(&(target.origin.label().to_owned(), algorithm)))
        };
        checksums.iter().any(may_have)
    }

    /// A checksum of a complete file in the cache that may be served: the one that is known, else made now. `None` when the
    /// cache cannot tell.
    pub(crate) async fn cached_checksum(
        &self,
        (request, caller): (&OpenRequest, &Caller),
        target: &OriginTarget,
        algorithm: Option<&str>,
    ) -> Option<Checksum> {
        let key = target.key.as_ref()?;
        let wanted = match algorithm {
            Some(name) => ChecksumAlgorithm::parse(name).ok()?,
            None => *self.shared().options.integrity.checksums.first()?,
        };
        let record = self.shared().catalog.as_ref()?.record(key).await??;
        if !record.disk.is_complete() || !self.stat(request, caller).await.ok()?.cached {
            return None;
        }
        if let Some(value) = record.checksum(wanted.as_str()) {
            return Some(Checksum { algorithm: wanted.as_str().to_owned(), value: value.to_owned() });
        }
        let examined = self.examine(key, &[wanted], Behind::Stays, None).await?;
        examined.findings.checksums.into_iter().next()
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
        let completions = &self.shared().completions;
        let algorithm = ChecksumAlgorithm::parse(&ours.algorithm).ok()?;
        let at_origin = (target.origin.label().to_owned(), algorithm);
        if completions.memory().without.contains(&at_origin) {
            return None;
        }
        let theirs = match target.origin.checksum(&target.path, Some(algorithm.as_str())).await {
            Ok(theirs) => theirs,
            Err(error) => {
                tracing::debug!(%key, %error, "the origin tells no checksum to compare with");
                let mut memory = completions.memory();
                if is_without(&error) && memory.without.len() < REMEMBERED_MAX {
                    memory.without.insert(at_origin);
                }
                return None;
            }
        };
        if !theirs.algorithm.eq_ignore_ascii_case(algorithm.as_str()) {
            return None;
        }
        if same_value(&theirs.value, &ours.value) {
            completions.memory().dropped.remove(key);
            return Some(ChecksumComparison::Equal);
        }
        if !self.is_still(key, generation).await {
            return None;
        }
        let mut memory = completions.memory();
        let (expected, found) = (theirs.value.as_str(), ours.value.as_str());
        if memory.dropped.get(key).is_some_and(|before| before == &ours.to_string()) {
            tracing::error!(%key, %algorithm, expected, found, "fetched anew a file is the same again: the checksum that its origin tells is wrong, the file is kept");
            return Some(ChecksumComparison::Disputed);
        }
        tracing::error!(%key, %algorithm, expected, found, "a file is not what its origin says: it is dropped");
        if memory.dropped.len() < REMEMBERED_MAX {
            memory.dropped.insert(key.clone(), ours.to_string());
        }
        Some(ChecksumComparison::Different)
    }

    /// Whether the cache has this very copy of a file.
    async fn is_still(&self, key: &CacheKey, generation: Generation) -> bool {
        if let Some(file) = self.table().find(key) {
            return file.stored().is_some_and(|stored| stored.generation() == generation);
        }
        let Some(disk) = self.shared().disk.clone() else { return false };
        let key = key.clone();
        let found = self.shared().options.workers.run(move || generation_on_disk(disk.as_ref(), &key)).await;
        matches!(found, Ok(Ok(Some(found))) if found == generation)
    }

    /// Takes a copy of a file out of the cache that is not what its origin says.
    async fn drop_wrong(&self, key: &CacheKey, generation: Generation) {
        if let Some(file) = self.table().find(key) {
            if file.stored().is_some_and(|stored| stored.generation() == generation) {
                file.retire(DropReason::Mismatch);
            }
            return;
        }
        // Who opens it meanwhile waits, and fetches it anew. One that is being opened now is left to the next comparison.
        let leaving = self.table().reserve_for_removal([key.clone()]);
        if leaving.keys().is_empty() {
            return;
        }
        let (engine, key) = (self.clone(), key.clone());
        let removing = self.shared().options.workers.run(move || {
            let _leaving = leaving;
            let shared = engine.shared();
            let Some(disk) = &shared.disk else { return };
            let removed = match generation_on_disk(disk.as_ref(), &key) {
                Ok(found) if found == Some(generation) => disk.remove_entry(&key),
                Ok(_) => return,
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => {
                    shared.metrics.add_file_dropped(DropReason::Mismatch);
                    shared.catalog.iter().for_each(|catalog| catalog.note(&key, Change::removed()));
                }
                Err(error) => shared.note_store_failure(DiskOperation::Remove, None, &error),
            }
        });
        if removing.await.is_err() {
            tracing::error!("removing an entry broke off");
        }
    }

    /// The file of an origin that an entry is a copy of, if it still belongs to the name space.
    fn target_of(&self, key: &CacheKey) -> Option<OriginTarget> {
        let request = OpenRequest::of(Lfn::parse(key.as_str()).ok()?);
        match self.target(&request, &Delegation::Operator).ok()? {
            Target::Origin(target) => Some(target),
            Target::Local { .. } => None,
        }
    }
}

/// Whether an error says that the origin never tells such a checksum, whatever the file.
const fn is_without(error: &OriginError) -> bool {
    const ARG_INVALID: u32 = 3000;
    const UNSUPPORTED: u32 = 3013;
    matches!(error, OriginError::Refused { code: ARG_INVALID | UNSUPPORTED, .. } | OriginError::Protocol { .. })
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

    #[test]
    fn more_files_than_fit_are_left_to_the_scrub() {
        let completions = Completions::default();
        let key = CacheKey::from_text("/f").unwrap();
        for _ in 0..=WAITING_MAX {
            completions.add(&key, Generation { inode: 1, created: 1 }, None);
        }
        assert_eq!(completions.sender.capacity(), 0);
    }
}
