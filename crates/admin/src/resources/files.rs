//! Files of the cache.

use super::{Server, scan::Scan};
use crate::{
    call::Call,
    entry_name::EntryName,
    model::{
        BLOCK_RUNS_MAX, BlockRun, CachedFile, FILES_PER_PAGE_MAX, FileAccess, FileChecksum, FileDetail, FileList,
        FileRecord, PIN_SECONDS_MAX, Pin, PinRequest,
    },
    problem::{Problem, ProblemKind},
};
use forebay_cache::{CacheKey, Cinfo, PathPattern};
use forebay_engine::EntryInfo;
use forebay_types::BlockIndex;

/// Default number of files per page.
const FILES_PER_PAGE: usize = 100;

/// Most index pages read by one call, so that it ends in time: the answer may be a page without a match.
const INDEX_PAGES_MAX: usize = 50;

/// A page of files.
pub(crate) async fn list(server: &Server, call: &Call) -> Result<FileList, Problem> {
    let limit = call.parsed("limit")?.unwrap_or(FILES_PER_PAGE);
    if !(1..=FILES_PER_PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format_args!("parameter `limit`: must be from 1 to {FILES_PER_PAGE_MAX}")));
    }
    let after = call.text("after").map(|after| parse_key(after).map_err(Problem::invalid)).transpose()?;
    let mut scan = Scan::new(pattern_of(call)?, after);
    let mut files: Vec<CachedFile> = Vec::new();
    for _ in 0..INDEX_PAGES_MAX {
        let Some(page) = scan.next_page(server.engine()?).await? else { break };
        let room = limit - files.len();
        let is_full = page.len() > room;
        files.extend(page.into_iter().take(room).map(cached_file));
        if is_full || files.len() == limit {
            let next = if is_full { files.last().map(|file| file.name.clone()) } else { position(&scan) };
            return Ok(FileList { files, next });
        }
    }
    Ok(FileList { files, next: position(&scan) })
}

pub(crate) async fn get(server: &Server, call: &Call) -> Result<FileDetail, Problem> {
    let key = key_of(&call.variable)?;
    let entry = server.engine()?.entry(&key).await?.ok_or_else(|| not_cached(&key))?;
    let record = match server.engine()?.record(&key).await {
        // On a blocking thread: files may have millions of blocks.
        Some(cinfo) => tokio::task::spawn_blocking(move || file_record(&cinfo)).await.ok(),
        None => None,
    };
    Ok(FileDetail { file: cached_file(entry), record })
}

/// Pins a file, or changes how long it is pinned.
pub(crate) async fn pin(server: &Server, call: &Call) -> Result<Pin, Problem> {
    let key = key_of(&call.variable)?;
    let PinRequest { seconds } = call.body()?;
    if !(1..=PIN_SECONDS_MAX).contains(&seconds) {
        return Err(Problem::invalid(format_args!("`seconds` must be from 1 to {PIN_SECONDS_MAX}")));
    }
    let until = forebay_net::clock::now_unix().saturating_add(i64::from(seconds));
    if server.engine()?.pin(&key, until).await? {
        Ok(Pin { name: key.as_str().to_owned(), until })
    } else {
        Err(not_cached(&key))
    }
}

/// Ends the pin of a file, if it has one.
pub(crate) async fn unpin(server: &Server, call: &Call) -> Result<(), Problem> {
    let key = key_of(&call.variable)?;
    if server.engine()?.unpin(&key).await? { Ok(()) } else { Err(not_cached(&key)) }
}

/// The key of a file named in a call, with or without the first `/`.
pub(crate) fn key_of(name: &str) -> Result<CacheKey, Problem> {
    parse_key(name).map_err(|error| Problem::new(ProblemKind::NotCached, error))
}

fn parse_key(name: &str) -> Result<CacheKey, String> {
    let rooted = if name.starts_with('/') { name.to_owned() } else { format!("/{name}") };
    EntryName::parse(&rooted).map(|name| name.key)
}

pub(crate) fn pattern_of(call: &Call) -> Result<Option<PathPattern>, Problem> {
    let parse = |text| PathPattern::parse(text).map_err(Problem::invalid);
    call.text("pattern").map(parse).transpose()
}

