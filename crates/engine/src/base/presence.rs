//! Whether the cache has a file.

/// Whether the cache has a file, or a part of it, according to what is in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    Have,
    /// The index is still being read or made again, or the entry has just changed: ask again, or open the file.
    Maybe,
    No,
}
