//! Labels of metrics: enums with a fixed set of values, and one value per label.

use forebay_types::{Outcome, PurgeReason, Side, named_enum};

/// An enum whose variants are the values of a metric's label.
pub(crate) trait Label: Copy + 'static {
    /// Every variant, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// Position in [`Label::ALL`].
    fn index(self) -> usize;

    /// The value as written in the exposition.
    fn text(self) -> &'static str;
}

/// One `T` for each variant of a label with `N` variants.
#[derive(Debug)]
pub(crate) struct PerLabel<T, const N: usize>([T; N]);

impl<T: Default, const N: usize> Default for PerLabel<T, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T, const N: usize> PerLabel<T, N> {
    #[expect(clippy::indexing_slicing, reason = "hot path; the constant assertion proves that each index exists")]
    pub(crate) fn of<L: Label>(&self, label: L) -> &T {
        const { assert!(L::ALL.len() == N, "one value per variant") };
        &self.0[label.index()]
    }
}

/// Implements [`Label`] for enums declared by [`named_enum`].
macro_rules! implement_label {
    ($($name:ident)+) => {$(
        impl Label for $name {
            const ALL: &'static [Self] = &Self::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                self.as_str()
            }
        }
    )+};
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($variants:tt)+ })+) => { $(
        named_enum! {
            $(#[$doc])*
            pub enum $name { $($variants)+ }
        }

        implement_label!($name);
    )+

        #[cfg(test)]
        fn each_declared_label() {
            $(tests::assert_positions_and_names::<$name>();)+
        }
    };
}

implement_label!(Outcome PurgeReason Side);

