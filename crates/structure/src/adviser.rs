//! The columns of a file that are read, and the places of their next baskets or pages.

use crate::{
    Item, Layout, Tree,
    advice::{Advice, AdviceBounds, AdviceSource},
    reader::{Evidence, Place, Reader},
    tree_use::{LOOKED_AT_MAX, Table, Use},
};
use forebay_types::ByteRange;
use std::mem;

/// Knows the tables of a file and the columns that its readers use. All readers of the file share it.
///
/// Order of calls: [`Self::expect`] for columns that were read of other files; for each [`Reader`] [`Self::begin`], and
/// [`Self::handle_read`] for its reads; then [`Self::wanted`] names what the reader comes to next, and [`Reader::accept`] notes
/// that it is being fetched. At the end [`Self::observed`].
#[derive(Debug)]
pub struct Adviser {
    pub(crate) trees: Vec<Table>,
}

/// Bytes of columns that are not sure that are fetched for one reader.
pub(crate) const UNSURE_BYTES_MAX: u64 = 16 << 20;

impl Adviser {
    /// `None` when the layout names no baskets or pages.
    pub fn new(layout: Layout) -> Option<Self> {
        let with_items = layout.trees.into_iter().filter(|tree| !tree.items.is_empty());
        let trees: Vec<Table> = with_items.map(Table::new).collect();
        (!trees.is_empty()).then_some(Self { trees })
    }

    /// Adds the trees of another adviser, which were parsed later. One of the same name takes the place of that which is known.
    pub fn add(&mut self, other: Self) {
        for mut table in other.trees {
            let is_it = |known: &&mut Table| {
                known.tree.name == table.tree.name && known.tree.columns.len() == table.tree.columns.len()
            };
            match self.trees.iter_mut().find(is_it) {
                Some(known) => {
                    table.uses = mem::take(&mut known.uses);
                    table.has_history |= known.has_history;
                    *known = table;
                }
                None => self.trees.push(table),
            }
        }
    }

    /// Bytes of memory that it takes.
    pub fn len_bytes(&self) -> usize {
        self.trees.iter().map(Table::len_bytes).sum()
    }

