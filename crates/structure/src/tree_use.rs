//! The table of a tree, and the use of its columns.

use crate::{
    Item, Tree,
    advice::AdviceBounds,
    item_order::ItemOrder,
    reader::{Evidence, Place},
};
use forebay_types::ByteRange;

/// The table of a tree, and the use of its columns.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) tree: Tree,
    pub(crate) order: ItemOrder,
    pub(crate) uses: Vec<Use>,
    /// Whether columns of it are expected to be read.
    pub(crate) has_history: bool,
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
pub(crate) struct Touched {
    pub(crate) item: Item,
    /// Whether others of the same range lie on both sides. Readers merge ranges across what they do not need.
    is_between: bool,
}

/// Items that are looked at for a request, an advice or an observation: bounds its time.
pub(crate) const LOOKED_AT_MAX: usize = 16 << 10;

/// Clusters that a reader passes without a read of a column after which it is not fetched any more.
const PASSED_CLUSTERS: u32 = 2;

impl Table {
    pub(crate) fn new(tree: Tree) -> Self {
        let uses = vec![Use::None; tree.columns.len()];
        Self { order: ItemOrder::new(&tree), uses, tree, has_history: false }
    }

    pub(crate) fn len_bytes(&self) -> usize {
        let names: usize = self.tree.columns.iter().map(|name| size_of::<String>() + name.len()).sum();
        names + self.tree.items.len() * size_of::<Item>() + self.order.len_bytes() + self.uses.len()
    }

    /// The items that a range covers by half, or half of which is in one of them: also a read of the key of a basket.
    pub(crate) fn touched(&self, range: ByteRange) -> Vec<Touched> {
        let items = &self.tree.items;
        // Items may overlap in a damaged file only; the one before the start may reach into the range.
        let first = items.partition_point(|item| item.offset() <= range.start()).saturating_sub(1);
        let from = items.get(first..).unwrap_or_default();
        let is_touched = |item: &&Item| {
            let common = item.range().intersection(range).map_or(0, |it| it.len());
            common > 0 && (common * 2 >= item.len_bytes() || common * 2 >= range.len())
        };
        let near = from.iter().take_while(|item| item.offset() < range.end()).take(LOOKED_AT_MAX);
        let touched = near.filter(is_touched);
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
    pub(crate) fn promote_touched(&mut self, touched: &[Touched]) {
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
    pub(crate) fn has_sure(&self) -> bool {
        self.uses.contains(&Use::Sure)
    }

    pub(crate) fn promote(&mut self, column: usize, to: Use) {
        if let Some(it) = self.uses.get_mut(column)
            && !matches!((*it, to), (Use::Sure, _) | (Use::History, Use::First))
        {
            *it = to;
        }
    }

    /// Those that are fetched ahead.
    pub(crate) fn columns_in_use(&self) -> impl Iterator<Item = usize> {
        let is_first_used = !self.has_history && !self.has_sure();
        let is_used = move |it: Use| matches!(it, Use::Sure | Use::History) || (it == Use::First && is_first_used);
        self.uses.iter().enumerate().filter(move |(_, it)| is_used(**it)).map(|(column, _)| column)
    }

    pub(crate) fn columns_not_given_up(&self) -> impl Iterator<Item = usize> {
        let uses = self.uses.iter().enumerate();
        uses.filter(|(_, it)| !matches!(it, Use::None | Use::Crossed | Use::Dropped)).map(|(column, _)| column)
    }

    pub(crate) fn columns_with(&self, wanted: Use) -> impl Iterator<Item = usize> {
        self.uses.iter().enumerate().filter(move |(_, it)| **it == wanted).map(|(column, _)| column)
    }

    /// Columns that were expected, fetched for the clusters before the current one, and read are sure. Their reads were not reported:
    /// that of the first column of a cluster shows where the reader is.
    pub(crate) fn confirm_read(&mut self, place: &Place, evidence: &dyn Fn(ByteRange) -> Evidence) {
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
    pub(crate) fn drop_unread(&mut self, place: &Place, evidence: &dyn Fn(ByteRange) -> Evidence) {
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
    pub(crate) fn next_of_column(&self, place: &Place, column: usize) -> u32 {
        // Reads of columns that were fetched are not all seen: where it is in one column, it is in the others.
        self.order.first_in(&self.tree, column, place.cluster_of(column)).max(place.progress(column).read)
    }

    /// The next items of columns with this use, in order of cluster and offset, with their numbers: within the window, and no more
    /// than the length, but at least one if any is within the window.
    pub(crate) fn next_items(&self, place: &Place, wanted: Use, bounds: AdviceBounds) -> Vec<(u32, Item)> {
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
