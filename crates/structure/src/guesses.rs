//! Guesses at the next columns of a reader that reads basket after basket, each of a column that it has not read before.
//!
//! Without a guess each such column costs a round trip. Guesses belong to one reader: a column is in use once it is read.

use crate::{
    Item,
    advice::{AdviceBounds, Guess},
    reader::Place,
    tree_use::{Table, Use},
};
use forebay_types::ByteRange;
use std::collections::VecDeque;

/// The new columns of one reader in the current cluster, and the guesses at those that follow.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    /// The first items that were read of the last new columns, in the order of the reads.
    found: VecDeque<Item>,
    /// Those that are being fetched and were not read yet.
    pending: Vec<Guess>,
    /// Bytes of the guesses that were read, and of all others.
    read_bytes: u64,
    unread_bytes: u64,
}

/// New columns that show an order.
const FOUND: usize = 3;

/// Bytes between the items of two columns that are neighbours. Their blocks hold about as many bytes.
const NEAR_MAX: u64 = 128 << 10;

/// Bytes of unread guesses that a reader may always have. A job that reads a few neighbouring columns pays no more than that.
const UNREAD_BYTES_MIN: u64 = 128 << 10;

/// How many times the bytes of the guesses that were read may be unread on top of that.
const UNREAD_PER_READ: u64 = 2;

/// Candidates that are looked at, which bounds the time.
const CANDIDATES_MAX: usize = 256;

impl Guesses {
    /// Notes a request for one item; `is_new` if it is the first one of its column.
    pub(crate) fn handle_item(&mut self, item: Item, is_new: bool) {
        if self.found.back().is_some_and(|last| last.cluster() != item.cluster()) {
            self.end();
        }
        if let Some(index) = self.pending.iter().position(|guess| guess.item == item) {
            let guess = self.pending.swap_remove(index);
            self.read_bytes += guess.cost;
            self.unread_bytes -= guess.cost;
        }
        if is_new {
            if self.found.len() == FOUND {
                self.found.pop_front();
            }
            self.found.push_back(item);
        }
    }

    /// The order of columns has ended. Guesses that were not read by now stay unread.
    pub(crate) fn end(&mut self) {
        self.found.clear();
        self.pending.clear();
    }

    pub(crate) fn accept(&mut self, guesses: &[Guess]) {
        self.unread_bytes += guesses.iter().map(|guess| guess.cost).sum::<u64>();
        self.pending.extend(guesses);
    }

    /// Bytes of the blocks of guesses that the reader may still come to.
    pub(crate) fn expected(&self) -> u64 {
        self.pending.iter().map(|guess| guess.cost).sum()
    }

    /// Where the guesses lie: reads there confirm them, and lead to more.
    pub(crate) fn zone(&self) -> Option<ByteRange> {
        let start = self.pending.iter().map(|guess| guess.item.offset()).min()?;
        let end = self.pending.iter().map(|guess| guess.item.end()).max()?;
        Some(ByteRange::between(start, end))
    }

    /// The items that the reader at `place` is guessed to come to next and that were not accepted yet.
    pub(crate) fn wanted(&self, table: &Table, place: &Place, bounds: AdviceBounds) -> Vec<Guess> {
        let unread_max = self.read_bytes.saturating_mul(UNREAD_PER_READ).saturating_add(UNREAD_BYTES_MIN);
        let mut room = unread_max.saturating_sub(self.unread_bytes).min(bounds.len_max);
        let mut wanted = Vec::new();
        let mut counted_to = 0;
        for (number, item) in self.candidates(table) {
            let is_known = number < place.progress(item.column()).accepted;
            if is_known || !table.is_new(item.column()) {
                continue;
            }
            let (mut start, end) = blocks_of(item, bounds.block_len);
            if start < counted_to && counted_to <= end {
                start = counted_to;
            }
            let cost = end - start;
            if cost > room {
                break;
            }
            (room, counted_to) = (room - cost, end);
            wanted.push(Guess { number, item, cost });
        }
        wanted
    }

    /// The items, with their numbers, of the columns that continue the order of those that were found: at equal steps in the list of
    /// columns, or else one near the other in the file.
    fn candidates(&self, table: &Table) -> Vec<(u32, Item)> {
        let mut found = self.found.iter().copied();
        let (Some(first), Some(second), Some(third)) = (found.next(), found.next(), found.next()) else {
            return Vec::new();
        };
        let step = |from: Item, to: Item| to.column().checked_sub(from.column()).filter(|step| *step > 0);
        if let Some(step) = step(second, third).filter(|it| step(first, second) == Some(*it)) {
            let (of_cluster, columns) = (table.in_cluster(third), table.tree.columns.len());
            let columns = (third.column() + step..columns).step_by(step);
            return columns.take(CANDIDATES_MAX).filter_map(of_cluster).collect();
        }
        let is_near = |from: Item, to: Item| to.offset().checked_sub(from.end()).is_some_and(|gap| gap <= NEAR_MAX);
        if !is_near(first, second) || !is_near(second, third) {
            return Vec::new();
        }
        let from = table.tree.items.partition_point(|item| item.offset() <= third.offset());
        let later = table.tree.items.get(from..).unwrap_or_default().iter().take(CANDIDATES_MAX).copied();
        let of_cluster = later.filter(|item| item.cluster() == third.cluster());
        of_cluster.map(|item| (table.order.number_of(&table.tree, item), item)).collect()
    }
}

impl Table {
    /// Whether no request has been for the column, and none is expected.
    pub(crate) fn is_new(&self, column: usize) -> bool {
        matches!(self.uses.get(column), Some(Use::None | Use::Crossed))
    }

    /// Returns the item of a column that is in the cluster of `item`, at the same place among the items of its column.
    fn in_cluster(&self, item: Item) -> impl Fn(usize) -> Option<(u32, Item)> + '_ {
        let first_of = move |column: usize| self.order.first_in(&self.tree, column, item.cluster());
        let place = self.order.number_of(&self.tree, item) - first_of(item.column());
        move |column| {
            let number = first_of(column) + place;
            let of_column = self.order.item(&self.tree, column, number)?;
            (of_column.cluster() == item.cluster()).then_some((number, of_column))
        }
    }
}

/// Start and end of the blocks that hold an item.
const fn blocks_of(item: Item, block_len: u64) -> (u64, u64) {
    (item.offset() / block_len * block_len, item.end().div_ceil(block_len) * block_len)
}