    /// The trees that have items, in the order of their numbers.
    pub fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.trees.iter().map(|table| &table.tree)
    }

    /// Notes that jobs read these columns of tree number `tree` in other files.
    pub fn expect(&mut self, tree: usize, columns: &[usize]) {
        let Some(table) = self.trees.get_mut(tree) else { return };
        for column in columns {
            if let Some(it) = table.uses.get_mut(*column)
                && matches!(it, Use::None | Use::Crossed | Use::First)
            {
                *it = Use::History;
                table.has_history = true;
            }
        }
    }

    /// Places a reader that has not read data yet at the beginning of the largest tree of which columns are expected to be read.
    /// Whether there is one.
    pub fn begin(&self, reader: &mut Reader) -> bool {
        if reader.tree.is_none() {
            let expected = self.trees.iter().enumerate().filter(|(_, table)| table.has_history);
            reader.tree = expected.max_by_key(|(_, table)| table.tree.items.len()).map(|(index, _)| index);
        }
        reader.expect_from_start()
    }

    /// Notes a request of `reader` for `ranges`; whether they are data of a tree. `evidence` returns what is known of the reads of
    /// a range.
    pub fn handle_read(
        &mut self,
        reader: &mut Reader,
        ranges: &[ByteRange],
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> bool {
        let touched = |table: &Table| {
            let touched = ranges.iter().flat_map(|range| table.touched(*range));
            touched.take(LOOKED_AT_MAX).collect::<Vec<_>>()
        };
        let found = self.trees.iter_mut().enumerate().map(|(index, table)| (index, touched(table), table));
        let Some((index, items, table)) = found.into_iter().find(|(_, items, _)| !items.is_empty()) else {
            return false;
        };
        // Before the column is promoted. A reader with a cache of its own asks for several at once.
        let single = match (ranges, items.as_slice()) {
            ([_], [touched]) => Some((touched.item, table.is_new(touched.item.column()))),
            _ => None,
        };
        // The first request for baskets shows little: it may be for all columns.
        if reader.enter(index) {
            table.promote_touched(&items);
        } else {
            items.iter().for_each(|touched| table.promote(touched.item.column(), Use::First));
        }
        let items: Vec<Item> = items.into_iter().map(|touched| touched.item).collect();
        if reader.handle_items(table, &items, evidence)
            && let Some((_, place)) = reader.place()
        {
            table.confirm_read(place, evidence);
            table.drop_unread(place, evidence);
        }
        reader.note_single(single);
        true
    }

    /// The items that `reader` comes to next and that it has not accepted yet.
    pub fn wanted(&self, reader: &Reader, bounds: AdviceBounds) -> Advice {
        let Some((table, place)) = self.place_of(reader) else { return Advice::default() };
        // First: they are of the current cluster.
        let guesses = place.guesses.wanted(table, place, bounds);
        if !guesses.is_empty() {
            let items: Vec<(u32, Item)> = guesses.iter().map(|guess| (guess.number, guess.item)).collect();
            return Advice { guesses, ..Advice::of(&items) };
        }
        let sure = table.next_items(place, Use::Sure, bounds);
        if !sure.is_empty() {
            return Advice::of(&sure);
        }
        // The first request shows less than other files, and nothing once later requests have shown more.
        let (unsure, unsure_max, source) = if table.has_history {
            (Use::History, bounds.history_max, AdviceSource::History)
        } else if table.has_sure() {
            return Advice::default();
        } else {
            (Use::First, UNSURE_BYTES_MAX, AdviceSource::Reads)
        };
        let len_max = bounds.len_max.min(unsure_max.saturating_sub(reader.unsure_bytes));
        if len_max == 0 {
            return Advice::default();
        }
        let items = table.next_items(place, unsure, AdviceBounds { len_max, ..bounds });
        let unsure_bytes = items.iter().map(|(_, item)| item.len_bytes()).sum();
        Advice { unsure_bytes, source, ..Advice::of(&items) }
    }

    /// Where a read, even one that needs nothing fetched, shows that more may be wanted: the data of the clusters after the current
    /// one. `None` when all columns in use were accepted to their end.
    pub fn zone(&self, reader: &Reader) -> Option<ByteRange> {
        let (table, place) = self.place_of(reader)?;
        let mut zone: Option<ByteRange> = None;
        let mut has_more = false;
        for column in table.columns_in_use() {
            let accepted = place.progress(column).accepted;
            has_more |= accepted < table.order.count(column);
            // Expected columns of a reader that has read nothing: its first read.
            let next_cluster = if place.requests > 0 { place.cluster.saturating_add(1) } else { 0 };
            let first = table.order.first_in(&table.tree, column, next_cluster);
            let Some(start) = table.order.item(&table.tree, column, first) else { continue };
            let last = table.order.item(&table.tree, column, accepted.max(first + 1) - 1).unwrap_or(start);
            let hull = ByteRange::between(start.offset(), last.end().max(start.end()));
            zone =
                Some(zone.map_or(hull, |zone| {
                    ByteRange::between(zone.start().min(hull.start()), zone.end().max(hull.end()))
                }));
        }
        let known = if has_more { zone } else { None };
        let zones = known.into_iter().chain(place.guesses.zone());
        zones.reduce(|one, other| ByteRange::between(one.start().min(other.start()), one.end().max(other.end())))
    }

    /// Bytes that `reader` has accepted and not come to yet, fetched in blocks of `block_len` bytes: at most so many.
    pub fn expected(&self, reader: &Reader, block_len: u64) -> u64 {
        let Some((table, place)) = self.place_of(reader) else { return 0 };
        let ahead = |column: usize| {
            let items = table.next_of_column(place, column)..place.progress(column).accepted;
            let items =
                items.take(LOOKED_AT_MAX).filter_map(move |number| table.order.item(&table.tree, column, number));
            let in_blocks = |item: Item| (item.end().div_ceil(block_len) - item.offset() / block_len) * block_len;
            items.map(in_blocks).sum::<u64>()
        };
        // Also what the first request has led to: a later one may come to it.
        table.columns_not_given_up().map(ahead).sum::<u64>() + place.guesses.expected()
    }

    fn place_of<'a>(&'a self, reader: &'a Reader) -> Option<(&'a Table, &'a Place)> {
        let (tree, place) = reader.place()?;
        Some((self.trees.get(tree)?, place))
    }
}
