//! The table of a tree: its columns, and where their baskets or pages lie.

use crate::{
    Refusal,
    limits::{COLUMNS_MAX, TABLES_LEN_MAX},
};
use forebay_types::ByteRange;
use std::fmt;

/// The format of a tree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TreeKind {
    TTree,
    RNTuple,
}

impl fmt::Display for TreeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TTree => "TTree",
            Self::RNTuple => "RNTuple",
        })
    }
}

/// A basket or a page: 16 bytes, because a file may have a million.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Item {
    /// The offset, and in the low 16 bits the column: items in order are sorted by offset.
    place: u64,
    len: u32,
    cluster: u32,
}

/// Bits of [`Item::place`] below the offset.
const COLUMN_BITS: u32 = 16;

impl Item {
    /// First byte in the file.
    pub const fn offset(self) -> u64 {
        self.place >> COLUMN_BITS
    }

    pub const fn len_bytes(self) -> u64 {
        self.len as u64
    }

    /// Behind its last byte.
    pub const fn end(self) -> u64 {
        self.offset() + self.len_bytes()
    }

    pub const fn range(self) -> ByteRange {
        ByteRange::between(self.offset(), self.end())
    }

    /// The column, as an index into [`Tree::columns`].
    pub const fn column(self) -> usize {
        (self.place & ((1 << COLUMN_BITS) - 1)) as usize
    }

    /// Number of the cluster of the first entry.
    pub const fn cluster(self) -> u32 {
        self.cluster
    }
}

/// The table of one tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tree {
    /// With the directories that lead to it: `dir/Events`.
    pub name: String,
    pub kind: TreeKind,
    pub entries: u64,
    pub clusters: u32,
    /// Full names: `parent/child` of branches; field path and, behind `#`, number of the column for `RNTuple`.
    pub columns: Vec<String>,
    /// Baskets or pages by offset. Of pages that several columns share, the first column counts.
    pub items: Vec<Item>,
}

/// Collects the table of one tree within limits.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    file_size: u64,
    columns: Vec<String>,
    items: Vec<Item>,
    /// Bytes that the table may still take.
    room: usize,
}

impl TableBuilder {
    /// A table of a file of `file_size` bytes, whose other tables take `taken` bytes.
    pub(crate) fn new(file_size: u64, taken: usize) -> Self {
        Self { file_size, columns: Vec::new(), items: Vec::new(), room: TABLES_LEN_MAX.saturating_sub(taken) }
    }

    fn take_room(&mut self, len: usize) -> Result<(), Refusal> {
        self.room = self.room.checked_sub(len).ok_or(Refusal::TooLarge("size of the tables"))?;
        Ok(())
    }

    /// Adds a column whose name consists of `parts`; returns its number.
    pub(crate) fn add_column(&mut self, parts: &[&str]) -> Result<usize, Refusal> {
        if self.columns.len() >= COLUMNS_MAX {
            return Err(Refusal::TooLarge("number of columns"));
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.take_room(size_of::<String>() + len)?;
        self.columns.push(parts.concat());
        Ok(self.columns.len() - 1)
    }

    /// Adds a basket or a page; one without bytes is not an item.
    pub(crate) fn add_item(&mut self, column: usize, cluster: u32, offset: u64, len: u32) -> Result<(), Refusal> {
        if len == 0 {
            return Ok(());
        }
        if offset.checked_add(u64::from(len)).is_none_or(|end| end > self.file_size) {
            return Err(Refusal::Damaged("a basket or page outside of the file"));
        }
        if offset >> (u64::BITS - COLUMN_BITS) != 0 {
            return Err(Refusal::TooLarge("size of the file"));
        }
        if column >= self.columns.len() {
            return Err(Refusal::Damaged("a page of a column that does not exist"));
        }
        self.take_room(size_of::<Item>())?;
        self.items.push(Item { place: offset << COLUMN_BITS | column as u64, len, cluster });
        Ok(())
    }

    /// The finished table, and the bytes that it takes.
    pub(crate) fn finish(self, name: String, kind: TreeKind, entries: u64, clusters: u32) -> (Tree, usize) {
        let Self { columns, mut items, .. } = self;
        items.sort_unstable();
        items.dedup_by_key(|item| item.offset());
        items.shrink_to_fit();
        let names: usize = columns.iter().map(|name| size_of::<String>() + name.len()).sum();
        let len = names + items.len() * size_of::<Item>();
        (Tree { name, kind, entries, clusters, columns, items }, len)
    }
}

/// A tree for tests: `items` are column, cluster, offset and length.
///
/// # Panics
/// When an item has a column that does not exist, or lies behind 2^48 bytes.
#[doc(hidden)]
pub fn test_tree(
    kind: TreeKind,
    columns: u64,
    clusters: u64,
    items: impl Iterator<Item = (u64, u64, u64, u64)>,
) -> Tree {
    let mut table = TableBuilder::new(1 << 47, 0);
    for column in 0..columns {
        table.add_column(&[&column.to_string()]).expect("within the limits");
    }
    for (column, cluster, offset, len) in items {
        let number = |value: u64| u32::try_from(value).expect("small");
        table.add_item(number(column) as usize, number(cluster), offset, number(len)).expect("within the limits");
    }
    table.finish("tree".to_owned(), kind, 0, u32::try_from(clusters).expect("small")).0
}
