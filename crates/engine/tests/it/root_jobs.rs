//! Jobs on the files of a dataset of ROOT files at a far origin: the round trips that they wait for.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::house::{House, collect, options, run_virtual};
use forebay_cache::{ReadAheadSettings, StructureUse};
use forebay_engine::{Handle, Options, ReadAheadOptions, Workers};
use forebay_structure::{Parser, Tree};
use forebay_telemetry::Observers;
use forebay_testkit::MemoryOrigin;
use forebay_types::ByteRange;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Head and tail of a file that ROOT has written: 48 columns in 28 clusters, baskets of 28 kB.
const HEAD: &[u8] = include_bytes!("../../../structure/tests/golden/flat.head");
const TAIL: &[u8] = include_bytes!("../../../structure/tests/golden/flat.tail");
const SIZE: u64 = 37_121_915;

const ROUND_TRIP: Duration = Duration::from_millis(50);

/// The columns that a job reads.
const COLUMNS: [usize; 5] = [4, 11, 17, 30, 46];

/// Time between the reads of two baskets.
const THINKING: Duration = Duration::from_millis(1);

/// A file as its readers know it.
pub(crate) struct RootFile {
    /// Header, list of keys, record of the tree.
    pub(crate) metadata: Vec<ByteRange>,
    pub(crate) tree: Tree,
}

impl RootFile {
    pub(crate) fn parse() -> Self {
        let mut parser = Parser::new(SIZE);
        let mut metadata = Vec::new();
        while let Some(range) = parser.poll_wanted() {
            metadata.push(range);
            let (from, offset) =
                if range.start() < HEAD.len() as u64 { (HEAD, 0) } else { (TAIL, SIZE - TAIL.len() as u64) };
            let at = |place: u64| usize::try_from(place - offset).unwrap();
            parser.handle_bytes(&from[at(range.start())..at(range.end())]);
        }
        let tree = parser.into_layout().trees.pop().unwrap();
        Self { metadata, tree }
    }

    /// The baskets of a column.
    fn baskets(&self, column: usize) -> Vec<ByteRange> {
        let of_column = self.tree.items.iter().filter(|item| item.column() == column);
        of_column.map(|item| item.range()).collect()
    }

    /// The baskets of all columns of the job, in order of clusters.
    fn all_baskets(&self) -> Vec<ByteRange> {
        self.baskets_of(&COLUMNS)
    }

    /// The baskets of columns, in order of clusters.
    pub(crate) fn baskets_of(&self, columns: &[usize]) -> Vec<ByteRange> {
        let mut items: Vec<_> = self.tree.items.iter().filter(|item| columns.contains(&item.column())).collect();
        items.sort_by_key(|item| (item.cluster(), item.offset()));
        items.into_iter().map(|item| item.range()).collect()
    }
}

/// A job that reads one file.
pub(crate) struct Job {
    handle: Handle,
    waited: Duration,
    /// Reads that took a round trip or longer.
    pub(crate) waits: usize,
    /// Time between two reads.
    pub(crate) thinking: Duration,
}

impl Job {
    pub(crate) async fn open(house: &House, path: &str, file: &RootFile) -> Self {
        let mut job = Self { handle: house.open(path).await, waited: Duration::ZERO, waits: 0, thinking: THINKING };
        for range in &file.metadata {
            job.read(&[*range]).await;
        }
        job
    }

    /// Reads some columns, each basket by itself.
    pub(crate) async fn columns(&mut self, file: &RootFile, columns: &[usize]) {
        for basket in file.baskets_of(columns) {
            self.read(&[basket]).await;
        }
    }

    /// Reads as a front does: hits, and the rest as one request.
    pub(crate) async fn read(&mut self, ranges: &[ByteRange]) {
        let began = Instant::now();
        let missed: Vec<ByteRange> =
            ranges.iter().copied().skip_while(|range| self.handle.hit(*range).is_some()).collect();
        for read in self.handle.read_many(&missed) {
            collect(read).await.expect("the read succeeds");
        }
        self.waited += began.elapsed();
        self.waits += usize::from(began.elapsed() >= ROUND_TRIP);
        // sleep: on the paused clock it takes no time, and everything that is due meanwhile is done.
        tokio::time::sleep(self.thinking).await;
    }

    /// PyROOT without `TTreeCache`: each basket by itself.
    pub(crate) async fn each_basket(&mut self, file: &RootFile) {
        for basket in file.all_baskets() {
            self.read(&[basket]).await;
        }
    }

    /// `uproot.iterate`: the keys of all baskets one by one, then the baskets at once.
    pub(crate) async fn iterate(&mut self, file: &RootFile) {
        for column in COLUMNS {
            self.keys(file, column).await;
        }
        for baskets in file.all_baskets().chunks(COLUMNS.len() * 4) {
            self.read(baskets).await;
        }
    }

