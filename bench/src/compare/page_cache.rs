//! The page cache of this machine: memory rows must find everything in it, and device rows nothing.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;

/// Type of the file system tmpfs.
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// Counters of the whole machine since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PageCache {
    /// Bytes read from disks.
    pub(crate) disk_bytes: u64,
    /// Pages that were read again soon after they had been evicted.
    pub(crate) refaults: u64,
}

impl PageCache {
    pub(crate) fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/vmstat").context("cannot read /proc/vmstat")?;
        Ok(Self::parse(&text))
    }

    /// A counter that the kernel does not have is 0.
    fn parse(text: &str) -> Self {
        let value = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
        };
        // In KiB, whatever the size of a page.
        Self { disk_bytes: value("pgpgin") << 10, refaults: value("workingset_refault_file") }
    }

    /// The events since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            disk_bytes: self.disk_bytes.saturating_sub(earlier.disk_bytes),
            refaults: self.refaults.saturating_sub(earlier.refaults),
        }
    }
}

/// Drops all clean pages, of all programs. Needs root.
pub(crate) fn drop_all() -> Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("rows of the device need root, to drop the page cache")
}

/// Refuses a directory that lies in memory.
pub(crate) fn require_disk(dir: &Path) -> Result<()> {
    let found = rustix::fs::statfs(dir).with_context(|| format!("cannot examine {}", dir.display()))?;
    ensure!(
        i128::from(found.f_type) != TMPFS_MAGIC,
        "{} is in memory: rows of the device need a disk (--work-dir)",
        dir.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_names() {
        let text = "pgpgin 7\npgpgin_other 9\nworkingset_refault_file 5\n";
        let first = PageCache::parse(text);
        assert_eq!(first, PageCache { disk_bytes: 7 << 10, refaults: 5 });
        assert_eq!(first.since(&PageCache { disk_bytes: 1 << 10, refaults: 9 }).refaults, 0);
        assert_eq!(PageCache::parse(""), PageCache::default());
    }

    #[test]
    fn memory_is_no_disk() {
        require_disk(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(require_disk(Path::new("/dev/shm")).is_err());
    }
}
