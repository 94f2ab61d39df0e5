//! Makes a store full of small files, to measure what their number costs.

use crate::content::Content;
use crate::load::LoadFile;
use anyhow::{Context as _, Result, anyhow};
use forebay_cache::{Access, CINFO_SUFFIX, ChecksumState, Cinfo, Geometry};
use forebay_types::BlockIndex;
use rustix::fs::{XattrFlags, fsetxattr};
use std::{fs, io::Write as _, path::Path, thread};

/// Files of one directory.
const FILES_PER_DIRECTORY: u64 = 1000;

/// Size of each file in bytes: one block, all of it there.
const FILE_LEN: u64 = 4096;

/// Block size in the records in bytes.
const BLOCK_LEN: u64 = 64 << 10;

/// Threads that write: creating a file waits for the file system more than it computes.
const THREADS: u64 = 4;

/// When the files were created and used, in seconds of the Unix epoch.
const CREATED: i64 = 1_750_000_000;

/// Makes `files` complete entries in XCache's layout below `root`: `/bench/DDDDDD/NNNNNNNNN.root`.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn make_store(root: &Path, files: u64) -> Result<()> {
    let directories = files.div_ceil(FILES_PER_DIRECTORY);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|writer| {
                scope.spawn(move || {
                    for directory in (writer..directories).step_by(usize::try_from(THREADS)?) {
                        let first = directory * FILES_PER_DIRECTORY;
                        make_directory(root, directory, first..(first + FILES_PER_DIRECTORY).min(files))?;
                    }
                    Ok(())
                })
            })
            .collect();
        let results = writers.into_iter().map(|writer| writer.join().map_err(|_| anyhow!("a writer panicked"))?);
        results.collect::<Result<()>>()
    })
}

/// The files of a store of `files` files.
pub(crate) fn files_of(files: u64) -> Vec<LoadFile> {
    (0..files).map(|file| LoadFile { path: path_of(file), len: FILE_LEN }).collect()
}

/// The path of file number `file`.
fn path_of(file: u64) -> String {
    format!("/bench/{:06}/{file:09}.root", file / FILES_PER_DIRECTORY)
}

fn make_directory(root: &Path, directory: u64, files: std::ops::Range<u64>) -> Result<()> {
    let path = root.join(format!("bench/{directory:06}"));
    fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    for file in files {
        let data = root.join(path_of(file).trim_start_matches('/'));
        make_entry(&data, file).with_context(|| format!("cannot make {}", data.display()))?;
    }
    Ok(())
}

fn make_entry(data: &Path, file: u64) -> Result<()> {
    let name = data.file_name().and_then(|name| name.to_str()).context("the file needs a name in UTF-8")?;
    let mut bytes = vec![0; usize::try_from(FILE_LEN)?];
    Content::of_path(name).fill(0, &mut bytes);
    fs::write(data, &bytes)?;

    let used = CREATED + i64::try_from(file % 1_000_000)?;
    let mut cinfo = Cinfo::new(Geometry::new(BLOCK_LEN, FILE_LEN)?, CREATED, ChecksumState::Net);
    cinfo.blocks.insert(BlockIndex(0));
    cinfo.access_count = 1;
    cinfo.accesses.push(Access { detached: Some(used + 1), opens: 1, missed_bytes: FILE_LEN, ..Access::begun(used) });
    let mut image = Vec::new();
    cinfo.encode(&mut image);
    let mut record = data.as_os_str().to_owned();
    record.push(CINFO_SUFFIX);
    let mut record = fs::File::create(record)?;
    record.write_all(&image)?;
    // XCache answers stat requests from it; a file system without attributes is as good for the rest.
    let _ = fsetxattr(&record, "user.pfc.fsize", &i64::try_from(FILE_LEN)?.to_ne_bytes(), XattrFlags::empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_there_with_a_record_that_tells_so() {
        let root = tempfile::tempdir().unwrap();
        make_store(root.path(), 1500).unwrap();
        for file in [0, 999, 1000, 1499] {
            let data = root.path().join(path_of(file).trim_start_matches('/'));
            assert_eq!(fs::metadata(&data).unwrap().len(), FILE_LEN);
            let record = fs::read(data.with_extension("root.cinfo")).unwrap();
            let cinfo = Cinfo::decode(&record).unwrap();
            assert!(cinfo.is_complete());
        }
        assert!(!root.path().join(path_of(1500).trim_start_matches('/')).exists());
    }
}