    /// The keys of all baskets of a column, one by one.
    pub(crate) async fn keys(&mut self, file: &RootFile, column: usize) {
        for basket in file.baskets(column) {
            self.read(&[ByteRange::at(basket.start(), 34)]).await;
        }
    }

    /// `uproot.iterate` with a step in entries: for each step the keys, then the baskets at once.
    async fn iterate_by_entries(&mut self, file: &RootFile) {
        let baskets = COLUMNS.map(|column| file.baskets(column));
        let step = 2;
        for begin in (0..baskets[0].len()).step_by(step) {
            let of_step = |column: &Vec<ByteRange>| column.iter().skip(begin).take(step).copied().collect::<Vec<_>>();
            let of_step: Vec<ByteRange> = baskets.iter().flat_map(of_step).collect();
            for basket in &of_step {
                self.read(&[ByteRange::at(basket.start(), 34)]).await;
            }
            self.read(&of_step).await;
        }
    }

    /// PyROOT, branch by branch: some columns always, others in one of four clusters.
    async fn rare(&mut self, file: &RootFile) {
        let rare = [2, 7, 13, 20, 25, 33, 38, 41];
        for cluster in 0..file.tree.clusters {
            let is_read = |column: usize| COLUMNS.contains(&column) || (cluster % 4 == 0 && rare.contains(&column));
            let items = file.tree.items.iter().filter(|item| item.cluster() == cluster && is_read(item.column()));
            for item in items {
                self.read(&[item.range()]).await;
            }
        }
    }

    /// PyROOT, branch by branch: in each cluster the columns in the order in which the program names them.
    async fn in_order(&mut self, file: &RootFile, columns: &[usize]) {
        for cluster in 0..file.tree.clusters {
            for column in columns {
                let items = file.tree.items.iter().filter(|item| item.cluster() == cluster && item.column() == *column);
                for item in items {
                    self.read(&[item.range()]).await;
                }
            }
        }
    }

    /// `RDataFrame`: compiles, and reads all baskets at once.
    pub(crate) async fn frame(&mut self, file: &RootFile) {
        // sleep: on the paused clock, as above.
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.read(&file.all_baskets()).await;
    }

    /// PyROOT with `TTreeCache`: the first baskets, then the rest.
    async fn cached_loop(&mut self, file: &RootFile) {
        let baskets = file.all_baskets();
        let (first, rest) = baskets.split_at(COLUMNS.len());
        self.read(first).await;
        self.read(rest).await;
    }

