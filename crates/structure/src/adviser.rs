//! Which columns of a file are read, and where their next baskets or pages lie.

use crate::{
    Evidence, Item, Layout, Tree,
    guesses::Guess,
    item_order::ItemOrder,
    reader::{Place, Reader, key_of},
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

/// The table of a tree, and the use of its columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) tree: Tree,
    pub(crate) order: ItemOrder,
    pub(crate) uses: Vec<Use>,
    /// Whether columns of it are expected to be read.
    has_history: bool,
}

/// The use of a column.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Use {
    #[default]
    None,
    /// It was fetched, and not read.
    Dropped,
    /// A range was read across it once: perhaps it is of no use to the reader.
    Crossed,
    /// In the first request of a reader only: ROOT begins with all columns that are not turned off.
    First,
    /// Expected, because jobs read it in other files of the dataset.
    History,
    /// In a later request.
    Sure,
}

/// An item that a request touches.
struct Touched {
    item: Item,
    /// Whether others of the same range lie on both sides. Readers merge ranges across what they do not need.
    is_between: bool,
}

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

/// Items with gaps up to this between them are fetched together.
const GAP_MAX: u64 = 4 << 10;

/// Bytes of columns that are not sure that are fetched for one reader.
pub(crate) const UNSURE_BYTES_MAX: u64 = 16 << 20;

/// Items that are looked at for an advice or an observation: bounds its time.
pub(crate) const LOOKED_AT_MAX: usize = 16 << 10;

/// Clusters that a reader passes without a read of a column after which it is not fetched any more.
const PASSED_CLUSTERS: u32 = 2;

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
        let touched = |table: &Table| ranges.iter().flat_map(|range| table.touched(*range)).collect::<Vec<_>>();
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
        let zones = zone.filter(|_| has_more).into_iter().chain(place.guesses.zone());
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

impl Advice {
    /// Of items with their numbers, of sure columns.
    fn of(items: &[(u32, Item)]) -> Self {
        Self { ranges: ranges_of(items), next: next_of(items), ..Self::default() }
    }
}

impl Table {
    fn new(tree: Tree) -> Self {
        let uses = vec![Use::None; tree.columns.len()];
        Self { order: ItemOrder::new(&tree), uses, tree, has_history: false }
    }

    fn len_bytes(&self) -> usize {
        let names: usize = self.tree.columns.iter().map(|name| size_of::<String>() + name.len()).sum();
        names + self.tree.items.len() * size_of::<Item>() + self.order.len_bytes() + self.uses.len()
    }

    /// The items that a range covers by half, or half of which is in one of them: also a read of the key of a basket.
    fn touched(&self, range: ByteRange) -> Vec<Touched> {
        let items = &self.tree.items;
        // Items may overlap in a damaged file only; the one before the start may reach into the range.
        let first = items.partition_point(|item| item.offset() <= range.start()).saturating_sub(1);
        let from = items.get(first..).unwrap_or_default();
        let is_touched = |item: &&Item| {
            let common = item.range().intersection(range).map_or(0, |it| it.len());
            common > 0 && (common * 2 >= item.len_bytes() || common * 2 >= range.len())
        };
        let touched = from.iter().take_while(|item| item.offset() < range.end()).filter(is_touched);
        let mut touched: Vec<Touched> = touched.map(|item| Touched { item: *item, is_between: true }).collect();
        if let [first, ..] = touched.as_mut_slice() {
            first.is_between = false;
        }
        if let [.., last] = touched.as_mut_slice() {
            last.is_between = false;
        }
        touched
    }

    /// Notes a request behind the first one.
    fn promote_touched(&mut self, touched: &[Touched]) {
        let mut between: Vec<usize> = touched.iter().filter(|it| it.is_between).map(|it| it.item.column()).collect();
        between.sort_unstable();
        between.dedup();
        for column in between {
            match self.uses.get(column) {
                None | Some(Use::Dropped) => {}
                Some(Use::None) => self.promote(column, Use::Crossed),
                // In the request after that it is moved in any case.
                Some(_) => self.promote(column, Use::Sure),
            }
        }
        touched.iter().filter(|it| !it.is_between).for_each(|it| self.promote(it.item.column(), Use::Sure));
    }

    /// Whether requests have shown columns beyond doubt.
    fn has_sure(&self) -> bool {
        self.uses.contains(&Use::Sure)
    }

    fn promote(&mut self, column: usize, to: Use) {
        if let Some(it) = self.uses.get_mut(column)
            && !matches!((*it, to), (Use::Sure, _) | (Use::History, Use::First))
        {
            *it = to;
        }
    }

    /// Those that are fetched ahead.
    fn columns_in_use(&self) -> impl Iterator<Item = usize> {
        let is_first_used = !self.has_history && !self.has_sure();
        let is_used = move |it: Use| matches!(it, Use::Sure | Use::History) || (it == Use::First && is_first_used);
        self.uses.iter().enumerate().filter(move |(_, it)| is_used(**it)).map(|(column, _)| column)
    }

