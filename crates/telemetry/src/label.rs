//! Labels of metrics: enums with a fixed set of values, and one value per label.

use forebay_types::{Outcome, Side};

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
    /// The value of `label`.
    #[expect(clippy::indexing_slicing, reason = "hot path; the constant assertion proves that each index exists")]
    pub(crate) fn of<L: Label>(&self, label: L) -> &T {
        const { assert!(L::ALL.len() == N, "one value per variant") };
        &self.0[label.index()]
    }
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in logs and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl Label for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                self.as_str()
            }
        }
    )+ };
}

labels! {
    /// What a request asks for, from a client or of an origin.
    RequestKind {
        /// Login, authentication and whatever else opens a session.
        Session = "session",
        /// Open a file.
        Open = "open",
        /// Read one range.
        Read = "read",
        /// Read several ranges.
        Readv = "readv",
        /// Read one range with page checksums.
        Pgread = "pgread",
        /// Close a file.
        Close = "close",
        /// Stat one or more paths or a handle.
        Stat = "stat",
        /// List a directory.
        Dirlist = "dirlist",
        /// Ask where a file is.
        Locate = "locate",
        /// Query configuration, checksum, space.
        Query = "query",
        /// Anything that would write or change the name space.
        Write = "write",
        /// Anything else.
        Other = "other",
    }

    /// What the disk was asked to do.
    DiskOperation {
        /// Open or create a file.
        Open = "open",
        /// Read data or a cinfo.
        Read = "read",
        /// Write data.
        Write = "write",
        /// Write a cinfo.
        Cinfo = "cinfo",
        /// Make written bytes durable.
        Sync = "sync",
        /// Remove a file.
        Remove = "remove",
    }

    /// Why bytes from an origin were not kept.
    NotKept {
        /// The disk is full.
        DiskFull = "disk_full",
        /// The disk refused.
        DiskError = "disk_error",
        /// No memory was left to collect the block in.
        Budget = "budget",
        /// The file is not to be cached.
        Decision = "decision",
        /// The link to the origin was too busy for the rest of the block, which nobody had asked for.
        Link = "link",
    }

    /// What came out when a block on disk was compared with its checksum.
    BlockCheck {
        /// It is what was written.
        Intact = "intact",
        /// It had no checksum: it has one now.
        Learned = "learned",
        /// There was no index to tell its checksum: it is taken as it is.
        Skipped = "skipped",
        /// It is not what was written.
        Damaged = "damaged",
        /// The disk did not give it.
        Unreadable = "unreadable",
    }

    /// What became of bytes that were fetched ahead of a reader.
    ReadAheadEvent {
        /// They were asked for.
        Fetched = "fetched",
        /// A client has read them.
        Used = "used",
        /// The last client has left, and none has read them.
        Wasted = "wasted",
        /// They did not come, or were not kept.
        Failed = "failed",
    }

    /// Why a reader was not read ahead of.
    NotReadAhead {
        /// Most of what was fetched ahead was not read.
        Wasteful = "wasteful",
        /// The memory for it is used up.
        Memory = "memory",
        /// Enough is under way from the origin.
        Origin = "origin",
        /// The disk takes nothing at the moment, or the file has left the cache.
        Disk = "disk",
        /// The server is going down.
        Stopping = "stopping",
    }

    /// What came out when the checksum of a complete file was compared with its origin's.
    ChecksumComparison {
        /// They are the same.
        Equal = "equal",
        /// They differ: the file is dropped.
        Different = "different",
        /// They differ, also after the file was fetched anew: the file is kept.
        Disputed = "disputed",
    }

    /// Why a file was dropped from the cache.
    DropReason {
        /// The origin's file has changed.
        Changed = "changed",
        /// The cinfo or the data cannot be trusted.
        Damaged = "damaged",
        /// Its disk is offline; it is there again when the disk is.
        DiskOffline = "disk_offline",
        /// Its checksum is not the one that the origin tells.
        Mismatch = "mismatch",
        /// An administrator asked for its removal.
        Evicted = "evicted",
        /// The origin has no such file any more.
        Gone = "gone",
    }

    /// How the index is.
    IndexPhase {
        /// Not in use.
        Off = "off",
        /// Being opened and read.
        Loading = "loading",
        /// In use while it is made again from the disk.
        Rebuilding = "rebuilding",
        /// In use, with every entry.
        Ready = "ready",
    }

    /// What became of a copy whose check was due.
    CheckResult {
        /// The origin's file is the one that is cached.
        Unchanged = "unchanged",
        /// The origin has another file; a new copy was started.
        Changed = "changed",
        /// The origin has no such file any more.
        Gone = "gone",
        /// The origin could not be asked; the copy was served.
        FailedServedStale = "failed_served_stale",
        /// The origin could not be asked for too long; the open was refused.
        FailedRefused = "failed_refused",
    }

    /// How a client's TLS handshake ended.
    TlsResult {
        /// The connection is encrypted.
        Done = "done",
        /// The client broke it off, or said what makes no sense.
        Failed = "failed",
        /// The client was too slow.
        TimedOut = "timed_out",
    }

    /// Which limit a client's connection was refused by.
    ConnectionLimit {
        /// That of all connections.
        Total = "total",
        /// That of one address.
        Address = "address",
        /// That of one address before the login.
        Logins = "logins",
        /// That of one identity.
        Identity = "identity",
    }

    /// Where a manager sent a client with an open.
    SentTo {
        /// To the file itself.
        File = "file",
        /// To the filler.
        Filler = "filler",
        /// To the origin.
        Origin = "origin",
    }

    /// What the rules decided about an open.
    Decided {
        /// It is served through the cache.
        Cache = "cache",
        /// It is served from the origin and not kept.
        Bypass = "bypass",
        /// The client is sent to the origin.
        Redirect = "redirect",
    }
}

impl Label for Outcome {
    const ALL: &'static [Self] = &Self::ALL;

    fn index(self) -> usize {
        self as usize
    }

    fn text(self) -> &'static str {
        self.as_str()
    }
}

impl Label for Side {
    const ALL: &'static [Self] = &[Self::Client, Self::Origin, Self::Disk, Self::Authorization, Self::Internal];

    fn index(self) -> usize {
        self as usize
    }

    fn text(self) -> &'static str {
        self.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn assert_positions_and_names<L: Label>() {
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
        assert_positions_and_names::<RequestKind>();
        assert_positions_and_names::<TlsResult>();
        assert_positions_and_names::<ConnectionLimit>();
        assert_positions_and_names::<DiskOperation>();
        assert_positions_and_names::<NotKept>();
        assert_positions_and_names::<SentTo>();
        assert_positions_and_names::<BlockCheck>();
        assert_positions_and_names::<ChecksumComparison>();
        assert_positions_and_names::<DropReason>();
        assert_positions_and_names::<IndexPhase>();
        assert_positions_and_names::<CheckResult>();
        assert_positions_and_names::<Decided>();
        assert_positions_and_names::<ReadAheadEvent>();
        assert_positions_and_names::<NotReadAhead>();
        assert_positions_and_names::<Outcome>();
        assert_positions_and_names::<forebay_types::PurgeReason>();
        assert_positions_and_names::<Side>();
    }
}
