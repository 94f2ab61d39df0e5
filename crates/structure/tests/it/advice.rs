//! Advice for the readers of a table.

use forebay_structure::{Advice, AdviceBounds, Adviser, Evidence, Layout, Reader, TreeKind, test_tree};
use forebay_types::ByteRange;
use proptest::prelude::*;
use std::cell::Cell;

const ITEM: u64 = 1000;
// Too far apart to be fetched together.
const STRIDE: u64 = 8000;
const COLUMNS: u64 = 10;
const CLUSTERS: u64 = 20;
const BOUNDS: AdviceBounds = AdviceBounds { window: 10 * ITEM, len_max: 4 * ITEM, history_max: 6 * ITEM, block_len: 1 };

/// A tree with one item of each column in each cluster.
fn adviser() -> Adviser {
    let items = (0..CLUSTERS).flat_map(|cluster| (0..COLUMNS).map(move |column| (column, cluster)));
    let items = items.map(|(column, cluster)| (column, cluster, item(column, cluster).start(), ITEM));
    adviser_of(items, COLUMNS, CLUSTERS)
}

fn adviser_of(items: impl Iterator<Item = (u64, u64, u64, u64)>, columns: u64, clusters: u64) -> Adviser {
    let tree = test_tree(TreeKind::TTree, columns, clusters, items);
    Adviser::new(Layout { trees: vec![tree], ..Layout::default() }).expect("it has items")
}

fn item(column: u64, cluster: u64) -> ByteRange {
    ByteRange::at(10_000 + (cluster * COLUMNS + column) * STRIDE, ITEM)
}

fn read(adviser: &mut Adviser, reader: &mut Reader, ranges: &[ByteRange]) -> bool {
    adviser.handle_read(reader, ranges, &|_| Evidence::Missing)
}

/// All that is wanted, accepted piece by piece.
fn take_all(adviser: &Adviser, reader: &mut Reader) -> Vec<ByteRange> {
    let mut ranges = Vec::new();
    loop {
        let advice = adviser.wanted(reader, BOUNDS);
        if advice == Advice::default() {
            return ranges;
        }
        reader.accept(&advice);
        ranges.extend(advice.ranges);
    }
}

#[test]
fn metadata_and_unknown_bytes_teach_nothing() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    assert!(!read(&mut adviser, &mut reader, &[ByteRange::at(0, 300), ByteRange::at(9_000, 999)]));
    assert!(!read(&mut adviser, &mut reader, &[ByteRange::at(10_000 + CLUSTERS * COLUMNS * STRIDE, 500)]));
    assert!(take_all(&adviser, &mut reader).is_empty());
    assert!(adviser.zone(&reader).is_none());
}

#[test]
fn the_columns_of_later_requests_are_fetched_up_to_the_window_cluster_by_cluster() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    assert!(read(&mut adviser, &mut reader, &[item(3, 0)]));
    assert!(read(&mut adviser, &mut reader, &[item(5, 0)]));
    assert!(read(&mut adviser, &mut reader, &[item(3, 1)]));
    let wanted = take_all(&adviser, &mut reader);
    // Columns 3 and 5 from the cluster on that was read: the item that was read counts for nothing.
    assert_eq!(wanted[..3], [item(5, 1), item(3, 2), item(5, 2)]);
    assert_eq!(wanted.len() as u64 * ITEM, BOUNDS.window);
    assert_eq!(adviser.expected(&reader, ITEM), BOUNDS.window);
    let zone = adviser.zone(&reader).unwrap();
    assert!(zone.contains(item(3, 2).start()) && !zone.contains(item(3, 1).start()));
    assert!(read(&mut adviser, &mut reader, &[item(5, 3)]));
    let more = take_all(&adviser, &mut reader);
    assert_eq!((more.first(), more.len()), (Some(&item(5, 6)), 4));
}

#[test]
fn a_read_of_the_key_of_a_basket_is_one_of_its_column() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    for cluster in 0..2 {
        assert!(read(&mut adviser, &mut reader, &[ByteRange::at(item(7, cluster).start(), 34)]));
    }
    assert_eq!(take_all(&adviser, &mut reader).first(), Some(&item(7, 2)));
}

#[test]
fn a_request_for_many_items_is_looked_at_up_to_a_limit() {
    let mut adviser = adviser_of((0..20_000).map(|number| (0, 0, 16 * number, 16)), 1, 1);
    // A range of more items than the limit, and two with more together.
    for ranges in [&[ByteRange::at(0, 320_000)][..], &[ByteRange::at(0, 200_000), ByteRange::at(200_000, 120_000)]] {
        let looked_at = Cell::new(0);
        let evidence = |_: ByteRange| {
            looked_at.set(looked_at.get() + 1);
            Evidence::Missing
        };
        assert!(adviser.handle_read(&mut Reader::default(), ranges, &evidence));
        assert_eq!(looked_at.get(), 16 << 10);
    }
}

