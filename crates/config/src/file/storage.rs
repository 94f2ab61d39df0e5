//! Settings of the disks, the index, the purge and the memory.

use super::declare::{Value, section};
use crate::{
    config::{Config, DiskConfig},
    value::{CountMark, Group, List, Mode, Never, Number, Off, Or, Organization, Size, Time},
};
use forebay_cache::{Expiry, Mark, PathPattern, Policy};
use forebay_engine::{CheckPolicy, ChecksumAlgorithm};
use forebay_store::PARTS_MAX;
use forebay_types::{BlockSize, Lfn};
use std::path::PathBuf;

/// Bytes per second that are read in the background, 64KiB to 1TiB: below, a scrub of a disk takes years; no disk is faster.
type Rate = Size<0x1_0000, 0x100_0000_0000>;

section! {
    /// Storage of cached files.
    "store" RawStore => Config {
        /// Directory for cached files; created if missing. Short form of a single `[[disk]]`. Only one process at a time may
        /// use it. An existing XCache directory can be taken over.
        path: PathBuf = Value::none().sample(r#""/var/cache/forebay""#).flag("--store"),
        /// Number of parts into which the store is divided, so that several servers fill one directory on a shared file system. All of
        /// them and their managers must have the same number, which cannot be changed later. Default: not divided, one server
        /// fills the store.
        parts: Number<u16, 2, { PARTS_MAX as u64 }> => parts.count = Value::none().sample("64"),
        /// Time after which the parts of a server that does not renew its record are taken over by others.
        part_lease: Time<2000, 600_000> => parts.lease = Value::default(r#""30s""#),
        /// Block size of new files: a multiple of 4KiB from 4KiB to 512MiB.
        block_size: BlockSize => engine.block_size = Value::default(r#""64KiB""#).flag("--block-size"),
        /// Size of the largest file that is cached. Larger files are read from the origin without being stored: the map of a file in memory
        /// and its record on disk take one bit per block of the size that the origin claims.
        file_size_max: Size<0x10_0000, 0x1_0000_0000_0000> => engine.file_size_max = Value::default(r#""1TiB""#),
        /// Interval at which written blocks are synced to disk and recorded. A crash loses at most this much.
        sync_interval: Time => engine.sync_interval = Value::default(r#""5s""#),
        /// Permissions of new files, independent of the umask. Existing files keep theirs.
        file_mode: Mode<0o600, 0o644> => permissions.file_mode = Value::default(r#""0600""#),
        /// Permissions of new directories.
        directory_mode: Mode<0o700, 0o755> => permissions.directory_mode = Value::default(r#""0700""#),
        /// Group of new files and directories: a name in `/etc/group`, or a number. The server's user must be a member. Default: the
        /// group of the server.
        group: Group => permissions.group = Value::none().sample(r#""xrootd""#),
    }
}

section! {
    /// A disk for cached files. At least one is required if files of origins are cached. Can be repeated; each file is stored on
    /// one disk. The files of a failed or absent disk are not available until it is back.
    "disk" RawDisk => DiskConfig {
        /// Directory: empty, or of an XCache. If there are several disks it must exist, so that nothing is written below the mount
        /// point of a file system that is not mounted.
        path: PathBuf = Value::none().example(r#""/var/cache/forebay""#),
        /// Share of new files relative to other disks of the same size.
        weight: Number<u32, 1, 1000> => weight = Value::default("1"),
        /// Require the directory to be a mount point; otherwise the disk counts as absent.
        mounted: bool => is_mounted = Value::default("false"),
    }
}

section! {
    /// The index of cached files. It is rebuilt from the disks if it is lost.
    "index" RawIndex => Config {
        /// File of the index; a fast disk is useful. It takes about 1 KiB per cached file. Default: `.forebay/index` on the first disk.
        path: PathBuf => index.path = Value::none().sample(r#""/var/lib/forebay/index""#),
        /// Memory for the index.
        cache: Size<0x40_0000, 0x10_0000_0000, usize> => index.cache_bytes = Value::default(r#""64MiB""#),
    }
}

section! {
    /// Removal of files to free space. Watermarks are percentages or sizes: of each file system, or of the budget if one is set.
    "purge" RawPurge => Config {
        /// Order of removal: `lru` (least recently used first), `s3-fifo` (files used once first), `gdsf` (large and rarely used
        /// files first).
        policy: Policy => engine.purge.rules.policy = Value::default(r#""lru""#),
        /// Maximum size of the cache on all disks together. Default: limited by the file systems only.
        budget: Size<1> => engine.purge.rules.bytes.total = Value::none().sample(r#""50TiB""#).flag("--budget"),
        /// High watermark: files are removed if the usage exceeds it.
        high: Mark => engine.purge.rules.bytes.marks.high = Value::default(r#""95%""#),
        /// Low watermark: files are removed until the usage is down to it.
        low: Mark => engine.purge.rules.bytes.marks.low = Value::default(r#""90%""#),
        /// Maximum number of inodes; each file takes two. Default: limited by the file systems only.
        budget_inodes: Number<u64, 1, { u64::MAX }> => engine.purge.rules.inodes.total = Value::none().sample("20000000"),
        /// High watermark for inodes.
        inodes_high: CountMark => engine.purge.rules.inodes.marks.high = Value::default(r#""95%""#),
        /// Low watermark for inodes.
        inodes_low: CountMark => engine.purge.rules.inodes.marks.low = Value::default(r#""90%""#),
        /// Space to keep free on each file system, in addition to the watermarks.
        free_min: Mark => engine.purge.rules.free_min = Value::none().sample(r#""100GiB""#),
        /// Remove files that have not been used for this time, even if there is space. Default: never.
        age_max: Time => engine.purge.rules.age_max = Value::none().sample(r#""90d""#),
        /// Interval between measurements of the usage. A write that reaches a watermark triggers a purge immediately.
        interval: Time<100, 3_600_000> => engine.purge.interval = Value::default(r#""10s""#),
    }
}

section! {
    /// Quota of a part of the cache. Can be repeated; the longest matching path applies.
    "quota" RawQuota => forebay_cache::Quota {
        /// Applies to files at and below this path. Files of forwarded origins are below `/root:/HOST:PORT`.
        path: Lfn = Value::none().example(r#""/store/user""#),
        /// Guaranteed size: these files are not removed below it to make space for others.
        min: Size => min_bytes = Value::none().sample(r#""1TiB""#),
        /// Maximum size of these files.
        max: Size => max_bytes = Value::none().example(r#""10TiB""#),
    }
}

section! {
    /// Maximum age of unused files, independent of free space. Can be repeated; the first matching table applies. Files without
    /// a match follow `purge.age_max`.
    "expiry" RawExpiry => Expiry {
        /// Pattern of paths, as in `[[rule]]`. Default: all files.
        path: PathPattern => path = Value::none().sample(r#""/store/user/**""#),
        /// Authenticated virtual organization of the client for which the file was fetched; `*` matches any run of characters.
        /// Default: any or none.
        vo: Organization => vo = Value::none().sample(r#""cms""#),
        /// Remove files that have not been used for this time.
        unused: Or<Never, Time<1000>> => unused = Value::none().sample(r#""30d""#),
    }
}

section! {
    /// Verification of stored data. Damaged blocks are discarded and fetched again.
    "integrity" RawIntegrity => Config {
        /// Comparison of blocks with their checksums: `first-read` before the first use after a start, or `never`.
        check: CheckPolicy => engine.integrity.check = Value::default(r#""first-read""#),
        /// Read rate of a scrub, in bytes per second. A scrub verifies all stored blocks.
        scrub_rate: Rate => engine.integrity.scrub_rate = Value::default(r#""20MiB""#),
        /// Time between the end of a scrub and the start of the next; `off` scrubs only on request.
        scrub_interval: Or<Off, Time> => engine.integrity.scrub_interval = Value::default(r#""30d""#),
        /// Checksums to compute for complete files: `adler32`, `crc32c`, `md5`. The first one answers queries that name no algorithm.
        checksums: List<ChecksumAlgorithm> => engine.integrity.checksums = Value::default(r#"["adler32", "crc32c"]"#),
        /// Read rate for these checksums, in bytes per second.
        checksum_rate: Rate => engine.integrity.checksum_rate = Value::default(r#""200MiB""#),
        /// Compare these checksums with those of the origin if it has them. A file that differs is discarded.
        compare: bool => engine.integrity.compare = Value::default("true"),
    }
}

section! {
    /// Memory for data in transfer. Cache hits need none: they are sent from the page cache of the operating system.
    "memory" RawMemory => Config {
        /// Maximum size of all buffers together; at least four times the block size. Records of closed files take up to a quarter of this in addition, and no more than 1 GiB.
        budget: Size<0x100_0000, 0x100_0000_0000> => engine.budget_bytes = Value::default(r#""1GiB""#).example(r#""1GiB""#).flag("--memory"),
    }
}
