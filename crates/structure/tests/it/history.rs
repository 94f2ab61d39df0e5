//! Columns that are learned of one file, and their use for the next ones.
#![allow(clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_structure::{
    AdviceBounds, AdviceSource, Adviser, ColumnSet, Evidence, Layout, Observed, Reader, SET_COLUMNS_MAX, SET_LEN_MAX,
    SetChange, Tree, TreeKind, test_tree,
};
use forebay_types::ByteRange;
use proptest::prelude::*;

const ITEM: u64 = 1000;
const STRIDE: u64 = 8000;
const CLUSTERS: u64 = 10;
const BOUNDS: AdviceBounds =
    AdviceBounds { window: 100 * ITEM, len_max: 4 * ITEM, history_max: 12 * ITEM, block_len: 1 };

fn tree(columns: u64) -> Tree {
    let items = (0..CLUSTERS).flat_map(|cluster| (0..columns).map(move |column| (column, cluster)));
    test_tree(
        TreeKind::TTree,
        columns,
        CLUSTERS,
        items.map(|(column, cluster)| (column, cluster, item(columns, column, cluster).start(), ITEM)),
    )
}

fn adviser(columns: u64) -> Adviser {
    Adviser::new(Layout { trees: vec![tree(columns)], ..Layout::default() }).expect("it has items")
}

fn item(columns: u64, column: u64, cluster: u64) -> ByteRange {
    ByteRange::at(10_000 + (cluster * columns + column) * STRIDE, ITEM)
}

fn take_all(adviser: &Adviser, reader: &mut Reader) -> (Vec<ByteRange>, Vec<AdviceSource>) {
    let (mut ranges, mut sources) = (Vec::new(), Vec::new());
    while let advice = adviser.wanted(reader, BOUNDS)
        && !advice.ranges.is_empty()
    {
        reader.accept(&advice);
        sources.extend(advice.ranges.iter().map(|_| advice.source));
        ranges.extend(advice.ranges);
    }
    (ranges, sources)
}

/// The set after one file of ten columns of which these were read.
fn set_of(read: &[u64]) -> ColumnSet {
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    for cluster in 0..CLUSTERS {
        for column in read {
            adviser.handle_read(&mut reader, &[item(10, *column, cluster)], &|_| Evidence::Missing);
        }
    }
    let observed = adviser.observed(&reader, &|_| Evidence::Unknown);
    let mut set = ColumnSet::default();
    let change = set.note(&observed[0].1);
    assert_eq!((observed.len(), change.learned), (1, read.len() as u64));
    set
}

#[test]
fn expected_columns_that_are_read_are_fetched_on_though_not_all_reads_are_reported() {
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    adviser.expect(0, &[2, 3, 5, 7]);
    assert!(adviser.begin(&mut reader));
    let fetched = take_all(&adviser, &mut reader).0.len() as u64;
    assert_eq!(fetched * ITEM, BOUNDS.history_max, "three clusters");
    // Of each cluster the first read is reported; column 7 was not read.
    let evidence = |range: ByteRange| {
        if (range.start() - 10_000) / STRIDE % 10 == 7 { Evidence::Unread } else { Evidence::Read }
    };
    for cluster in 0..2 {
        adviser.handle_read(&mut reader, &[item(10, 2, cluster)], &evidence);
    }
    let (wanted, sources) = take_all(&adviser, &mut reader);
    let mut columns: Vec<u64> = wanted.iter().map(|range| (range.start() - 10_000) / STRIDE % 10).collect();
    columns.sort_unstable();
    columns.dedup();
    assert_eq!(columns, [2, 3, 5]);
    assert!(sources.iter().all(|source| *source == AdviceSource::Reads));
}

