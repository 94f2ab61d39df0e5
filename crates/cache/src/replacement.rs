//! Replacement policies, which select the entry that is worth least, behind one interface, [`Replacement`].
//!
//! A policy holds no key and reads no clock: entries are numbers with a size, a time of last use and a [`Partition`], and about
//! a hundred bytes each. Given the same calls it gives the same answers. All calls cost O(log n) at most,
//! with two exceptions that do so in the mean of many: calls while upkeep is postponed, and the search of a victim by S3-FIFO. That
//! moves every entry on the way that was used, once for each use that is counted, and may so move all entries in one call.

mod entries;
mod line;
mod rank_heap;
mod ranked;
mod s3_fifo;

pub(crate) use entries::{Entries, Facts, NewEntry, Partition, Replacement, Slot};

forebay_types::named_enum! {
    /// The policies there are.
    #[derive(Default)]
    pub enum Policy {
        /// The entry that was not used for the longest time goes first.
        #[default]
        Lru = "lru",
        /// Entries used only once pass through a small queue and go early; the others go in the order they came, spared once for
        /// each use up to three. Scans of many files do not drive out what is used again and again.
        S3Fifo = "s3-fifo",
        /// Greedy dual size with frequency: large entries that are rarely used go first. More files stay, and fewer bytes.
        Gdsf = "gdsf",
    }
}

impl Policy {
    /// A policy that keeps its entries in `entries`.
    pub(crate) fn build(self, entries: Entries) -> Box<dyn Replacement> {
        match self {
            Self::Lru => Box::new(ranked::Ranked::new(ranked::LastUse, entries)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(entries)),
            Self::Gdsf => Box::new(ranked::Ranked::new(ranked::Worth::default(), entries)),
        }
    }
}

#[cfg(test)]
mod tests;
