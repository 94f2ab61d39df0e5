//! The items of a tree, column by column.

use crate::{Item, Tree};

/// The order of the items of a tree by column, cluster and offset, in 4 bytes for each: what a reader of some columns comes to next.
#[derive(Debug)]
pub(crate) struct ItemOrder {
    /// Indices into [`Tree::items`]; those of a column follow each other.
    order: Vec<u32>,
    /// The first position of each column in the order, and behind them the number of items.
    starts: Vec<u32>,
}

impl ItemOrder {
    pub(crate) fn new(tree: &Tree) -> Self {
        // A tree has at most `ITEMS_MAX` items.
        let count = u32::try_from(tree.items.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..count).collect();
        let key =
            |index: &u32| tree.items.get(*index as usize).map(|item| (item.column(), item.cluster(), item.offset()));
        order.sort_unstable_by_key(key);
        let mut starts = Vec::with_capacity(tree.columns.len() + 1);
        let mut position = 0;
        for column in 0..tree.columns.len() {
            starts.push(position);
            let of_column = |index: &&u32| key(index).is_some_and(|(it, ..)| it == column);
            let rest = order.get(position as usize..).unwrap_or_default();
            position += u32::try_from(rest.iter().take_while(of_column).count()).unwrap_or_default();
        }
        starts.push(position);
        Self { order, starts }
    }

    /// Number of items of a column.
    pub(crate) fn count(&self, column: usize) -> u32 {
        let start_of = |column: usize| self.starts.get(column).copied().unwrap_or_default();
        start_of(column + 1).saturating_sub(start_of(column))
    }

    /// The item of a column with this number.
    pub(crate) fn item(&self, tree: &Tree, column: usize, number: u32) -> Option<Item> {
        let start = self.starts.get(column)?;
        let index = self.order.get((start + number) as usize)?;
        tree.items.get(*index as usize).copied().filter(|item| item.column() == column)
    }

    /// The number of the first item of a column that is in `cluster` or a later one.
    pub(crate) fn first_in(&self, tree: &Tree, column: usize, cluster: u32) -> u32 {
        self.first_from(tree, column, (cluster, 0))
    }

    /// The number of `item` in its column.
    pub(crate) fn number_of(&self, tree: &Tree, item: Item) -> u32 {
        self.first_from(tree, item.column(), (item.cluster(), item.offset()))
    }

    /// The number of the first item of a column that is not before this cluster and offset.
    fn first_from(&self, tree: &Tree, column: usize, place: (u32, u64)) -> u32 {
        let (mut low, mut high) = (0, self.count(column));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.item(tree, column, middle).is_some_and(|item| (item.cluster(), item.offset()) < place) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes that it takes.
    pub(crate) fn len_bytes(&self) -> usize {
        (self.order.len() + self.starts.len()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TreeKind, test_tree};

    #[test]
    fn items_are_found_by_cluster_and_offset() {
        // Clusters whose items do not follow each other in the file.
        let items = (0..60).map(|number| (number % 2, number / 2 % 3, 1000 + 100 * number, 10));
        let tree = test_tree(TreeKind::TTree, 2, 3, items);
        let order = ItemOrder::new(&tree);
        for column in 0..2 {
            assert_eq!([0, 1, 2, 3].map(|cluster| order.first_in(&tree, column, cluster)), [0, 10, 20, 30]);
            for number in 0..order.count(column) {
                let item = order.item(&tree, column, number).unwrap();
                assert_eq!(order.number_of(&tree, item), number);
            }
        }
    }
}