#[test]
fn columns_of_other_files_are_fetched_from_the_start_within_their_bytes() {
    let set = set_of(&[3, 5]);
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    assert!(!adviser.begin(&mut reader));
    let columns = set.columns_of(adviser.trees().next().unwrap()).unwrap();
    assert_eq!(columns, [3, 5]);
    adviser.expect(0, &columns);
    assert!(adviser.begin(&mut reader) && !reader.has_read());
    let (wanted, sources) = take_all(&adviser, &mut reader);
    assert_eq!(wanted[..3], [item(10, 3, 0), item(10, 5, 0), item(10, 3, 1)]);
    assert_eq!(wanted.len() as u64 * ITEM, BOUNDS.history_max);
    assert!(sources.iter().all(|source| *source == AdviceSource::History));
    assert_eq!(adviser.expected(&reader, ITEM), BOUNDS.history_max);
    assert!(adviser.zone(&reader).unwrap().contains(item(10, 3, 0).start()));
    // Read here too, a column is fetched up to the window.
    for cluster in 0..2 {
        adviser.handle_read(&mut reader, &[item(10, 5, cluster)], &|_| Evidence::Unknown);
    }
    let (wanted, sources) = take_all(&adviser, &mut reader);
    assert_eq!(wanted, [6, 7, 8, 9].map(|cluster| item(10, 5, cluster)));
    assert!(sources.iter().all(|source| *source == AdviceSource::Reads));
}

#[test]
fn the_first_request_adds_nothing_to_what_other_files_showed() {
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    adviser.expect(0, &[4]);
    let all: Vec<ByteRange> = (0..10).map(|column| item(10, column, 0)).collect();
    adviser.handle_read(&mut reader, &all, &|_| Evidence::Missing);
    let (wanted, _) = take_all(&adviser, &mut reader);
    assert_eq!(wanted.len(), 9);
    assert!(wanted.iter().all(|range| (range.start() - 10_000) / STRIDE % 10 == 4));
}

#[test]
fn expected_columns_that_are_not_read_are_given_up_and_counted_as_refuted() {
    let mut set = set_of(&[3, 5]);
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    adviser.expect(0, &[3, 5]);
    adviser.begin(&mut reader);
    take_all(&adviser, &mut reader);
    let evidence = |range: ByteRange| match (range.start() - 10_000) / STRIDE % 10 {
        3 | 5 => Evidence::Unread,
        _ => Evidence::Missing,
    };
    for cluster in 0..CLUSTERS {
        adviser.handle_read(&mut reader, &[item(10, 8, cluster)], &evidence);
    }
    assert!(take_all(&adviser, &mut reader).0.is_empty());
    let observed = adviser.observed(&reader, &evidence);
    assert_eq!(set.note(&observed[0].1), SetChange { confirmed: 0, refuted: 2, learned: 1 });
    assert_eq!((set.uses, set.hits, set.budget(16)), (1, 0, 8));
    assert_eq!(set.column_count(), Some(3), "one file is not the end of a habit");
    for _ in 0..4 {
        set.note(&observed[0].1);
    }
    assert_eq!(set.column_count(), Some(1));
}

#[test]
fn a_reader_must_pass_two_clusters_and_what_was_there_before_shows_nothing() {
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    adviser.handle_read(&mut reader, &[item(10, 1, 4)], &|_| Evidence::Missing);
    assert!(adviser.observed(&reader, &|_| Evidence::Unknown).is_empty());
    adviser.expect(0, &[7]);
    adviser.handle_read(&mut reader, &[item(10, 1, 5)], &|_| Evidence::Missing);
    let observed = adviser.observed(&reader, &|_| Evidence::Unknown).remove(0).1;
    assert_eq!(observed.columns.len(), 1, "of column 7 nothing is known");
    assert_eq!(observed.columns[0].1, 1000);
}

