//! Replacement policies, which select the entry that is worth least, behind one interface, [`Replacement`].
//!
//! A policy holds no key and reads no clock: entries are numbers with a size, a time of last use and a [`Partition`], and about
//! a hundred bytes each. Given the same calls it gives the same answers. All calls cost O(log n) at most.

mod entries;
mod interface;
mod partitions;
mod ranked;
mod s3_fifo;

pub use interface::{Facts, NewEntry, Partition, Replacement};

/// The policies there are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// The entry that was not used for the longest time goes first.
    #[default]
    Lru,
    /// Entries used only once pass through a small queue and go early; the others go in the order they came, spared once for
    /// each use up to three. Scans of many files do not drive out what is used again and again.
    S3Fifo,
    /// Greedy dual size with frequency: large entries that are rarely used go first. More files stay, and fewer bytes.
    Gdsf,
}

impl Policy {
    pub const ALL: [Self; 3] = [Self::Lru, Self::S3Fifo, Self::Gdsf];

    /// The name used in the configuration and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::S3Fifo => "s3-fifo",
            Self::Gdsf => "gdsf",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }

    /// A policy without entries.
    pub fn build(self) -> Box<dyn Replacement> {
        match self {
            Self::Lru => Box::new(ranked::Ranked::new(ranked::LastUse)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::default()),
            Self::Gdsf => Box::new(ranked::Ranked::new(ranked::Worth::default())),
        }
    }
}

#[cfg(test)]
mod tests;
