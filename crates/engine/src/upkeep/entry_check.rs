//! Examining an entry, whether anybody has it open or not, and acting on what is found.

use crate::{
    base::{digest::ChecksumAlgorithm, disk_queues::DiskQueue},
    catalog::entry_info::facts_of,
    entries::{
        block_sums::{READ_LEN, of_block},
        cached_file::CachedFile,
        claims::covering,
        file_context::FileContext,
        open_files::OpenFiles,
    },
    transfer::block_check,
    upkeep::examination::{Behind, Examination, Findings},
};
use forebay_cache::{BlockSums, CacheKey, Cinfo, DataFileId, RateLimiter, sum_chunk_of};
use forebay_index::{Facts, Generation};
use forebay_store::{DataFile, Disk, Entry, StoreError};
use forebay_telemetry::{BlockCheck, DiskOperation};
use forebay_types::BlockIndex;
use std::sync::Arc;

pub(crate) struct Examined {
    pub(crate) key: CacheKey,
    pub(crate) generation: Generation,
    pub(crate) findings: Findings,
}

/// An entry as it was when its examination began.
struct Opened {
    entry: Entry,
    generation: Generation,
    sums: BlockSums,
    queue: DiskQueue,
}

#[derive(Clone)]
pub(crate) struct EntryCheck {
    pub(crate) context: Arc<FileContext>,
    pub(crate) open_files: Arc<OpenFiles>,
}

impl EntryCheck {
    /// Reads through an entry, which also makes `algorithms` if the file is complete, and acts on what is found: damaged
    /// blocks are dropped, sums that were not known are kept. `None` when there is no such entry, or no index.
    pub(crate) async fn examine(
        &self,
        key: &CacheKey,
        algorithms: &[ChecksumAlgorithm],
        behind: Behind,
        pace: Option<&mut RateLimiter>,
    ) -> Option<Examined> {
        let context = &self.context;
        // Notes of blocks that are not committed yet have to be compared as well.
        context.catalog.as_ref()?.commit_of(key).await;
        let check = self.clone();
        let opening = key.clone();
        let Opened { entry, generation, sums, queue } =
            context.options.workers.run(move || check.open_for_examination(&opening)).await.ok()??;
        let examination = Examination::new(entry, sums, algorithms, behind);
        let findings = examination.run(&context.options.workers, &queue, pace).await?;
        let metrics = &context.metrics;
        metrics.add_block_checks(BlockCheck::Intact, findings.intact);
        let examined = Examined { key: key.clone(), generation, findings };
        self.learn(&examined);
        let bad = examined.findings.bad();
        // Most entries have no bad block: nothing is reserved or rewritten for them.
        if !bad.is_empty() {
            self.repair(key, generation, bad).await;
        }
        Some(examined)
    }

    /// Opens an entry and gets the sums of its blocks. Blocking.
    fn open_for_examination(&self, key: &CacheKey) -> Option<Opened> {
        let context = &self.context;
        let entry = context
            .disk
            .as_ref()?
            .open_entry(key)
            .inspect_err(|error| context.note_store_failure(DiskOperation::Open, None, error))
            .ok()??;
        let generation = generation_of(entry.data.as_ref(), &entry.cinfo);
        let last_chunk = sum_chunk_of(entry.cinfo.blocks.last().unwrap_or(BlockIndex(0)));
        let mut sums = BlockSums::default();
        for chunk in 0..=last_chunk {
            sums.load(chunk, context.catalog.as_ref()?.block_sums(key, generation, chunk)?);
        }
        let queue = context.disk_reads.queue_of(entry.data.file());
        Some(Opened { entry, generation, sums, queue })
    }

    /// Keeps sums that were not known, and checksums of the file. A file that is open is left to its own checks: it may know
    /// sums that are not in the index yet.
    fn learn(&self, examined: &Examined) {
        let Examined { key, generation, findings } = examined;
        let Some(catalog) = &self.context.catalog else { return };
        let is_open = self.open_files.find(key).is_some();
        let learned: &[(BlockIndex, u32)] = if is_open { &[] } else { &findings.learned };
        self.context.metrics.add_block_checks(BlockCheck::Learned, learned.len() as u64);
        let block_sums = learned.iter().map(|(index, sum)| (index.0, Some(*sum))).collect();
        let facts = Facts { block_sums, ..facts_of(&findings.checksums) };
        if facts != Facts::default() {
            catalog.note_learnt(key, *generation, facts);
        }
    }

