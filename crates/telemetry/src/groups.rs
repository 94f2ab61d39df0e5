//! Groups of accesses, and the sums of one.

use forebay_types::{Outcome, named_enum};

named_enum! {
    /// A property by which accesses are grouped.
    pub enum Group {
        /// Path of the export.
        Export = "export",
        /// Data tier, by the conventions of experiments.
        Tier = "tier",
        /// Organization that the client was proven to belong to.
        Organization = "organization",
        /// Region of the origin.
        Region = "region",
        Dataset = "dataset",
        User = "user",
        /// Domain or network of the client.
        Site = "site",
        Origin = "origin",
    }
}

impl Group {
    /// Whether its names are labels of metrics: there are few of them, and they do not name people.
    #[must_use]
    pub const fn is_in_metrics(self) -> bool {
        match self {
            Self::Export | Self::Tier | Self::Organization | Self::Region => true,
            Self::Dataset | Self::User | Self::Site | Self::Origin => false,
        }
    }
}

/// Accesses and bytes of one group.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum {
    pub accesses: u64,
    /// Accesses of which all bytes came from the cache.
    pub hits: u64,
    /// Accesses of files that had been used before.
    pub reused: u64,
    /// Bytes sent to clients, in the order of [`Outcome::ALL`].
    pub bytes: [u64; Outcome::ALL.len()],
    /// The last close, in seconds of the Unix epoch.
    pub last: i64,
}

/// The names of a group, each with its sum.
pub type NamedSums = Vec<(String, Sum)>;

impl Sum {
    /// All bytes sent to clients.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Bytes sent to clients from the cache.
    #[must_use]
    pub const fn hit_bytes(&self) -> u64 {
        let [hit, ..] = self.bytes;
        hit
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.reused += other.reused;
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.last = self.last.max(other.last);
    }
}