labels! {
    /// Where the bytes that a client has read of a file came from.
    FileResult {
        /// All of them from the cache.
        Hit = "hit",
        /// Some from the cache, some from the origin.
        Partial = "partial",
        /// None from the cache.
        Missed = "missed",
        /// The client has read nothing.
        Unread = "unread",
    }

    /// The kind of a request, from a client or to an origin.
    RequestKind {
        /// Login, authentication and all else that opens a session.
        Session = "session",
        Open = "open",
        Read = "read",
        Readv = "readv",
        Pgread = "pgread",
        Close = "close",
        Stat = "stat",
        Dirlist = "dirlist",
        Locate = "locate",
        Query = "query",
        /// Anything that would write or change the name space.
        Write = "write",
        Other = "other",
    }

    /// An operation on a cache disk.
    DiskOperation {
        Open = "open",
        Read = "read",
        Write = "write",
        Cinfo = "cinfo",
        Sync = "sync",
        Remove = "remove",
    }

    /// Why bytes from an origin were not kept.
    NotKept {
        DiskFull = "disk_full",
        DiskError = "disk_error",
        /// No memory was left to collect the block in.
        Budget = "budget",
        /// The rules say that the file is not cached.
        Decision = "decision",
        /// The link to the origin was too busy for the part of the block that no reader had requested.
        Link = "link",
        /// Purges make room, and hits have not paid for the part of the block that no reader had requested.
        TurnOver = "turn_over",
    }

    /// Result of comparing a block on disk with its checksum.
    BlockCheck {
        Intact = "intact",
        /// It had no checksum: it has one now.
        Learned = "learned",
        /// No index was available, so its checksum is unknown: the block is trusted.
        Skipped = "skipped",
        Damaged = "damaged",
        Unreadable = "unreadable",
    }

    /// An event of bytes that were fetched ahead of a reader.
    ReadAheadEvent {
        Fetched = "fetched",
        Used = "used",
        /// The last client closed the file before any read them.
        Wasted = "wasted",
        /// They did not arrive, or were not kept.
        Failed = "failed",
    }

    /// Why bytes were fetched ahead of a reader.
    ReadAheadSource {
        /// A pattern of offsets.
        Runs = "runs",
        /// The structure of the file, and the columns that were read of it.
        Structure = "structure",
        /// The structure of the file, and the columns that were read of other files.
        History = "history",
    }

    /// A change of the learned columns of a dataset.
    ColumnEvent {
        /// Expected, and read.
        Confirmed = "confirmed",
        /// Expected, and not read.
        Refuted = "refuted",
        /// Read, and not expected.
        Learned = "learned",
    }

    /// Why nothing, or less, was fetched ahead of a reader.
    NotReadAhead {
        /// Most bytes fetched ahead were not read.
        Wasteful = "wasteful",
        /// Its memory is used up.
        Memory = "memory",
        /// Enough requests to the origin are in flight.
        Origin = "origin",
        /// The disk currently accepts no writes, or the file was dropped from the cache.
        Disk = "disk",
        /// The server is shutting down.
        Stopping = "stopping",
    }

    /// Result of parsing the structure of a ROOT file.
    StructureOutcome {
        Parsed = "parsed",
        UnknownVersion = "unknown_version",
        TooLarge = "too_large",
        Damaged = "damaged",
        /// It has no trees.
        None = "none",
        /// It could not be read, or took too long.
        Unreadable = "unreadable",
    }

    /// Result of comparing the checksum of a complete file with that of its origin.
    ChecksumComparison {
        Equal = "equal",
        /// The file is dropped.
        Different = "different",
        /// They still differ after the file was fetched again: the file is kept.
        Disputed = "disputed",
    }

    /// Why a file was dropped from the cache.
    DropReason {
        /// The origin's file has changed.
        Changed = "changed",
        /// The cinfo or the data cannot be trusted.
        Damaged = "damaged",
        /// Its disk is offline; the file returns with the disk.
        DiskOffline = "disk_offline",
        /// Its checksum differs from the origin's.
        Mismatch = "mismatch",
        /// An administrator removed it.
        Evicted = "evicted",
        /// The origin no longer has the file.
        Gone = "gone",
    }

    /// State of the index.
    IndexPhase {
        Off = "off",
        /// Being opened and read.
        Loading = "loading",
        /// In use while it is rebuilt from the disks.
        Rebuilding = "rebuilding",
        /// In use, with every entry.
        Ready = "ready",
    }

    /// Result of a due check of a cached copy.
    CheckResult {
        Unchanged = "unchanged",
        /// The origin has another file; a new copy was started.
        Changed = "changed",
        /// The origin no longer has the file.
        Gone = "gone",
        /// The origin could not be asked; the copy was served.
        FailedServedStale = "failed_served_stale",
        /// The origin could not be asked for too long; the open was refused.
        FailedRefused = "failed_refused",
    }

    /// Result of a client's TLS handshake.
    TlsResult {
        Done = "done",
        /// The client aborted it, or sent invalid data.
        Failed = "failed",
        TimedOut = "timed_out",
    }

    /// The limit that a client's connection exceeded.
    ConnectionLimit {
        Total = "total",
        /// Connections of one address.
        Address = "address",
        /// Connections of one address before the login.
        Logins = "logins",
        /// Sessions of one identity.
        Identity = "identity",
    }

    /// An answer to a manager of a cluster.
    ClusterAnswer {
        /// There is data of the file here.
        Online = "online",
        /// The file will be fetched here.
        Pending = "pending",
        /// Another member has it, or will.
        Silent = "silent",
    }

    /// The node on which placement has a file.
    PlacedOn {
        ThisNode = "this_node",
        OtherNode = "other_node",
    }

    /// The target of a data manager's redirect.
    SentTo {
        /// The complete file on the shared file system.
        File = "file",
        Filler = "filler",
        Origin = "origin",
    }

    /// An output of records.
    RecordOutput {
        File = "file",
        OpenSearch = "opensearch",
    }

    /// Decision of the rules about an open.
    Decided {
        Cache = "cache",
        /// Served from the origin and not kept.
        Bypass = "bypass",
        /// The client is redirected to the origin.
        Redirect = "redirect",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    pub(super) fn assert_positions_and_names<L: Label>() {
        let indices: Vec<usize> = L::ALL.iter().map(|label| label.index()).collect();
        assert_eq!(indices, (0..L::ALL.len()).collect::<Vec<_>>());
        let names: BTreeSet<&str> = L::ALL.iter().map(|label| label.text()).collect();
        assert_eq!(names.len(), L::ALL.len());
        for name in names {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        }
    }

    #[test]
    fn each_variant_has_its_own_place_and_name() {
        each_declared_label();
        assert_positions_and_names::<Outcome>();
        assert_positions_and_names::<PurgeReason>();
        assert_positions_and_names::<Side>();
    }
}