    /// Takes damaged blocks out of an entry. They are looked at once more on the way, so that nothing is dropped that has
    /// been written again in the meantime.
    async fn repair(&self, key: &CacheKey, generation: Generation, bad: Vec<BlockIndex>) {
        if let Some(file) = self.open_files.find(key) {
            check_again(&file, generation, &bad).await;
            return;
        }
        // An open in the meantime waits, and finds it without its damaged blocks. A file that is being opened now has them checked.
        let leaving = self.open_files.reserve_for_removal([key.clone()]);
        // In use: its open, which has no file yet, has the blocks checked.
        if leaving.keys().is_empty() {
            return;
        }
        let check = self.clone();
        let key = key.clone();
        let repaired = self.context.options.workers.run(move || {
            let _leaving = leaving;
            check.repair_on_disk(&key, generation, &bad)
        });
        let repaired = repaired.await;
        if !matches!(repaired, Ok(Ok(()))) {
            tracing::error!(?repaired, "damaged blocks of an entry could not be dropped");
        }
    }

    /// Takes damaged blocks out of the record of an entry that is not open. Blocking.
    fn repair_on_disk(&self, key: &CacheKey, generation: Generation, bad: &[BlockIndex]) -> Result<(), StoreError> {
        let context = &self.context;
        let (Some(disk), Some(catalog)) = (&context.disk, &context.catalog) else { return Ok(()) };
        let Some(mut entry) = disk.open_entry(key)? else { return Ok(()) };
        // Another copy has taken its place: the findings are about the old one.
        if generation_of(entry.data.as_ref(), &entry.cinfo) != generation {
            return Ok(());
        }
        // A later open of the file has its blocks checked.
        let identity = entry.data.identity();
        let created = entry.cinfo.created;
        context.forget_trust_of(DataFileId { device: identity.device, inode: identity.inode, created });
        let mut buffer = vec![0; READ_LEN];
        let path = disk.local_path(key);
        for &index in bad.iter().filter(|index| entry.cinfo.blocks.contains(**index)).collect::<Vec<_>>() {
            let stored = catalog.block_sums(key, generation, sum_chunk_of(index)).unwrap_or_default();
            let mut sums = BlockSums::default();
            sums.load(sum_chunk_of(index), stored);
            let found = of_block(entry.data.as_ref(), entry.cinfo.geometry.range_of(index), &mut buffer);
            let verdict = block_check::judge(found, sums.get(index));
            // Written again since the examination: an intact block stays.
            if let Err(reason) = verdict {
                block_check::report(&context.metrics, &path, entry.cinfo.geometry, index, &reason);
                entry.cinfo.blocks.remove(index);
            }
        }
        disk.write_cinfo(key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref())?;
        context.note_entry(key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref(), entry.cinfo.last_access());
        Ok(())
    }
}

/// Has blocks of an open file checked as if they had just been found.
async fn check_again(file: &Arc<CachedFile>, generation: Generation, bad: &[BlockIndex]) {
    let Some(stored) = file.stored.as_ref().filter(|stored| stored.generation() == generation) else { return };
    let geometry = stored.map.geometry();
    for index in bad {
        // Distrusted before the check begins, which looks only at such blocks.
        stored.map.distrust(*index);
        let check = {
            let mut checks = file.claims.checks.lock();
            block_check::start(file, &mut checks, geometry.range_of(*index));
            covering(&checks, geometry.range_of(*index).start()).cloned()
        };
        if let Some(check) = check {
            check.ended().await;
        }
    }
}

/// Which copy of a file is on disk. Blocking.
pub(crate) fn generation_on_disk(disk: &dyn Disk, key: &CacheKey) -> Result<Option<Generation>, StoreError> {
    let entry = disk.open_entry(key)?;
    Ok(entry.map(|entry| generation_of(entry.data.as_ref(), &entry.cinfo)))
}

fn generation_of(data: &dyn DataFile, cinfo: &Cinfo) -> Generation {
    Generation { inode: data.identity().inode, created: cinfo.created }
}