    /// PyROOT with `TTreeCache` and all columns: adjacent baskets are one range, and a cluster is one request.
    async fn whole_clusters(&mut self, file: &RootFile) {
        let of_cluster = |cluster: u32| {
            let mut ranges: Vec<ByteRange> = Vec::new();
            for item in file.tree.items.iter().filter(|item| item.cluster() == cluster) {
                match ranges.last_mut() {
                    Some(last) if last.end() == item.offset() => *last = ByteRange::between(last.start(), item.end()),
                    _ => ranges.push(item.range()),
                }
            }
            ranges
        };
        for cluster in 0..file.tree.clusters {
            self.read(&of_cluster(cluster)).await;
            // sleep: on the paused clock, as above.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn round_trips(&self) -> f64 {
        self.waited.as_secs_f64() / ROUND_TRIP.as_secs_f64()
    }
}

/// Where the keys are when they fill a gap between baskets.
const GAP: u64 = 8_000_000;

/// The records of the file. With `is_in_gap` the list of keys is where ROOT often writes it: in a gap that an older record of the
/// tree has left.
fn records(file: &RootFile, is_in_gap: bool) -> Vec<(u64, Vec<u8>)> {
    let (mut head, tail_start) = (HEAD.to_vec(), SIZE - TAIL.len() as u64);
    let mut records = vec![(tail_start, TAIL.to_vec())];
    if is_in_gap {
        let [_, directory, keys, ..] = file.metadata.as_slice() else { panic!("a file with keys") };
        let at = |offset: u64| usize::try_from(offset).unwrap();
        // The position of the keys, in four bytes of the record of the directory.
        let position = at(directory.start()) + 26;
        head[position..position + 4].copy_from_slice(&u32::try_from(GAP).unwrap().to_be_bytes());
        let stored = &TAIL[at(keys.start() - tail_start)..at(keys.end() - tail_start)];
        records.push((GAP, stored.to_vec()));
    }
    records.push((0, head));
    records
}

fn house(root: &tempfile::TempDir, settings: ReadAheadSettings, records: Vec<(u64, Vec<u8>)>) -> House {
    house_with_work(root, settings, records, Duration::ZERO)
}

/// A house in which each piece of work, as the parsing of a record, takes `work`.
fn house_with_work(
    root: &tempfile::TempDir,
    settings: ReadAheadSettings,
    records: Vec<(u64, Vec<u8>)>,
    work: Duration,
) -> House {
    let read_ahead = ReadAheadOptions { settings, ..ReadAheadOptions::default() };
    let workers = Workers::Inline(Arc::new(move || work));
    let options = Options { read_ahead, budget_bytes: 256 << 20, workers, ..options() };
    House::build_with(root.path(), origin_with(records), options)
}

/// A far origin of files with these records.
fn origin_with(records: Vec<(u64, Vec<u8>)>) -> MemoryOrigin {
    let origin = far_origin(SIZE);
    origin.script(|script| script.records = records.into());
    origin
}

/// A far origin of files of this size.
pub(crate) fn far_origin(size: u64) -> MemoryOrigin {
    let origin = MemoryOrigin::new(size);
    origin.script(|script| {
        script.verifies_pages = false;
        (script.latency, script.bytes_per_s, script.chunk_len) = (ROUND_TRIP, Some(117_500_000), 64 << 10);
    });
    origin
}

/// A house whose events are observed.
pub(crate) fn observed_house(root: &tempfile::TempDir, file: &RootFile, events: Observers) -> House {
    let workers = Workers::Inline(Arc::new(|| Duration::ZERO));
    let options = Options { budget_bytes: 1 << 30, workers, events, ..options() };
    House::build_with(root.path(), origin_with(records(file, false)), options)
}

pub(crate) fn asked_bytes(house: &House) -> u64 {
    house.origin.asked().iter().map(|range| range.len()).sum()
}

/// The cost of a job on one file.
#[derive(Debug)]
struct Cost {
    round_trips: f64,
    bytes: u64,
}

/// The costs of the first two files of a dataset.
fn costs(structure: StructureUse, is_in_gap: bool, read: impl AsyncFn(&mut Job, &RootFile)) -> Vec<Cost> {
    costs_with(structure, ReadAheadSettings::default().structure_history_max, is_in_gap, read)
}

fn costs_with(
    structure: StructureUse,
    structure_history_max: u64,
    is_in_gap: bool,
    read: impl AsyncFn(&mut Job, &RootFile),
) -> Vec<Cost> {
    let settings = ReadAheadSettings { structure, structure_history_max, ..ReadAheadSettings::default() };
    let mut file = RootFile::parse();
    let records = records(&file, is_in_gap);
    if is_in_gap {
        file.metadata[2] = ByteRange::at(GAP, file.metadata[2].len());
    }
    let mut costs = Vec::new();
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(&root, settings, records);
        for number in 0..2 {
            let before = asked_bytes(&house);
            let mut job = Job::open(&house, &format!("/set/{number}.root"), &file).await;
            read(&mut job, &file).await;
            let round_trips = job.round_trips();
            drop(job);
            // sleep: as above; what the close begins is done.
            tokio::time::sleep(Duration::from_secs(10)).await;
            costs.push(Cost { round_trips, bytes: asked_bytes(&house) - before });
        }
    });
    costs
}

/// Compares the costs of a job with and without the structure. A file moves 0.1 s over the link, two round trips, if all blocks of
/// its columns are fetched.
fn check(name: &str, first_max: f64, next_max: f64, read: impl AsyncFn(&mut Job, &RootFile)) {
    let without = costs(StructureUse::Off, false, &read).remove(0);
    let with = costs(StructureUse::LearnAndRemember, false, &read);
    for (number, (cost, max)) in with.iter().zip([first_max, next_max]).enumerate() {
        assert!(cost.round_trips <= max, "{name}, file {number}: {cost:?}");
        assert!(cost.bytes <= without.bytes + (128 << 10), "{name}, file {number}: {cost:?}, without: {without:?}");
    }
}

#[test]
fn a_loop_waits_for_its_first_baskets_only() {
    check("loop", 6.5, 2.1, Job::each_basket);
}

#[test]
fn keys_of_baskets_that_are_read_one_by_one_are_fetched_before_they_are_read() {
    check("iterate", 7.5, 2.3, Job::iterate);
}

#[test]
fn baskets_are_fetched_while_a_job_compiles() {
    check("frame", 3.5, 1.1, Job::frame);
}

#[test]
fn a_loop_with_a_cache_of_its_own_waits_for_two_vectors() {
    check("cached", 3.4, 3.1, Job::cached_loop);
}

#[test]
fn steps_in_entries_wait_for_their_first_baskets_only() {
    check("steps", 7.5, 2.2, Job::iterate_by_entries);
}

