//! The record of the process that fills a store: for managers, which send clients there, and for a second filler, which exits.
//!
//! The lock of a store keeps processes of one machine apart. Where several machines see one file system it may not reach, and the
//! record does: it is renewed for the life of its owner. It is a hint and never blocks access to files: if it cannot be written,
//! the owner continues.

use crate::StoreError;
use rustix::{
    rand::{GetRandomFlags, getrandom},
    system::uname,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The process that fills a store.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FillerRecord {
    /// Where clients reach it: `root://HOST:PORT`.
    pub url: String,
    pub node: String,
    pub pid: u32,
    pub boot_id: String,
    pub instance: String,
    /// When it was written last, in milliseconds of the Unix epoch.
    pub renewed_ms: i64,
}

/// Age in milliseconds from which on a record says nothing: its owner is gone, or was held up for so long that it must look again.
pub const FILLER_RECORD_AGE_MAX_MS: i64 = 30_000;

/// Where the record is, below the root of a store.
const RECORD: &str = ".forebay/filler";

/// Longest record in bytes; something longer is none.
const RECORD_LEN_MAX: u64 = 4096;

/// Where the kernel gives the id of this boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl FillerRecord {
    /// The record of this process, which clients reach at `url`.
    pub fn of_this_process(url: String) -> Self {
        let mut random = [0_u8; 16];
        // Without random bytes the process and the time of its record distinguish runs well enough.
        let _ = getrandom(&mut random, GetRandomFlags::empty());
        Self {
            url,
            node: uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            boot_id: boot_id(),
            instance: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            renewed_ms: 0,
        }
    }

    /// Reads the record of the store below `root`; `None` when there is none that can be understood.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read(root: &Path) -> Result<Option<Self>, StoreError> {
        let path = root.join(RECORD);
        let mut text = Vec::new();
        match File::open(&path).and_then(|file| file.take(RECORD_LEN_MAX + 1).read_to_end(&mut text)) {
            Ok(_) if text.len() as u64 > RECORD_LEN_MAX => Ok(None),
            Ok(_) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("reading", &path)(error)),
        }
    }

    /// Refuses the store below `root` to this process at `now_ms` while a process on another machine fills it. On one machine the
    /// lock of the store decides, which ends with its holder.
    ///
    /// # Errors
    /// [`StoreError::Filled`]. An unreadable record is ignored.
    pub fn refuse_second(root: &Path, now_ms: i64) -> Result<(), StoreError> {
        match Self::read(root) {
            // Host names may be equal on several machines; the id of a boot is not.
            Ok(Some(record)) if record.is_fresh(now_ms) && record.boot_id != boot_id() => {
                Err(record.filled(root, now_ms))
            }
            _ => Ok(()),
        }
    }

    /// Whether it was renewed not long before `now_ms`. One that seems to come from the future counts: clocks differ.
    pub const fn is_fresh(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.renewed_ms) < FILLER_RECORD_AGE_MAX_MS
    }

    /// Writes this record to the store below `root` at `now_ms`, unless another run has taken the store over since.
    ///
    /// # Errors
    /// [`StoreError::Filled`] when another process fills the store now; else when the disk fails or is full.
    pub fn renew(&mut self, root: &Path, now_ms: i64) -> Result<(), StoreError> {
        let is_first = self.renewed_ms == 0;
        if let Some(other) = Self::read(root)?.filter(|other| other.instance != self.instance)
            // At the start an earlier run on this machine has ended: the lock of the store proves it.
            && (!is_first || other.boot_id != self.boot_id)
            && other.is_fresh(now_ms)
        {
            return Err(other.filled(root, now_ms));
        }
        self.renewed_ms = now_ms;
        let path = root.join(RECORD);
        let staged = self.staged(root);
        let write = || {
            let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
            file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
            // Renamed into place, so that readers never see half a record.
            fs::rename(&staged, &path)
        };
        write().map_err(|error: io::Error| {
            // A left-over file is removed at the next start at the latest.
            let _ = fs::remove_file(&staged);
            StoreError::io("writing", &path)(error)
        })
    }

    /// Removes this record from the store below `root`, if it is there.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn remove(&self, root: &Path) -> Result<(), StoreError> {
        // Another run may have taken the store over: its record stays.
        if Self::read(root)?.is_none_or(|record| record.instance != self.instance) {
            return Ok(());
        }
        let path = root.join(RECORD);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(StoreError::io("removing", &path)),
        }
    }

    fn filled(self, root: &Path, now_ms: i64) -> StoreError {
        let age_s = now_ms.saturating_sub(self.renewed_ms) / 1000;
        StoreError::Filled { path: root.to_owned(), url: self.url, node: self.node, age_s }
    }

    fn staged(&self, root: &Path) -> PathBuf {
        root.join(crate::prepare::STAGING_DIRECTORY).join(format!("filler-{}", self.instance))
    }
}

/// Id of this boot of the machine; empty if the system has none.
fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(crate::prepare::STAGING_DIRECTORY)).unwrap();
        root
    }

    fn elsewhere() -> FillerRecord {
        FillerRecord { boot_id: "another".to_owned(), ..FillerRecord::of_this_process("root://b:1".to_owned()) }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_removed_by_its_owner_only() {
        let root = store();
        assert_eq!(FillerRecord::read(root.path()).unwrap(), None);
        let mut record = FillerRecord::of_this_process("root://a:1094".to_owned());
        record.renew(root.path(), 5_000).unwrap();
        assert_eq!(FillerRecord::read(root.path()).unwrap(), Some(record.clone()));
        elsewhere().remove(root.path()).unwrap();
        assert_eq!(FillerRecord::read(root.path()).unwrap(), Some(record.clone()));
        record.remove(root.path()).unwrap();
        assert_eq!(FillerRecord::read(root.path()).unwrap(), None);
    }

    #[test]
    fn another_machine_is_kept_out_as_long_as_the_record_is_fresh() {
        let root = store();
        elsewhere().renew(root.path(), 100_000).unwrap();
        let mut ours = FillerRecord::of_this_process("root://a:1094".to_owned());
        for now_ms in [0, 100_000, 129_999] {
            let error = FillerRecord::refuse_second(root.path(), now_ms).unwrap_err();
            assert!(error.to_string().contains("root://b:1"), "{error}");
            assert!(matches!(ours.renew(root.path(), now_ms), Err(StoreError::Filled { .. })));
        }
        FillerRecord::refuse_second(root.path(), 130_000).unwrap();
        ours.renew(root.path(), 130_000).unwrap();
        assert!(matches!(elsewhere().renew(root.path(), 130_001), Err(StoreError::Filled { .. })));
    }

    #[test]
    fn on_one_machine_the_lock_decides_whose_record_counts() {
        let root = store();
        let mut killed = FillerRecord::of_this_process("root://a:1094".to_owned());
        killed.renew(root.path(), 1_000).unwrap();
        FillerRecord::refuse_second(root.path(), 1_001).unwrap();
        let mut next = FillerRecord::of_this_process("root://a:1095".to_owned());
        next.renew(root.path(), 1_001).unwrap();
        // Had it only been held up, it would notice that it was taken over.
        assert!(matches!(killed.renew(root.path(), 1_002), Err(StoreError::Filled { .. })));
    }

    #[test]
    fn text_that_is_not_a_record_is_ignored() {
        let root = store();
        for text in [String::new(), "{".to_owned(), "x".repeat(5_000)] {
            fs::write(root.path().join(RECORD), text).unwrap();
            assert_eq!(FillerRecord::read(root.path()).unwrap(), None);
            FillerRecord::refuse_second(root.path(), 0).unwrap();
        }
    }
}
