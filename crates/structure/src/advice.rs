//! Ranges to fetch next, and their bounds.

use crate::Item;
use forebay_types::ByteRange;

/// Ranges to fetch next.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Advice {
    /// In order of offset, no two with bytes in common; at least one item in each.
    pub ranges: Vec<ByteRange>,
    /// For each column the number of the item behind the last one.
    pub(crate) next: Vec<(u16, u32)>,
    /// Bytes of items of columns that are not sure.
    pub(crate) unsure_bytes: u64,
    /// Items of columns that are only guessed.
    pub(crate) guesses: Vec<Guess>,
    pub source: AdviceSource,
}

/// The reason of an advice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AdviceSource {
    /// Reads of this file.
    #[default]
    Reads,
    /// Reads of other files of the dataset.
    History,
}

/// Bounds of an advice, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AdviceBounds {
    /// How far beyond the cluster that is being read.
    pub window: u64,
    /// Length of one advice, unless a single item is longer.
    pub len_max: u64,
    /// Bytes for one reader of columns that are expected only because of other files.
    pub history_max: u64,
    /// Length of a block, at least 1: bytes of guesses are counted in whole ones.
    pub block_len: u64,
}

/// An item of a column that the reader is guessed to come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Guess {
    /// Its number in its column.
    pub(crate) number: u32,
    pub(crate) item: Item,
    /// Bytes of its blocks, without those that the guess before it has as well.
    pub(crate) cost: u64,
}

/// Items with gaps up to this between them are fetched together.
const GAP_MAX: u64 = 4 << 10;

impl Advice {
    /// Of items with their numbers, of sure columns.
    pub(crate) fn of(items: &[(u32, Item)]) -> Self {
        Self { ranges: ranges_of(items), next: next_of(items), ..Self::default() }
    }
}

/// The items as ranges.
fn ranges_of(items: &[(u32, Item)]) -> Vec<ByteRange> {
    let mut places: Vec<(u64, u64)> = items.iter().map(|(_, item)| (item.offset(), item.end())).collect();
    places.sort_unstable();
    let mut ranges: Vec<ByteRange> = Vec::new();
    for (start, end) in places {
        match ranges.last_mut() {
            Some(last) if start <= last.end().saturating_add(GAP_MAX) => {
                *last = ByteRange::between(last.start(), last.end().max(end));
            }
            _ => ranges.push(ByteRange::between(start, end)),
        }
    }
    ranges
}

/// For each column of the items the number behind the last of them.
fn next_of(items: &[(u32, Item)]) -> Vec<(u16, u32)> {
    let mut next: Vec<(u16, u32)> = Vec::new();
    for (number, item) in items {
        let column = key_of(item.column());
        match next.iter_mut().find(|(it, _)| *it == column) {
            Some((_, behind)) => *behind = (*behind).max(number + 1),
            None => next.push((column, number + 1)),
        }
    }
    next
}

/// Columns have 16 bits.
pub(crate) fn key_of(column: usize) -> u16 {
    u16::try_from(column).unwrap_or(u16::MAX)
}