#[test]
fn columns_that_are_read_now_and_then_cost_round_trips_on_the_first_file_only() {
    check("rare", 14.5, 7.0, Job::rare);
}

#[test]
fn columns_at_equal_distances_are_guessed_on_the_first_file() {
    let others: Vec<usize> = (2..48).step_by(3).collect();
    let ordered: Vec<usize> = [37, 30, 13].into_iter().chain(others.iter().copied()).collect();
    // The same in an order that shows nothing: each column costs a round trip before it is known to be in use.
    let shuffled = (0..others.len()).map(|number| others[number * 7 % others.len()]);
    let shuffled: Vec<usize> = [37, 30, 13].into_iter().chain(shuffled).collect();
    let read = async |job: &mut Job, file: &RootFile| job.in_order(file, &ordered).await;
    check("equal distances", 11.5, 4.5, read);
    let guessed = costs(StructureUse::Learn, false, read).remove(0);
    let read = async |job: &mut Job, file: &RootFile| job.in_order(file, &shuffled).await;
    let known = costs(StructureUse::Learn, false, read).remove(0);
    assert!(guessed.round_trips + 8.0 < known.round_trips, "{guessed:?} {known:?}");
    assert!(guessed.bytes <= known.bytes + (128 << 10), "{guessed:?} {known:?}");
}

#[test]
fn a_job_that_reads_a_few_neighbours_does_not_pay_for_guesses() {
    check("neighbours", 6.5, 3.0, async |job: &mut Job, file: &RootFile| job.in_order(file, &[20, 21, 22]).await);
}

#[test]
fn keys_of_baskets_are_mostly_found_without_the_structure() {
    let cost = costs(StructureUse::Off, false, Job::iterate).remove(0);
    // Of 140 keys; XCache 6 waits 103 times for a file of 320 columns, and fetches two thirds of it.
    assert!(cost.round_trips < 103.0 && cost.bytes < SIZE * 2 / 3, "{cost:?}");
}

#[test]
fn expected_columns_are_fetched_on_when_the_bytes_for_them_are_used_up() {
    // A quarter of the columns of the job in all clusters.
    let costs = costs_with(StructureUse::LearnAndRemember, 1 << 20, false, Job::each_basket);
    assert!(costs[1].round_trips < 4.0, "{costs:?}");
}

#[test]
fn a_job_that_reads_all_waits_as_long_as_without() {
    let [without, with] = [StructureUse::Off, StructureUse::LearnAndRemember]
        .map(|structure| costs(structure, false, Job::whole_clusters));
    for cost in &with {
        assert!(cost.round_trips <= without[0].round_trips && cost.bytes <= without[0].bytes, "{with:?} {without:?}");
    }
}

#[test]
fn keys_in_a_gap_delay_no_basket() {
    let costs = costs(StructureUse::LearnAndRemember, true, Job::each_basket);
    assert!(costs[1].round_trips < 3.3, "{costs:?}");
}

/// When the first of the two handles of `RDataFrame` is closed. It reads the metadata only.
#[derive(Clone, Copy, Debug)]
enum FirstCloses {
    BeforeSecondOpens,
    BeforeData,
    AfterData,
    Last,
}

/// `RDataFrame` opens each file twice: the round trips that it waits for the data of the second file.
fn data_wait_of_two_handles(closed: FirstCloses, work: Duration) -> f64 {
    let file = RootFile::parse();
    let records = records(&file, false);
    let mut waited = 0.0;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_work(&root, ReadAheadSettings::default(), records, work);
        for number in 0..2 {
            let path = format!("/set/{number}.root");
            let mut first = Some(Job::open(&house, &path, &file).await);
            first.take_if(|_| matches!(closed, FirstCloses::BeforeSecondOpens));
            let mut second = Job::open(&house, &path, &file).await;
            first.take_if(|_| matches!(closed, FirstCloses::BeforeData));
            let before = second.round_trips();
            second.frame(&file).await;
            waited = second.round_trips() - before;
            first.take_if(|_| matches!(closed, FirstCloses::AfterData));
            drop(second);
            drop(first);
            // sleep: as above; what the close begins is done.
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    waited
}

#[test]
fn data_of_a_second_handle_are_fetched_if_parsing_ends_after_its_metadata_were_read() {
    let orders = [FirstCloses::BeforeSecondOpens, FirstCloses::BeforeData, FirstCloses::AfterData, FirstCloses::Last];
    let mut late = Vec::new();
    for closed in orders {
        for work in [2, 20, 100].map(Duration::from_millis) {
            let waited = data_wait_of_two_handles(closed, work);
            if waited > 0.1 {
                late.push((closed, work, waited));
            }
        }
    }
    assert!(late.is_empty(), "{late:?}");
}