pub(crate) fn not_cached(key: &CacheKey) -> Problem {
    Problem::new(ProblemKind::NotCached, format_args!("{key} is not in the cache"))
}

fn position(scan: &Scan) -> Option<String> {
    scan.position().map(|key| key.as_str().to_owned())
}

fn cached_file(EntryInfo { key, record, is_open }: EntryInfo) -> CachedFile {
    let origin = record.origin.as_ref();
    CachedFile {
        name: key.as_str().to_owned(),
        size: record.disk.file_size,
        present_bytes: record.disk.present_bytes,
        block_size: record.disk.block_size,
        is_complete: record.disk.is_complete(),
        is_open,
        created: record.disk.generation.created,
        last_use: record.disk.last_use,
        uses: record.disk.uses,
        validated: record.validated,
        pinned_until: record.pinned_until.filter(|&until| until > forebay_net::clock::now_unix()),
        volume: record.disk.volume,
        origin: origin.map(|origin| origin.origin.to_string()),
        origin_mtime: origin.and_then(|origin| origin.validator.mtime()),
        origin_checksum: origin
            .and_then(|origin| origin.validator.checksum())
            .map(|checksum| format!("{}:{}", checksum.algorithm, checksum.value)),
        owner: record.owner,
        checksums: record
            .checksums
            .into_iter()
            .map(|checksum| FileChecksum { algorithm: checksum.algorithm, value: checksum.value })
            .collect(),
    }
}

fn file_record(cinfo: &Cinfo) -> FileRecord {
    let (present, is_cut) = runs(cinfo);
    FileRecord {
        blocks_total: cinfo.geometry.block_count(),
        blocks_present: cinfo.blocks.count(),
        present,
        is_cut,
        checksum: cinfo.checksum.as_str().to_owned(),
        access_count: cinfo.access_count,
        accesses: cinfo
            .accesses
            .iter()
            .map(|access| FileAccess {
                attached: access.attached,
                detached: access.detached,
                opens: access.opens,
                hit_bytes: access.hit_bytes,
                missed_bytes: access.missed_bytes,
                bypassed_bytes: access.bypassed_bytes,
            })
            .collect(),
    }
}

/// The present blocks as runs, and whether the list is truncated.
fn runs(cinfo: &Cinfo) -> (Vec<BlockRun>, bool) {
    let mut runs: Vec<BlockRun> = Vec::new();
    for index in (0..cinfo.geometry.block_count()).filter(|&index| cinfo.blocks.contains(BlockIndex(index))) {
        if let Some(run) = runs.last_mut().filter(|run| run.first + run.count == index) {
            run.count += 1;
        } else if runs.len() == BLOCK_RUNS_MAX {
            return (runs, true);
        } else {
            runs.push(BlockRun { first: index, count: 1 });
        }
    }
    (runs, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{ChecksumState, Geometry};

    #[test]
    fn blocks_are_listed_as_runs_up_to_a_limit() {
        let with = |count: u64, present: &dyn Fn(u64) -> bool| {
            let mut cinfo = Cinfo::new(Geometry::new(4096, count * 4096).unwrap(), 0, ChecksumState::None);
            for index in (0..count).filter(|&index| present(index)) {
                cinfo.blocks.insert(BlockIndex(index));
            }
            runs(&cinfo)
        };
        let run = |first, count| BlockRun { first, count };
        assert_eq!(with(4, &|_| false), (vec![], false));
        assert_eq!(with(4, &|_| true), (vec![run(0, 4)], false));
        assert_eq!(with(6, &|index| index != 2 && index != 5), (vec![run(0, 2), run(3, 2)], false));
        assert!(!with(2000, &|index| index % 2 == 0).1);
        let (most, is_cut) = with(2002, &|index| index % 2 == 0);
        assert_eq!((most.len(), is_cut), (BLOCK_RUNS_MAX, true));
    }

    #[test]
    fn names_may_leave_out_the_first_slash() {
        assert_eq!(key_of("store/a").unwrap(), key_of("/store/a").unwrap());
        assert_eq!(key_of("root:/h:1/a").unwrap().as_str(), "/root:/h:1/a");
        assert_eq!(key_of("../a").unwrap_err().kind, ProblemKind::NotCached);
    }
}
