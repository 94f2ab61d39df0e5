//! Many clients, random reads, random faults, restarts: every byte is checked, and nothing is left over.
//!
//! A failure prints its seed; `FOREBAY_SEED=<seed> cargo test -p forebay-engine --test random` makes the same choices again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::house::{House, caller, open_data_files, options, request, run, segment_bytes, until};
use forebay_cache::Cinfo;
use forebay_engine::{Handle, Options, Read};
use forebay_origin::OriginError;
use forebay_testkit::{MemoryOrigin, bytes_at};
use forebay_types::{BlockIndex, ByteRange, Outcome};
use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

const FILES: [&str; 4] = ["/a", "/b/c", "/b/d", "/e"];
const FILE_SIZE: u64 = (3 << 20) + 4321;
const ROUNDS: u64 = 6;
const CLIENTS: u64 = 10;
const VISITS: u64 = 10;

/// The bytes of every file in `range`.
fn expected(range: ByteRange) -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| bytes_at(0, usize::try_from(FILE_SIZE).unwrap()));
    &CONTENT[usize::try_from(range.start()).unwrap()..usize::try_from(range.end()).unwrap()]
}

/// Numbers that look random, and are the same for the same seed (SplitMix64).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Dice of their own for another task.
    fn split(&mut self) -> Self {
        Self(self.roll())
    }

    fn range(&mut self) -> ByteRange {
        let len_max = [100, 5_000, 200_000, FILE_SIZE][usize::try_from(self.below(4)).unwrap()];
        let start = self.below(FILE_SIZE);
        ByteRange::at(start, 1 + self.below(len_max)).clipped_to(FILE_SIZE)
    }
}

/// Prints the seed when the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with: FOREBAY_SEED={} cargo test -p forebay-engine --test random", self.0);
        }
    }
}

#[test]
fn random_reads_get_right_bytes_and_leave_nothing_behind() {
    let chosen = std::env::var("FOREBAY_SEED").ok().map(|seed| seed.parse().expect("FOREBAY_SEED is a number"));
    let seed = Seed(chosen.unwrap_or_else(|| RandomState::new().build_hasher().finish()));
    let mut dice = Dice(seed.0);
    run(async move {
        let root = tempfile::tempdir().unwrap();
        for _ in 0..ROUNDS {
            let house = Arc::new(build(root.path(), &mut dice));
            if dice.one_in(3) {
                crash(house, &mut dice).await;
            } else {
                serve(&house, &mut dice).await;
                house.engine.shutdown().await;
            }
            until(|| open_data_files(root.path()) == 0).await;
            check_store(root.path());
        }
        let house = Arc::new(build(root.path(), &mut dice));
        for path in FILES {
            let read = house.open(path).await.read_many(&[ByteRange::at(0, FILE_SIZE)]).pop().unwrap();
            assert!(read_checked(read, ByteRange::at(0, FILE_SIZE), u64::MAX, &AtomicU64::new(0)).await);
        }
        // The engine lives on: files leave the table by themselves.
        until(|| open_data_files(root.path()) == 0).await;
    });
}

fn build(root: &Path, dice: &mut Dice) -> House {
    let options = Options {
        budget_bytes: (1 << 20) << dice.below(3),
        fill_len_max: (64 << 10) << dice.below(4),
        read_window: (128 << 10) << dice.below(4),
        sync_interval: Duration::from_millis(dice.below(40)),
        disk_pause: Duration::from_millis(dice.below(20)),
        ..options()
    };
    House::build_with(root, MemoryOrigin::new(FILE_SIZE), options)
}

/// Clients come, read and go, while faults come and go. In the end the sums agree and all memory is free.
async fn serve(house: &Arc<House>, dice: &mut Dice) {
    let delivered = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let faults = tokio::spawn(make_faults(Arc::clone(house), dice.split(), Arc::clone(&is_over)));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(visit(Arc::clone(house), dice.split(), Arc::clone(&delivered)))).collect();
    for client in clients {
        client.await.unwrap();
    }
    is_over.store(true, SeqCst);
    faults.await.unwrap();
    assert_eq!(Outcome::ALL.map(|outcome| house.bytes(outcome)).iter().sum::<u64>(), delivered.load(SeqCst));
    house.filled().await;
}

/// Clients are cut off in the middle, and nothing is synced.
async fn crash(house: Arc<House>, dice: &mut Dice) {
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(visit(Arc::clone(&house), dice.split(), Arc::default()))).collect();
    let enough = dice.below(FILE_SIZE * 4);
    until(|| {
        house.bytes(Outcome::Missed) + house.bytes(Outcome::Bypassed) > enough
            || clients.iter().all(|client| client.is_finished())
    })
    .await;
    for client in clients {
        client.abort();
        if let Err(error) = client.await {
            assert!(error.is_cancelled(), "{error}");
        }
    }
}

