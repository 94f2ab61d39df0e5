//! The place of one reader in the trees of a file.

use crate::{
    Item,
    advice::{Advice, key_of},
    guesses::Guesses,
    tree_use::Table,
};
use forebay_types::ByteRange;
use std::collections::BTreeMap;

/// Knowledge of the reads of a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evidence {
    /// It was fetched ahead, and no reader has come to it.
    Unread,
    /// It was fetched ahead, and a reader has come to it.
    Read,
    /// It is in the cache for another reason: perhaps it was read.
    Unknown,
    /// It is not in the cache.
    Missing,
}

/// The place of one reader in the trees of a file.
#[derive(Debug, Default)]
pub struct Reader {
    /// The tree of its last request.
    pub(crate) tree: Option<usize>,
    pub(crate) places: BTreeMap<usize, Place>,
    /// Bytes accepted of columns that were not sure.
    pub(crate) unsure_bytes: u64,
}

/// Its place in one tree.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The cluster of its last request.
    pub(crate) cluster: u32,
    pub(crate) requests: u32,
    /// The first and the last cluster of all its requests.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The columns that were read since it last went backwards, and the cluster from which on.
    pass: Pass,
    pass_start: u32,
    pub(crate) guesses: Guesses,
    columns: BTreeMap<u16, Progress>,
}

/// The columns that are read from a cluster on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Pass {
    #[default]
    Begun,
    OfOne(u16),
    OfSeveral,
}

/// Its progress in one column, as numbers of items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Behind the item that was read last.
    pub(crate) read: u32,
    /// Behind the last one that is being fetched or was read.
    pub(crate) accepted: u32,
    /// Items that were requested, and not fetched before.
    pub(crate) demanded: u32,
}

impl Reader {
    /// Notes that what `advice` names is being fetched.
    pub fn accept(&mut self, advice: &Advice) {
        self.unsure_bytes += advice.unsure_bytes;
        let Some(place) = self.tree.and_then(|tree| self.places.get_mut(&tree)) else { return };
        place.guesses.accept(&advice.guesses);
        for (column, next) in &advice.next {
            let progress = place.columns.entry(*column).or_default();
            progress.accepted = progress.accepted.max(*next);
        }
    }

    /// Whether it has read data of a tree.
    pub fn has_read(&self) -> bool {
        self.places.values().any(|place| place.requests > 0)
    }

    /// It has a place in its tree before its first request; whether it has one.
    pub(crate) fn expect_from_start(&mut self) -> bool {
        let Some(tree) = self.tree else { return false };
        self.places.entry(tree).or_default();
        true
    }

    /// Goes to a tree; whether it has read there before.
    pub(crate) fn enter(&mut self, tree: usize) -> bool {
        self.tree = Some(tree);
        self.places.get(&tree).is_some_and(|place| place.requests > 0)
    }

    /// Notes whether the last request was for a single item, and whether that is of a new column.
    pub(crate) fn note_single(&mut self, single: Option<(Item, bool)>) {
        let Some(place) = self.tree.and_then(|tree| self.places.get_mut(&tree)) else { return };
        match single {
            Some((item, is_new)) => place.guesses.handle_item(item, is_new),
            None => place.guesses.end(),
        }
    }

    /// The tree of the last request, and the place in it.
    pub(crate) fn place(&self) -> Option<(usize, &Place)> {
        let tree = self.tree?;
        Some((tree, self.places.get(&tree)?))
    }

    /// Goes to the items of one request in the tree; whether it has gone to a later cluster.
    pub(crate) fn handle_items(
        &mut self,
        table: &Table,
        items: &[Item],
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> bool {
        let Some(tree) = self.tree else { return false };
        let place = self.places.entry(tree).or_default();
        let before = place.cluster;
        // Backwards too: readers of one column after the other begin again with each.
        place.cluster = items.iter().map(|item| item.cluster()).max().unwrap_or(before);
        let start = items.iter().map(|item| item.cluster()).min().unwrap_or(before);
        place.first = if place.requests == 0 { start } else { place.first.min(start) };
        place.last = place.last.max(place.cluster);
        if place.cluster < before || place.requests == 0 {
            (place.pass, place.pass_start) = (Pass::Begun, start);
        }
        items.iter().for_each(|item| place.pass.note(key_of(item.column())));
        place.requests = place.requests.saturating_add(1);
        for item in items {
            let next = table.order.number_of(&table.tree, *item) + 1;
            let progress = place.columns.entry(key_of(item.column())).or_default();
            if next > progress.read && evidence(item.range()) != Evidence::Read {
                progress.demanded += 1;
            }
            progress.read = next;
            progress.accepted = progress.accepted.max(next);
        }
        place.cluster > before
    }
}

impl Pass {
    fn note(&mut self, column: u16) {
        *self = match *self {
            Self::Begun => Self::OfOne(column),
            Self::OfOne(one) if one == column => Self::OfOne(one),
            _ => Self::OfSeveral,
        };
    }
}

impl Place {
    /// Whether it reads several columns of a cluster before it goes to the next one.
    pub(crate) fn reads_columns_together(&self) -> bool {
        self.pass == Pass::OfSeveral
    }

    /// The cluster from which on its reader comes to a column. To the others it comes back when it reads one column after the other.
    pub(crate) fn cluster_of(&self, column: usize) -> u32 {
        let is_left = |one: u16| one != key_of(column);
        match self.pass {
            Pass::OfOne(one) if is_left(one) => self.pass_start,
            _ => self.cluster,
        }
    }

    pub(crate) fn progress(&self, column: usize) -> Progress {
        self.columns.get(&key_of(column)).copied().unwrap_or_default()
    }
}