#[test]
fn readers_of_one_column_after_the_other_begin_again_with_each() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    for cluster in 0..CLUSTERS {
        read(&mut adviser, &mut reader, &[item(1, cluster)]);
        take_all(&adviser, &mut reader);
    }
    read(&mut adviser, &mut reader, &[item(4, 0)]);
    assert_eq!(take_all(&adviser, &mut reader).first(), Some(&item(4, 1)));
}

#[test]
fn the_first_request_counts_until_others_show_more_and_costs_a_bounded_number_of_bytes() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    let all: Vec<ByteRange> = (0..COLUMNS).map(|column| item(column, 0)).collect();
    read(&mut adviser, &mut reader, &all);
    assert_eq!(take_all(&adviser, &mut reader)[0], item(0, 1), "the first items are read");
    read(&mut adviser, &mut reader, &[item(2, 1)]);
    assert_eq!(adviser.wanted(&reader, BOUNDS).ranges.first(), Some(&item(2, 2)));
    let large = (0..40).map(|cluster| (0, cluster, cluster << 20, 1 << 20));
    let (adviser, mut reader) = (&mut adviser_of(large, 1, 40), Reader::default());
    read(adviser, &mut reader, &[ByteRange::at(0, 1 << 20)]);
    let bounds = AdviceBounds { window: 64 << 20, len_max: 1 << 20, history_max: 0, block_len: 1 };
    let mut bytes = 0;
    while let advice = adviser.wanted(&reader, bounds)
        && !advice.ranges.is_empty()
    {
        bytes += advice.ranges.iter().map(|range| range.len()).sum::<u64>();
        reader.accept(&advice);
    }
    assert_eq!(bytes, 16 << 20);
}

#[test]
fn a_column_that_is_fetched_and_not_read_is_given_up() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    for cluster in 0..2 {
        read(&mut adviser, &mut reader, &[item(3, cluster), item(5, cluster)]);
    }
    take_all(&adviser, &mut reader);
    let evidence = |range: ByteRange| {
        if (range.start() - 10_000) / STRIDE % COLUMNS == 5 { Evidence::Unread } else { Evidence::Read }
    };
    for cluster in 2..5 {
        assert!(adviser.handle_read(&mut reader, &[item(3, cluster)], &evidence));
    }
    let wanted = take_all(&adviser, &mut reader);
    assert!(!wanted.is_empty() && wanted.iter().all(|range| (range.start() - 10_000) / STRIDE % COLUMNS == 3));
}

#[test]
fn a_reader_of_one_column_after_the_other_gives_up_none_of_them() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    adviser.expect(0, &[3, 5, 8]);
    assert!(adviser.begin(&mut reader));
    let column_of = |range: ByteRange| (range.start() - 10_000) / STRIDE % COLUMNS;
    let bounds = AdviceBounds { history_max: 100 * ITEM, window: 100 * ITEM, len_max: ITEM, block_len: 1 };
    let mut wanted = Vec::new();
    // Fetched a little at a time, while the first of the columns is read to its end.
    for cluster in 0..CLUSTERS {
        let evidence = |range: ByteRange| if column_of(range) == 3 { Evidence::Read } else { Evidence::Unread };
        adviser.handle_read(&mut reader, &[item(3, cluster)], &evidence);
        let advice = adviser.wanted(&reader, bounds);
        reader.accept(&advice);
        wanted.extend(advice.ranges);
    }
    let ahead: Vec<ByteRange> = wanted.iter().copied().filter(|range| column_of(*range) != 3).collect();
    assert_eq!(adviser.expected(&reader, ITEM), ahead.len() as u64 * ITEM, "the reader comes back to them");
    while let advice = adviser.wanted(&reader, bounds)
        && !advice.ranges.is_empty()
    {
        reader.accept(&advice);
        wanted.extend(advice.ranges);
    }
    for column in [5, 8] {
        let mut clusters: Vec<u64> = (wanted.iter().filter(|range| column_of(**range) == column))
            .map(|range| (range.start() - 10_000) / STRIDE / COLUMNS)
            .collect();
        clusters.sort_unstable();
        assert_eq!(clusters, (0..CLUSTERS).collect::<Vec<_>>(), "all of column {column}, each item once");
    }
}

