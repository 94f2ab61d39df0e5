//! The use of the columns of a file, judged by its reads.

use crate::{
    Adviser, Observed,
    column_set::column_hash,
    reader::{Evidence, Place, Reader},
    tree_use::{LOOKED_AT_MAX, Table, Use},
};
use forebay_types::ByteRange;

/// Clusters that a reader must pass, unless it comes to the end, for its reads to show anything.
const CLUSTERS_MIN: u32 = 2;

impl Adviser {
    /// The use of columns by `reader`, for each tree by its number.
    pub fn observed(&self, reader: &Reader, evidence: &dyn Fn(ByteRange) -> Evidence) -> Vec<(usize, Observed)> {
        let of_tree = |(tree, place): (&usize, &Place)| {
            let observed = self.trees.get(*tree)?.observed(place, evidence)?;
            Some((*tree, observed))
        };
        reader.places.iter().filter_map(of_tree).collect()
    }
}

impl Table {
    fn observed(&self, place: &Place, evidence: &dyn Fn(ByteRange) -> Evidence) -> Option<Observed> {
        let is_used = |it: Use| !matches!(it, Use::None | Use::Crossed);
        let used = self.uses.iter().enumerate().filter(|(_, it)| is_used(**it));
        let used: Vec<usize> = used.map(|(column, _)| column).collect();
        // Bounds the time: of many columns fewer clusters are looked at.
        let items_max = (LOOKED_AT_MAX / used.len().max(1)).max(1);
        // Reads of what was fetched ahead are not all reported, or none if all was fetched before the first one.
        let read = used.iter().filter_map(|column| self.clusters_read(place, *column, items_max, evidence));
        let reported = (place.requests > 0).then_some((place.first, place.last));
        let hull = |(first, last): (u32, u32), (start, end)| (first.min(start), last.max(end));
        let (first, last) = read.chain(reported).reduce(hull)?;
        let clusters = (last - first).saturating_add(1);
        if clusters < CLUSTERS_MIN && clusters < self.tree.clusters {
            return None;
        }
        let name = |column: usize| self.tree.columns.get(column).map(|name| column_hash(name));
        let shares = used.into_iter().filter_map(|column| {
            let start = self.order.first_in(&self.tree, column, first);
            let end = self.order.first_in(&self.tree, column, last.saturating_add(1));
            let share = self.share_read(place, column, (start..end).take(items_max), evidence)?;
            Some((name(column)?, share))
        });
        Some(Observed { columns: shares.collect() })
    }

    /// The first and the last cluster of which a column was fetched ahead and read.
    fn clusters_read(
        &self,
        place: &Place,
        column: usize,
        items_max: usize,
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> Option<(u32, u32)> {
        let accepted = place.progress(column).accepted;
        let read = |number: u32| {
            let item = self.order.item(&self.tree, column, number)?;
            (evidence(item.range()) == Evidence::Read).then(|| item.cluster())
        };
        let last = (0..accepted).rev().take(items_max).find_map(read)?;
        let first = (0..accepted).take(items_max).find_map(read)?;
        Some((first, last))
    }

    /// The share of the passed items of a column that were read, in thousandths. `None` when that is not known of any.
    fn share_read(
        &self,
        place: &Place,
        column: usize,
        numbers: impl Iterator<Item = u32>,
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> Option<u16> {
        let items = numbers.filter_map(|number| self.order.item(&self.tree, column, number));
        let mut read = u64::from(place.progress(column).demanded);
        let mut known = read;
        for item in items {
            match evidence(item.range()) {
                Evidence::Read => (read, known) = (read + 1, known + 1),
                Evidence::Unread | Evidence::Missing => known += 1,
                Evidence::Unknown => {}
            }
        }
        u16::try_from((read * 1000).checked_div(known)?).ok()
    }
}
