//! Kinds of file systems.

use rustix::fs::fstatfs;
use std::os::fd::AsFd;

/// Local file systems, by the number of their kind: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs.
const LOCAL_KINDS: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Whether `file` is on one that is known to be local, and not stacked on another one.
pub(crate) fn is_local(file: impl AsFd) -> rustix::io::Result<bool> {
    let kind = fstatfs(file)?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| LOCAL_KINDS.contains(&kind)))
}