#[test]
fn reads_of_bytes_that_were_fetched_ahead_are_seen_though_not_reported() {
    let (mut adviser, mut reader) = (adviser(10), Reader::default());
    adviser.expect(0, &[2, 4, 6]);
    adviser.begin(&mut reader);
    take_all(&adviser, &mut reader);
    assert!(
        adviser.observed(&reader, &|_| Evidence::Unread).is_empty(),
        "an opened file that is not read shows nothing"
    );
    // Columns 2 and 4 were read in two clusters; twelve items were fetched, four of each column.
    let evidence = |range: ByteRange| {
        let number = (range.start() - 10_000) / STRIDE;
        if (10..30).contains(&number) && matches!(number % 10, 2 | 4) { Evidence::Read } else { Evidence::Unread }
    };
    let mut shares: Vec<u16> =
        adviser.observed(&reader, &evidence)[0].1.columns.iter().map(|(_, share)| *share).collect();
    shares.sort_unstable();
    assert_eq!(shares, [0, 1000, 1000]);
}

#[test]
fn a_column_read_in_few_clusters_is_not_learned() {
    let shares = |share| Observed { columns: vec![(7, share)] };
    let mut set = ColumnSet::default();
    assert_eq!(set.note(&shares(299)), SetChange::default());
    assert!(set.is_empty());
    assert_eq!(set.note(&shares(300)).learned, 1);
}

#[test]
fn a_tree_needs_most_columns_of_a_set() {
    let set = set_of(&[1, 3, 5, 7, 9]);
    assert_eq!(set.columns_of(&tree(9)).map(|columns| columns.len()), Some(4));
    assert_eq!(set.columns_of(&tree(7)), None);
}

#[test]
fn of_many_columns_all_are_expected() {
    let observed = |count: usize| Observed { columns: (0..count as u64).map(|hash| (hash, 1000)).collect() };
    let mut set = ColumnSet::default();
    set.note(&observed(SET_COLUMNS_MAX));
    assert_eq!((set.column_count(), set.encode().len()), (Some(SET_COLUMNS_MAX), SET_LEN_MAX));
    set.note(&observed(SET_COLUMNS_MAX + 1));
    assert_eq!(set.column_count(), None);
    assert_eq!(set.columns_of(&tree(10)).map(|columns| columns.len()), Some(10));
    assert_eq!(ColumnSet::decode(&set.encode()), Some(set.clone()));
    set.note(&observed(3));
    assert_eq!(set.column_count(), Some(3));
}

#[test]
fn sets_grow_old() {
    let mut set = ColumnSet::default();
    set.last_use = 1000;
    assert!(!set.is_outdated(1000 + 30 * 86_400) && set.is_outdated(1001 + 30 * 86_400));
}

#[test]
fn version_1_is_read_and_written_as_it_always_was() {
    let mut set = ColumnSet::default();
    (set.last_use, set.head_len, set.tail_len) = (0x0102, 3, 4);
    set.note(&Observed { columns: vec![(0x0807_0605_0403_0201, 1000)] });
    let mut bytes = vec![1, 0, 0];
    bytes.extend([0; 8]);
    bytes.extend([2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0]);
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8, 0xe8, 3]);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    assert_eq!(set.encode(), bytes);
    assert_eq!(ColumnSet::decode(&bytes), Some(set));
}

proptest! {
    #[test]
    fn sets_come_back_and_damaged_ones_do_not(
        files in prop::collection::vec(prop::collection::vec((0_u64..40, 0_u16..1200), 0..30), 0..6),
        flipped in any::<prop::sample::Index>(),
    ) {
        let mut set = ColumnSet::default();
        for columns in files {
            set.note(&Observed { columns });
        }
        let mut bytes = set.encode();
        prop_assert!(bytes.len() <= SET_LEN_MAX);
        prop_assert_eq!(ColumnSet::decode(&bytes), Some(set));
        let bit = flipped.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(ColumnSet::decode(&bytes), None);
    }

    #[test]
    fn any_bytes_are_a_set_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(set) = ColumnSet::decode(&bytes) {
            prop_assert_eq!(set.encode(), bytes);
        }
    }
}
