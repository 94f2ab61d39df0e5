//! The accesses before the start of the server, from the records that it has written.

use forebay_sizing::{Accesses, Import, LINE_LEN_MAX, Problem};
use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

/// Bytes of records that are read at most, of the newest files: about a million accesses.
const BYTES_MAX: u64 = 1 << 30;

/// Prefix and suffix of the names of files of records; the order of names is that of time.
const NAME: (&str, &str) = ("records-", ".jsonl");

/// Reads the records in `directory`, in the order of time. Lines that are not records are left out: the last one may be incomplete. Blocks.
///
/// # Errors
/// If the directory or a file of it cannot be read.
pub(crate) fn read_records(directory: &Path) -> io::Result<Accesses> {
    let mut import = Import::default();
    for path in newest(directory)? {
        import.begin();
        let mut reader = BufReader::with_capacity(1 << 16, File::open(&path)?);
        let mut line = Vec::new();
        while reader.by_ref().take(LINE_LEN_MAX as u64).read_until(b'\n', &mut line)? > 0 {
            if let Err(Problem::Full(_)) = import.line(&line) {
                break;
            }
            line.clear();
        }
    }
    Ok(import.finish())
}

/// The newest files that fit the limit, the oldest of them first.
fn newest(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1)) {
            files.push((entry.path(), entry.metadata()?.len()));
        }
    }
    files.sort();
    let mut total = 0_u64;
    let fitting = files.into_iter().rev().take_while(|(_, len)| {
        total = total.saturating_add(*len);
        total <= BYTES_MAX
    });
    let mut paths: Vec<PathBuf> = fitting.map(|(path, _)| path).collect();
    paths.reverse();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_files_are_read_and_others_left_out() {
        let root = tempfile::tempdir().unwrap();
        let line = |path: &str, at: i64| {
            format!(r#"{{"event":"close","file_lfn":"{path}","file_size":10,"read_bytes":5,"end_time":{at}}}"#)
        };
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let at = 1_795_000_000_000;
        write("records-20261102T000000Z-000001.jsonl", &format!("{}\n{{\"event\":\"clo", line("/b", at + 2000)));
        write("records-20261101T000000Z-000001.jsonl", &format!("{}\n{}\n", line("/a", at), line("/b", at + 1000)));
        write("other.jsonl", &line("/c", at));
        let accesses = read_records(root.path()).unwrap();
        let found: Vec<_> =
            accesses.list().iter().map(|access| (access.file, access.at_ms - at, access.read)).collect();
        assert_eq!(found, [(0, 0, 5), (1, 1000, 5), (1, 2000, 5)]);
        assert!(read_records(&root.path().join("missing")).is_err());
    }
}
