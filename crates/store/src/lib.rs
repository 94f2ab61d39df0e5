//! The disk: data files and cinfo records behind the [`Disk`] trait.
//!
//! Every method blocks: asynchronous callers run it on a pool of threads that may.
//!
//! # Layout
//!
//! The layout is XCache's. Key `/store/a` has the sparse data file `ROOT/store/a` and the record `ROOT/store/a.cinfo`.
//! Either may be a symbolic link into a space of XCache (the link's text is absolute and ends in `%`): such links are
//! followed and kept. `ROOT/.forebay` is our own: a lock, and records being written.
//!
//! # Several disks
//!
//! A [`DiskSet`] spreads entries over several disks, each entry lying on one of them wholly. It watches every operation: a
//! disk that fails repeatedly, or leaves an operation hanging, is not asked any more until a probe finds it well.
//!
//! # Parts
//!
//! On a shared file system a [`PartSet`] divides the entries by a hash of their keys into parts, of which this process holds some and
//! other fillers the rest.
//!
//! # Durability order
//!
//! A bit in a cinfo promises that the block is durable. The three steps of a sync are therefore separate, and the caller
//! takes them in this order:
//!
//! 1. take a snapshot of the blocks written so far ([`forebay_cache::BlockMap::snapshot_written`]);
//! 2. make the data durable ([`DataFile::sync_data`]);
//! 3. write the snapshot as the cinfo ([`Disk::write_cinfo`]), which replaces the old record as a whole.
//!
//! Many files take these steps together, which costs less: [`Disk::sync_data_of`], [`Disk::write_cinfos`]. The first record
//! that names blocks of an entry is written in place: a part of it that a crash may leave does not match its checksums.
//!
//! Blocks written after step 1 wait for the next sync. A crash between any two steps loses bits, never the data of a bit.
//!
//! Creating an entry syncs nothing: its record holds no bit, so losing it loses nothing. An old record is durably gone
//! before new data takes its name. Removing an entry removes the record first: data without a record is never trusted.
//! Entries that are removed together are removed without a sync; the sync follows when one of them is created again.
//! An entry's data file is replaced, never truncated, so that handles on the old one continue to read the old bytes; and a
//! record is written only while its key still names the data file it describes ([`StoreError::Superseded`]).

mod batch_sync;
mod cinfo_file;
mod data_file;
mod disk;
mod disk_set;
mod error;
mod file_system;
mod filler_record;
mod local_disk;
mod origin_mark;
mod part_set;
mod parts;
mod permissions;
mod prepare;
mod probe_file;
mod removal;
mod reserve;
mod scan;
mod shared_view;
mod survey;
mod tree;
mod volume;
mod xattrs;

pub use batch_sync::SyncCall;
pub use disk::{DataFile, Disk, Entry, Holder, NewRecord, PieceRunner};
pub use disk_set::{Clock, DiskSet, Opener, VolumeSpec};
pub use error::StoreError;
pub use filler_record::{FILLER_RECORD_AGE_MAX_MS, FillerRecord};
pub use local_disk::LocalDisk;
pub use origin_mark::{OriginMark, OriginMarkError, last_check};
pub use part_set::{PartChange, PartOptions, PartSet};
pub use parts::{LEASE_MIN, Observer, Ownership, PARTS_MAX, Part, Registry, Snapshot, directory_of, part_of};
pub use permissions::Permissions;
pub use prepare::{StoreReport, check, is_mount_point};
pub use probe_file::ProbeFile;
pub use reserve::{Reserve, allocate, allocate_behind};
pub use scan::{Scan, ScanSlice, ScannedEntry};
pub use shared_view::{SharedFile, SharedView};
pub use survey::{Account, Defect, EXAMPLES_MAX, Finding, KINDS_MAX, User, survey};
pub use volume::{FileIdentity, FileState, MayWait, Space, VolumeId, VolumeInfo};