#[test]
fn what_the_first_request_has_led_to_is_expected_until_it_is_given_up() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    read(&mut adviser, &mut reader, &[item(3, 0)]);
    let ahead = take_all(&adviser, &mut reader).len() as u64;
    assert!(ahead > 0);
    read(&mut adviser, &mut reader, &[item(5, 0)]);
    assert!(adviser.expected(&reader, STRIDE) >= ahead * STRIDE);
}

#[test]
fn what_a_range_reads_across_once_is_not_fetched() {
    // In the first cluster short items lie close together; of the others each column has one far from the next.
    let short = (0..COLUMNS).map(|column| (column, 0, 1000 + column * 100, 100));
    let long = (1..CLUSTERS).flat_map(|cluster| (0..COLUMNS).map(move |column| (column, cluster)));
    let long = long.map(|(column, cluster)| (column, cluster, item(column, cluster).start(), ITEM));
    let (mut adviser, mut reader) = (adviser_of(short.chain(long), COLUMNS, CLUSTERS), Reader::default());
    read(&mut adviser, &mut reader, &[ByteRange::at(1200, 100)]);
    read(&mut adviser, &mut reader, &[ByteRange::between(1200, 1900)]);
    let columns = |wanted: Vec<ByteRange>| {
        let mut columns: Vec<u64> = wanted.iter().map(|range| (range.start() - 10_000) / STRIDE % COLUMNS).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    };
    assert_eq!(columns(take_all(&adviser, &mut reader)), [2, 8], "both ends of the range");
    // Blocks of columns in use may hold items of those that were read across: they are not taken for read.
    let observed = adviser.observed(&reader, &|_| Evidence::Read);
    assert_eq!(observed[0].1.columns.len(), 2);
    // Read across again, it is moved in any case.
    read(&mut adviser, &mut reader, &[ByteRange::between(item(2, 1).start(), item(4, 1).end())]);
    assert_eq!(columns(take_all(&adviser, &mut reader)), [3, 4], "besides those that are being fetched");
}

#[test]
fn columns_of_the_first_request_alone_are_not_fetched_once_others_are_known() {
    let (mut adviser, mut reader) = (adviser(), Reader::default());
    let all: Vec<ByteRange> = (0..COLUMNS).map(|column| item(column, 0)).collect();
    read(&mut adviser, &mut reader, &all);
    // To the end of the file.
    let rest: Vec<ByteRange> = (1..CLUSTERS).map(|cluster| item(2, cluster)).collect();
    read(&mut adviser, &mut reader, &rest);
    assert!(take_all(&adviser, &mut reader).is_empty());
}

#[test]
fn readers_share_columns_and_have_places_of_their_own() {
    let (mut adviser, mut first, mut second) = (adviser(), Reader::default(), Reader::default());
    for cluster in 0..2 {
        read(&mut adviser, &mut first, &[item(3, cluster)]);
    }
    read(&mut adviser, &mut second, &[item(6, 10)]);
    assert_eq!(take_all(&adviser, &mut second).first(), Some(&item(3, 10)));
    assert_eq!(take_all(&adviser, &mut first).first(), Some(&item(3, 2)));
}

proptest! {
    #[test]
    fn advice_lies_within_the_items_and_ends(
        items in prop::collection::vec((0_u64..6, 0_u64..9, 0_u64..50_000, 1_u64..3000), 1..80),
        reads in prop::collection::vec(prop::collection::vec((0_u64..60_000, 1_u64..5000), 1..5), 1..20),
        window in 0_u64..40_000,
        len_max in 0_u64..9000,
    ) {
        let mut adviser = adviser_of(items.iter().copied(), 6, 9);
        let (mut reader, bounds) = (Reader::default(), AdviceBounds { window, len_max, history_max: 0, block_len: 1 });
        let ends = items.iter().map(|(_, _, offset, len)| offset + len).max().unwrap();
        for ranges in &reads {
            let ranges: Vec<ByteRange> = ranges.iter().map(|(start, len)| ByteRange::at(*start, *len)).collect();
            adviser.handle_read(&mut reader, &ranges, &|range| if range.start() % 2 == 0 { Evidence::Unread } else { Evidence::Read });
            for count in 0.. {
                prop_assert!(count <= items.len());
                let advice = adviser.wanted(&reader, bounds);
                if advice.ranges.is_empty() {
                    break;
                }
                prop_assert!(advice.ranges.windows(2).all(|pair| pair[0].end() < pair[1].start()));
                prop_assert!(advice.ranges.iter().all(|range| !range.is_empty() && range.end() <= ends));
                reader.accept(&advice);
            }
            prop_assert!(adviser.zone(&reader).is_none_or(|zone| zone.end() <= ends));
            prop_assert!(adviser.expected(&reader, 1) <= items.iter().map(|(_, _, _, len)| len).sum());
        }
    }
}
