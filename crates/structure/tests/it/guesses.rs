//! Guesses at the columns of readers that read basket after basket.

use forebay_structure::{Advice, AdviceBounds, Adviser, Evidence, Layout, Reader, TreeKind, test_tree};
use forebay_types::ByteRange;

const BLOCK: u64 = 64 << 10;
const ITEM: u64 = 28_000;
const COLUMNS: u64 = 200;
const CLUSTERS: u64 = 30;
const BOUNDS: AdviceBounds = AdviceBounds { window: 32 << 20, len_max: 512 << 10, history_max: 0, block_len: BLOCK };

/// Bytes of unread guesses that each reader may have.
const UNREAD_MAX: u64 = 128 << 10;

/// A tree as ROOT writes it: in each cluster one basket of each column, without gaps.
fn adviser() -> Adviser {
    let items = (0..CLUSTERS).flat_map(|cluster| (0..COLUMNS).map(move |column| (column, cluster)));
    let items = items.map(|(column, cluster)| (column, cluster, item(column, cluster).start(), ITEM));
    let tree = test_tree(TreeKind::TTree, COLUMNS, CLUSTERS, items);
    Adviser::new(Layout { trees: vec![tree], ..Layout::default() }).expect("it has items")
}

fn item(column: u64, cluster: u64) -> ByteRange {
    ByteRange::at(1000 + (cluster * COLUMNS + column) * ITEM, ITEM)
}

/// A reader, and the columns whose items of the first cluster were fetched ahead for it.
struct Job {
    adviser: Adviser,
    reader: Reader,
    fetched: Vec<u64>,
}

impl Job {
    fn new() -> Self {
        Self { adviser: adviser(), reader: Reader::default(), fetched: Vec::new() }
    }

    /// Reads one item after the other, and has fetched all that is wanted after each.
    fn read(&mut self, columns: &[u64]) {
        columns.iter().for_each(|column| self.request(&[item(*column, 0)]));
    }

    fn request(&mut self, ranges: &[ByteRange]) {
        assert!(self.adviser.handle_read(&mut self.reader, ranges, &|_| Evidence::Missing));
        loop {
            let advice = self.adviser.wanted(&self.reader, BOUNDS);
            if advice == Advice::default() {
                return;
            }
            self.reader.accept(&advice);
            let is_fetched =
                |column: &u64| advice.ranges.iter().any(|range| range.intersection(item(*column, 0)).is_some());
            self.fetched.extend((0..COLUMNS).filter(is_fetched));
        }
    }
}

#[test]
fn columns_at_equal_steps_are_guessed_and_more_of_them_when_they_are_read() {
    let mut job = Job::new();
    job.read(&[20, 90, 10, 5, 17, 29]);
    assert_eq!(job.fetched, [41], "whole blocks of one basket are within the bytes for guesses");
    let mut waits = 0;
    for column in (41..COLUMNS).step_by(12) {
        waits += u64::from(!job.fetched.contains(&column));
        job.read(&[column]);
    }
    assert_eq!(waits, 0);
    let in_vain: Vec<&u64> = job.fetched.iter().filter(|column| (*column - 5) % 12 != 0).collect();
    assert!(in_vain.is_empty(), "{in_vain:?}");
}

#[test]
fn neighbours_in_the_file_are_guessed_if_some_are_left_out() {
    let mut job = Job::new();
    job.read(&[3, 4, 6]);
    assert!(job.fetched.starts_with(&[7, 8, 9]) && job.fetched.len() <= 5, "{:?}", job.fetched);
    job.read(&[7, 9]);
    assert!(job.fetched.contains(&13), "{:?}", job.fetched);
}

#[test]
fn other_reads_lead_to_no_guess() {
    let far_apart: [&[u64]; 4] = [&[1, 2], &[30, 20, 10], &[1, 9, 30, 41, 80], &[1, 2, 1, 2]];
    for columns in far_apart {
        let mut job = Job::new();
        job.read(columns);
        assert_eq!(job.fetched, [] as [u64; 0], "{columns:?}");
    }
    let mut of_vectors = Job::new();
    of_vectors.request(&[item(1, 0), item(2, 0), item(3, 0)]);
    of_vectors.request(&[item(4, 0), item(5, 0), item(6, 0)]);
    assert_eq!(of_vectors.fetched, [] as [u64; 0]);
    let mut across_clusters = Job::new();
    (0..5).for_each(|number| across_clusters.request(&[item(number, number)]));
    assert_eq!(across_clusters.fetched, [] as [u64; 0]);
}

#[test]
fn guesses_in_vain_cost_a_bounded_number_of_bytes_and_teach_nothing() {
    let mut job = Job::new();
    // In each cluster some other neighbours, which are all that is read.
    let mut bytes = 0;
    for cluster in 0..CLUSTERS {
        for column in 0..3 {
            let range = item(column + cluster * 6, cluster);
            assert!(job.adviser.handle_read(&mut job.reader, &[range], &|_| Evidence::Missing));
            let advice = job.adviser.wanted(&job.reader, BOUNDS);
            let of_this = |it: &&ByteRange| it.start() < item(0, cluster + 1).start();
            bytes += advice.ranges.iter().filter(of_this).map(|range| range.len()).sum::<u64>();
            job.reader.accept(&advice);
        }
    }
    assert!((1..=UNREAD_MAX).contains(&bytes), "{bytes}");
    let (_, observed) = job.adviser.observed(&job.reader, &|_| Evidence::Unread).remove(0);
    assert_eq!(observed.columns.len() as u64, 3 * CLUSTERS, "only those that were read");
}

#[test]
fn guesses_are_expected_and_reported_when_they_are_read_in_their_cluster() {
    let mut job = Job::new();
    job.read(&[0, 1, 2]);
    let guessed = *job.fetched.last().expect("a guess");
    let zone = job.adviser.zone(&job.reader).expect("it has a guess");
    assert!(zone.intersection(item(guessed, 0)) == Some(item(guessed, 0)));
    let expected = job.adviser.expected(&job.reader, BLOCK);
    job.read(&[guessed]);
    let read = job.adviser.expected(&job.reader, BLOCK);
    assert!(read > expected, "its items of other clusters and more guesses");
}
