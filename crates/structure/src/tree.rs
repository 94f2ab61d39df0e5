//! `TTree`: branches with the positions of their baskets, and clusters of entries.

use crate::{
    Refusal, Tree, TreeKind,
    cursor::{Cursor, count, unsigned},
    limits::{DEPTH_MAX, ITEMS_MAX},
    objects::{Classes, Version, named},
    table::TableBuilder,
};

/// Versions of `TTree` since ROOT 5.26, of `TBranch` and of `TBranchElement`. Layouts of others are not known.
const TREE_VERSIONS: std::ops::RangeInclusive<u16> = 16..=20;
const BRANCH_VERSIONS: std::ops::RangeInclusive<u16> = 10..=13;
const ELEMENT_VERSIONS: std::ops::RangeInclusive<u16> = 8..=10;

/// Reads the inflated object of a tree's key.
///
/// Returns the table and the bytes that it takes.
pub(crate) fn parse(
    object: &[u8],
    key_len: u16,
    is_ntuple: bool,
    name: String,
    table: TableBuilder,
) -> Result<(Tree, usize), Refusal> {
    let mut from = Cursor::new(object);
    if is_ntuple {
        Version::read(&mut from)?;
    }
    let header = TreeHeader::read(&mut from)?;
    let mut branches = Branches { table, baskets: Vec::new(), largest: (0, 0..0) };
    branches.read_array(&mut Classes::new(key_len), &mut from, "", 0)?;
    let Branches { mut table, baskets, largest } = branches;
    let clusters = if header.clusters.is_empty() {
        let bounds = baskets.get(largest.1).unwrap_or_default();
        Clusters::of_bounds(bounds.iter().map(|basket| basket.first_entry))
    } else {
        Clusters::of_ranges(&header.clusters)?
    };
    let mut cluster_count = clusters.count(header.entries)?;
    for basket in baskets {
        let cluster = clusters.of_entry(basket.first_entry)?;
        cluster_count = cluster_count.max(cluster.saturating_add(1));
        table.add_item(basket.column, cluster, basket.offset, basket.len)?;
    }
    Ok(table.finish(name, TreeKind::TTree, header.entries, cluster_count))
}

/// The members of a tree in front of its branches.
struct TreeHeader {
    entries: u64,
    /// First entry and size of the clusters of each range. Empty if unknown.
    clusters: Vec<(u64, u64)>,
}

impl TreeHeader {
    fn read(from: &mut Cursor<'_>) -> Result<Self, Refusal> {
        let version = Version::read(from)?.number;
        if !TREE_VERSIONS.contains(&version) {
            return Err(Refusal::UnknownVersion("the TTree"));
        }
        named(from)?;
        for _attributes in 0..3 {
            Version::skip_object(from)?;
        }
        let entries = unsigned(from.i64()?)?;
        // Sizes in bytes, a weight, and intervals of updates.
        from.skip(8 * if version >= 18 { 4 } else { 3 })?;
        from.skip(8 + 4 * if version >= 17 { 4 } else { 3 })?;
        let range_count = if version >= 19 { from.u32()? as usize } else { 0 };
        // Limits of entries, and the interval of saves.
        from.skip(8 * 4)?;
        let auto_flush = if version >= 18 { from.i64()? } else { 0 };
        from.skip(8)?;
        let clusters = if version >= 19 {
            cluster_ranges(from, range_count, entries, auto_flush)?
        } else {
            flushed(auto_flush, 0).into_iter().collect()
        };
        if version >= 20 {
            Version::skip_object(from)?;
        }
        Ok(Self { entries, clusters })
    }
}

/// The range of clusters from `first_entry` on, if the interval of flushes is known in entries.
fn flushed(auto_flush: i64, first_entry: u64) -> Option<(u64, u64)> {
    u64::try_from(auto_flush).ok().filter(|&size| size > 0).map(|size| (first_entry, size))
}

/// The ranges of clusters: of each one the last entry and the size of its clusters.
fn cluster_ranges(
    from: &mut Cursor<'_>,
    len: usize,
    entries: u64,
    auto_flush: i64,
) -> Result<Vec<(u64, u64)>, Refusal> {
    let [mut ends, mut sizes] = [array(from, len, 8)?, array(from, len, 8)?];
    let mut ranges = Vec::with_capacity(len);
    let mut first = 0;
    for _ in 0..len {
        let (end, size) = (unsigned(ends.i64()?)?, unsigned(sizes.i64()?)?);
        if end < first {
            return Err(Refusal::Damaged("ranges of clusters out of order"));
        }
        ranges.push((first, size));
        first = end + 1;
    }
    if first < entries || ranges.is_empty() {
        let rest = flushed(auto_flush, first).or_else(|| (!ranges.is_empty()).then_some((first, 0)));
        ranges.extend(rest);
    }
    Ok(ranges)
}

/// An array of `len` elements behind a byte that marks its presence. Its elements exist: a count beyond the record is damage.
fn array<'a>(from: &mut Cursor<'a>, len: usize, element_len: usize) -> Result<Cursor<'a>, Refusal> {
    if from.u8()? == 0 {
        return if len == 0 { Ok(Cursor::new(&[])) } else { Err(Refusal::Damaged("an array is missing")) };
    }
    let bytes = len.checked_mul(element_len).ok_or(Refusal::Damaged("an array is too long"))?;
    from.take(bytes).map(Cursor::new)
}

/// A basket, before its cluster is known.
struct Basket {
    column: usize,
    first_entry: u64,
    offset: u64,
    len: u32,
}