    fn columns_not_given_up(&self) -> impl Iterator<Item = usize> {
        let uses = self.uses.iter().enumerate();
        uses.filter(|(_, it)| !matches!(it, Use::None | Use::Crossed | Use::Dropped)).map(|(column, _)| column)
    }

    fn columns_with(&self, wanted: Use) -> impl Iterator<Item = usize> {
        self.uses.iter().enumerate().filter(move |(_, it)| **it == wanted).map(|(column, _)| column)
    }

    /// Columns that were expected, fetched for the clusters before the current one, and read are sure. Their reads were not reported:
    /// that of the first column of a cluster shows where the reader is.
    fn confirm_read(&mut self, place: &Place, evidence: &dyn Fn(ByteRange) -> Evidence) {
        let from = place.cluster.saturating_sub(PASSED_CLUSTERS);
        let is_read = |column: &usize| {
            let first = self.order.first_in(&self.tree, *column, from);
            let end = self.order.first_in(&self.tree, *column, place.cluster).min(place.progress(*column).accepted);
            let passed = (first..end).filter_map(|number| self.order.item(&self.tree, *column, number));
            // All of them: a short one may lie in one block with those of other columns.
            let mut read = passed.map(|item| evidence(item.range()) == Evidence::Read).peekable();
            read.peek().is_some() && read.all(|read| read)
        };
        let read: Vec<usize> = self.columns_with(Use::History).filter(is_read).collect();
        read.into_iter().for_each(|column| self.promote(column, Use::Sure));
    }

    /// Columns that were fetched for the clusters before the current one and not read are not fetched any more. Readers of one column
    /// after the other come to them later.
    fn drop_unread(&mut self, place: &Place, evidence: &dyn Fn(ByteRange) -> Evidence) {
        if !place.reads_columns_together() {
            return;
        }
        let Some(from) = place.cluster.checked_sub(PASSED_CLUSTERS) else { return };
        let is_unused = |column: usize| {
            let first = self.order.first_in(&self.tree, column, from);
            let end = self.order.first_in(&self.tree, column, place.cluster).min(place.progress(column).accepted);
            let passed = (first..end).filter_map(|number| self.order.item(&self.tree, column, number));
            let mut unread = passed.map(|item| evidence(item.range()) == Evidence::Unread).peekable();
            unread.peek().is_some() && unread.all(|unread| unread)
        };
        let fetched = self.columns_with(Use::Sure).chain(self.columns_with(Use::History));
        let unused: Vec<usize> = fetched.filter(|column| is_unused(*column)).collect();
        for column in unused {
            if let Some(it) = self.uses.get_mut(column) {
                *it = Use::Dropped;
            }
        }
    }

    /// The number of the first item of a column that its reader has not come to.
    fn next_of_column(&self, place: &Place, column: usize) -> u32 {
        // Reads of columns that were fetched are not all seen: where it is in one column, it is in the others.
        self.order.first_in(&self.tree, column, place.cluster_of(column)).max(place.progress(column).read)
    }

    /// The next items of columns with this use, in order of cluster and offset, with their numbers: within the window, and no more
    /// than the length, but at least one if any is within the window.
    fn next_items(&self, place: &Place, wanted: Use, bounds: AdviceBounds) -> Vec<(u32, Item)> {
        let mut ahead = self.items_ahead(place, wanted, bounds.window);
        ahead.sort_unstable_by_key(|(_, item)| (item.cluster(), item.offset()));
        let (mut sum, mut len) = (0, 0);
        ahead.retain(|(number, item)| {
            sum += item.len_bytes();
            let is_next = sum <= bounds.window && *number >= place.progress(item.column()).accepted;
            len += if is_next { item.len_bytes() } else { 0 };
            is_next && (len <= bounds.len_max || len == item.len_bytes())
        });
        ahead
    }

    /// The items of columns with this use from the place on, of as many clusters as fill the window.
    fn items_ahead(&self, place: &Place, wanted: Use, window: u64) -> Vec<(u32, Item)> {
        let mut clusters = 1_u32;
        loop {
            let end = place.cluster.saturating_add(clusters);
            let (mut ahead, mut bytes) = (Vec::new(), 0);
            for column in self.columns_with(wanted) {
                for number in self.next_of_column(place, column)..self.order.first_in(&self.tree, column, end) {
                    let Some(item) = self.order.item(&self.tree, column, number) else { break };
                    bytes += item.len_bytes();
                    ahead.push((number, item));
                    if ahead.len() >= LOOKED_AT_MAX {
                        return ahead;
                    }
                }
            }
            if bytes >= window || end >= self.tree.clusters {
                return ahead;
            }
            clusters = clusters.saturating_mul(2);
        }
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
