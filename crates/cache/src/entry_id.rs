//! Numbers of entries.

use std::fmt;

/// The number of an entry in the index and in the replacement policies. A number is never given twice within one index,
/// not even for a new entry of the same key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.0)
    }
}