/// Collects branches and their baskets, depth first.
struct Branches {
    table: TableBuilder,
    baskets: Vec<Basket>,
    /// Bytes of the branch with most bytes, and its part of `baskets`.
    largest: (u64, std::ops::Range<usize>),
}

impl Branches {
    fn read_array<'a>(
        &mut self,
        classes: &mut Classes<'a>,
        from: &mut Cursor<'a>,
        parent: &str,
        depth: usize,
    ) -> Result<(), Refusal> {
        if depth >= DEPTH_MAX {
            return Err(Refusal::TooLarge("nesting of branches"));
        }
        classes.each_of_array(from, &mut |classes, class, from| match class {
            b"TBranch" => self.read_branch(classes, from, parent, depth),
            b"TBranchElement" => {
                if !ELEMENT_VERSIONS.contains(&Version::read(from)?.number) {
                    return Err(Refusal::UnknownVersion("a TBranchElement"));
                }
                self.read_branch(classes, from, parent, depth)
            }
            _ => Ok(()),
        })
    }

    fn read_branch<'a>(
        &mut self,
        classes: &mut Classes<'a>,
        from: &mut Cursor<'a>,
        parent: &str,
        depth: usize,
    ) -> Result<(), Refusal> {
        let version = Version::read(from)?.number;
        if !BRANCH_VERSIONS.contains(&version) {
            return Err(Refusal::UnknownVersion("a TBranch"));
        }
        let name = String::from_utf8_lossy(named(from)?);
        let column = self.table.add_column(&[parent, &name])?;
        Version::skip_object(from)?;
        from.skip(4 * 3)?;
        let written = count(from.i32()?)?;
        from.skip(8)?;
        if version >= 13 {
            Version::skip_object(from)?;
        }
        from.skip(4)?;
        let room = from.u32()? as usize;
        from.skip(4 + 8 * if version >= 11 { 4 } else { 3 })?;
        let prefix = [parent, &name, "/"].concat();
        self.read_array(classes, from, &prefix, depth + 1)?;
        for _leaves_and_baskets in 0..2 {
            Version::skip_object(from)?;
        }
        let arrays = [array(from, room, 4)?, array(from, room, 8)?, array(from, room, 8)?];
        // Baskets of another file are not in this one.
        if from.string()?.is_empty() { self.add_baskets(column, written.min(room), arrays) } else { Ok(()) }
    }

    fn add_baskets(&mut self, column: usize, written: usize, arrays: [Cursor<'_>; 3]) -> Result<(), Refusal> {
        let [mut lens, mut entries, mut positions] = arrays;
        let (begin, mut total) = (self.baskets.len(), 0);
        for _ in 0..written {
            let len = lens.i32()?;
            let (first_entry, offset) = (unsigned(entries.i64()?)?, unsigned(positions.i64()?)?);
            // A basket without a position is kept in the record itself.
            if offset != 0 {
                let len = u32::try_from(len).map_err(|_| Refusal::Damaged("a negative length of a basket"))?;
                if self.baskets.len() >= ITEMS_MAX {
                    return Err(Refusal::TooLarge("number of baskets"));
                }
                self.baskets.push(Basket { column, first_entry, offset, len });
                total += u64::from(len);
            }
        }
        if total > self.largest.0 {
            self.largest = (total, begin..self.baskets.len());
        }
        Ok(())
    }
}

/// A run of clusters of one size.
struct Run {
    first_entry: u64,
    /// Entries of each cluster; zero for one cluster up to the next run.
    size: u64,
    /// Number of the first cluster.
    first_cluster: u64,
}

/// The clusters of a tree.
struct Clusters(Vec<Run>);

impl Clusters {
    fn of_ranges(ranges: &[(u64, u64)]) -> Result<Self, Refusal> {
        let mut runs: Vec<Run> = Vec::with_capacity(ranges.len());
        for &(first_entry, size) in ranges {
            let first_cluster =
                runs.last().map_or(Ok(0), |run| run.cluster_before(first_entry).checked_add(1).ok_or(TOO_MANY))?;
            runs.push(Run { first_entry, size, first_cluster });
        }
        Ok(Self(runs))
    }

    /// Each bound begins a cluster.
    fn of_bounds(first_entries: impl Iterator<Item = u64>) -> Self {
        let mut bounds: Vec<u64> = first_entries.collect();
        bounds.sort_unstable();
        bounds.dedup();
        let runs =
            bounds.into_iter().zip(0..).map(|(first_entry, first_cluster)| Run { first_entry, size: 0, first_cluster });
        Self(runs.collect())
    }

    fn of_entry(&self, entry: u64) -> Result<u32, Refusal> {
        let behind = self.0.partition_point(|run| run.first_entry <= entry);
        let run = behind.checked_sub(1).and_then(|at| self.0.get(at));
        u32::try_from(run.map_or(0, |run| run.cluster_before(entry + 1))).map_err(|_| TOO_MANY)
    }

    /// Number of clusters of `entries` entries.
    fn count(&self, entries: u64) -> Result<u32, Refusal> {
        entries.checked_sub(1).map_or(Ok(0), |last| Ok(self.of_entry(last)?.saturating_add(1)))
    }
}

const TOO_MANY: Refusal = Refusal::TooLarge("number of clusters");

impl Run {
    /// The cluster of the entry in front of `end`.
    fn cluster_before(&self, end: u64) -> u64 {
        let entries = end.saturating_sub(self.first_entry + 1);
        self.first_cluster.saturating_add(entries.checked_div(self.size).unwrap_or(0))
    }
}