/// Turns faults on and off until it is over; then there are none.
async fn make_faults(house: Arc<House>, mut dice: Dice, is_over: Arc<AtomicBool>) {
    let endpoint = MemoryOrigin::endpoint();
    let lost = OriginError::Lost { endpoint, doing: "reading", reason: "injected".to_owned() };
    while !is_over.load(SeqCst) {
        house.faults.full.store(dice.one_in(4), SeqCst);
        house.faults.create_fails.store(dice.one_in(8), SeqCst);
        house.faults.cinfo_fails.store(dice.one_in(8), SeqCst);
        house.faults.sync_fails.store(dice.one_in(20), SeqCst);
        house.origin.script(|script| {
            script.chunk_len = 1 + usize::try_from(dice.below([700, 9_000, 100_000][script.chunk_len % 3])).unwrap();
            script.read_error = dice.one_in(4).then(|| (dice.below(FILE_SIZE), lost.clone()));
            script.ends_at = dice.one_in(8).then(|| dice.below(FILE_SIZE));
            script.open_error = dice.one_in(8).then(|| lost.clone());
        });
        // sleep: how long a fault lasts; nothing waits for its end.
        tokio::time::sleep(Duration::from_millis(1 + dice.below(10))).await;
    }
    for fault in [&house.faults.full, &house.faults.create_fails, &house.faults.cinfo_fails, &house.faults.sync_fails] {
        fault.store(false, SeqCst);
    }
}

/// One client: opens files, reads some ranges of each, leaves some of the reads before their end.
async fn visit(house: Arc<House>, mut dice: Dice, delivered: Arc<AtomicU64>) {
    for _ in 0..VISITS {
        let path = FILES[usize::try_from(dice.below(4)).unwrap()];
        let Ok(handle) = house.engine.open(&request(path), &caller()).await else { continue };
        assert_eq!(handle.size(), FILE_SIZE);
        for _ in 0..=dice.below(3) {
            read_some(&handle, &mut dice, &delivered).await;
        }
    }
}

async fn read_some(handle: &Handle, dice: &mut Dice, delivered: &AtomicU64) {
    let ranges: Vec<ByteRange> = (0..=dice.below(3)).map(|_| dice.range()).collect();
    if let [range] = ranges[..]
        && let Some(file) = handle.hit(range)
    {
        delivered.fetch_add(range.len(), SeqCst);
        let segment = forebay_engine::Segment::File { file: Arc::clone(file), range };
        assert!(segment_bytes(segment) == expected(range), "{range}");
        return;
    }
    for (read, range) in handle.read_many(&ranges).into_iter().zip(ranges) {
        let leaves_at = if dice.one_in(4) { dice.below(range.len()) } else { u64::MAX };
        if !read_checked(read, range, leaves_at, delivered).await {
            return;
        }
    }
}

/// Reads until the end, an error, or `leaves_at` bytes; false after an error.
async fn read_checked(mut read: Read, range: ByteRange, leaves_at: u64, delivered: &AtomicU64) -> bool {
    let mut position = range.start();
    while position - range.start() < leaves_at {
        match read.next().await {
            Some(Ok(segment)) => {
                delivered.fetch_add(segment.len(), SeqCst);
                let bytes = segment_bytes(segment);
                assert!(!bytes.is_empty(), "a segment holds a byte at least");
                let part = ByteRange::at(position, bytes.len() as u64);
                assert!(bytes == expected(part), "wrong bytes in {part} of {range}");
                position = part.end();
            }
            // Faults cost reads; they never cost them their time: the whole test is bounded.
            Some(Err(_)) => return false,
            None => {
                assert_eq!(position, range.end(), "a read without an error gives all of {range}");
                return true;
            }
        }
    }
    true
}

/// Every block that a record names is in the data file.
fn check_store(root: &Path) {
    for path in FILES {
        let data_path = root.join(path.trim_start_matches('/'));
        let Ok(record) = fs::read(format!("{}.cinfo", data_path.display())) else { continue };
        let cinfo = Cinfo::decode(&record).unwrap();
        let data = fs::read(&data_path).unwrap();
        for index in (0..cinfo.geometry.block_count()).map(BlockIndex).filter(|index| cinfo.blocks.contains(*index)) {
            let block = cinfo.geometry.range_of(index);
            let from = usize::try_from(block.start()).unwrap();
            assert!(data[from..].starts_with(expected(block)), "{index} of {path}");
        }
    }
}
