//! The target of a copy, and partial files of earlier attempts.

use super::{
    Source,
    digest::{Digests, for_each_piece},
};
use crate::failure::UsageError;
use anyhow::{Context, bail};
use forebay_types::ByteRange;
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Bytes at the end of a partial file that are compared with the origin's before the rest is fetched.
const TAIL_LEN: u64 = 1 << 20;

/// Suffix of the name of a partial file.
const PART_SUFFIX: &str = ".part";

/// Where a copy goes.
#[derive(Debug)]
pub(super) enum Target {
    Stdout,
    /// To a file, through a partial file.
    File {
        path: PathBuf,
        part: PathBuf,
        is_replaced: bool,
    },
}

/// A partial file, locked against other processes of this program.
pub(super) struct PartFile {
    path: PathBuf,
    file: File,
}

impl Target {
    /// Chooses the target from the argument and the name of the file.
    pub(super) fn choose(output: Option<&Path>, name: Option<&str>, is_replaced: bool) -> anyhow::Result<Self> {
        if output.is_some_and(|output| output == Path::new("-")) {
            return Ok(Self::Stdout);
        }
        let own_name = || name.ok_or_else(|| UsageError("the URL has no file name".to_owned()));
        let path = match output {
            None => PathBuf::from(own_name()?),
            Some(output) if output.is_dir() => output.join(own_name()?),
            Some(output) => output.to_owned(),
        };
        if path.is_dir() {
            bail!("{} is a directory", path.display());
        }
        // A device would be replaced by a file, for all programs.
        if path.symlink_metadata().is_ok() && !path.is_file() {
            bail!(
                "{} is not a regular file, nor a link to one; write to standard output with -o - and redirect that",
                path.display()
            );
        }
        if path.exists() && !is_replaced {
            bail!("{} exists; use --force to replace it, or -o to choose another name", path.display());
        }
        let mut part = path.clone().into_os_string();
        part.push(PART_SUFFIX);
        Ok(Self::File { path, part: part.into(), is_replaced })
    }
}

/// Renames a complete file to its final name.
pub(super) fn finish(part: &Path, path: &Path, is_replaced: bool) -> anyhow::Result<()> {
    let flags = if is_replaced { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let renamed = match renameat_with(CWD, part, CWD, path, flags) {
        // Not every file system supports renaming without replacement.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(part, path),
        other => other.map_err(Into::into),
    };
    renamed.with_context(|| format!("renaming {} to {}", part.display(), path.display()))
}

impl PartFile {
    /// Opens the partial file of an earlier attempt, or an empty one.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("opening {shown}"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            bail!("another process is writing to {shown}");
        }
        Ok(Self { path: path.to_owned(), file })
    }

    /// Whether the file can be completed to `source`: it was written after the last change there, and the ends agree.
    pub(super) async fn is_beginning_of(&self, source: &Source) -> anyhow::Result<bool> {
        let metadata = self.file.metadata().with_context(|| self.doing("examining"))?;
        if metadata.len() == 0 {
            return Ok(true);
        }
        if metadata.len() > source.size || source.mtime.is_none_or(|mtime| metadata.mtime() <= mtime) {
            return Ok(false);
        }
        let tail = ByteRange::between(metadata.len().saturating_sub(TAIL_LEN), metadata.len());
        let mut offset = tail.start();
        let mut chunks = source.file.read(tail);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            let mut ours = vec![0; chunk.bytes.len()];
            self.file.read_exact_at(&mut ours, offset).with_context(|| self.doing("reading"))?;
            if ours != chunk.bytes {
                return Ok(false);
            }
            offset += chunk.bytes.len() as u64;
        }
        Ok(offset == tail.end())
    }

    /// Length and checksums of the present bytes.
    pub(super) async fn digest(&self) -> anyhow::Result<(u64, Digests)> {
        let mut file = self.file.try_clone().with_context(|| self.doing("opening"))?;
        let digesting = tokio::task::spawn_blocking(move || {
            file.seek(SeekFrom::Start(0))?;
            let mut digests = Digests::default();
            let len = for_each_piece(file, |piece| digests.update(piece))?;
            std::io::Result::Ok((len, digests))
        });
        digesting.await?.with_context(|| self.doing("reading"))
    }

    /// The file, positioned at its end.
    pub(super) fn append(&self) -> anyhow::Result<File> {
        let mut file = self.file.try_clone().with_context(|| self.doing("opening"))?;
        file.seek(SeekFrom::End(0)).with_context(|| self.doing("opening"))?;
        Ok(file)
    }

    /// Truncates the file.
    pub(super) fn clear(&mut self) -> anyhow::Result<()> {
        self.file.set_len(0).with_context(|| self.doing("emptying"))
    }

    pub(super) fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| self.doing("removing"))
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_the_arguments() {
        let scratch = tempfile::tempdir().unwrap();
        let existing = scratch.path().join("a");
        fs::write(&existing, "").unwrap();
        assert!(matches!(Target::choose(Some(Path::new("-")), None, false).unwrap(), Target::Stdout));
        let Target::File { path, part, .. } = Target::choose(Some(scratch.path()), Some("b"), false).unwrap() else {
            panic!("not a file");
        };
        assert_eq!((path, part), (scratch.path().join("b"), scratch.path().join("b.part")));
        let error = Target::choose(Some(&existing), None, false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert!(Target::choose(Some(&existing), None, true).is_ok());
        assert!(Target::choose(None, None, false).is_err());
    }

    #[test]
    fn a_file_created_during_the_copy_is_not_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let (part, path) = (scratch.path().join("a.part"), scratch.path().join("a"));
        fs::write(&part, "new").unwrap();
        fs::write(&path, "old").unwrap();
        assert!(finish(&part, &path, false).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        finish(&part, &path, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn two_processes_do_not_write_one_file() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a.part");
        let first = PartFile::open(&path).unwrap();
        assert!(PartFile::open(&path).is_err());
        drop(first);
        assert!(PartFile::open(&path).is_ok());
    }
}
