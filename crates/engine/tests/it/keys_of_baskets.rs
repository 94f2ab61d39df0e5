//! Reads of the keys of baskets, one column after the other, of a ROOT file at a far origin whose structure is not used.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::{
    house::{House, options, run_virtual},
    root_jobs::{Job, RootFile, asked_bytes, far_origin},
};
use forebay_cache::{ReadAheadSettings, StructureUse};
use forebay_engine::{Options, ReadAheadOptions};
use forebay_structure::{TreeKind, test_tree};
use forebay_types::ByteRange;

/// The columns of a file of `bench/root_files.py`, and the clusters. The first one is followed by short baskets: the buffers of ROOT
/// were full a little before its end.
const COLUMNS: u64 = 320;
const CLUSTERS: u64 = 29;
const SHORT_CLUSTER: u64 = 1;

/// The columns of `bench/root_scripts.py`, in the order in which `uproot` reads them.
const READ: [usize; 5] = [37, 148, 13, 272, 285];

/// Bytes before the first basket, and of the records after the last one.
const HEAD: u64 = 1000;
const TAIL: u64 = 72_000;

/// XCache 6 with its defaults waits for 103 to 112 round trips in this job, and fetches 152 MB of 227: it fetches the file from its
/// beginning, and finds later columns in the cache (`bench/runs/2026-11-25-root-jobs-goals`).
const WAITS_MAX: usize = 75;
const BYTES_MAX: u64 = 16_000_000;

/// A file of random lengths of baskets, and its size.
fn wide_file(mut seed: u64) -> (RootFile, u64) {
    let mut offset = HEAD;
    let mut len_of = |cluster: u64| {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let (least, spread) = if cluster == SHORT_CLUSTER { (90, 30) } else { (21_700, 7200) };
        least + (seed >> 33) % spread
    };
    let mut items = Vec::new();
    for cluster in 0..CLUSTERS {
        for column in 0..COLUMNS {
            let len = len_of(cluster);
            items.push((column, cluster, offset, len));
            offset += len;
        }
    }
    let tree = test_tree(TreeKind::TTree, COLUMNS, CLUSTERS, items.into_iter());
    let metadata = vec![ByteRange::at(0, 403), ByteRange::at(offset, 300), ByteRange::at(offset + 300, TAIL - 300)];
    (RootFile { metadata, tree }, offset + TAIL)
}

#[test]
fn a_job_without_the_structure_waits_less_often_than_xcache() {
    for seed in 1..=3 {
        let (file, size) = wide_file(seed);
        run_virtual(async {
            let root = tempfile::tempdir().unwrap();
            let settings = ReadAheadSettings { structure: StructureUse::Off, ..ReadAheadSettings::default() };
            let read_ahead = ReadAheadOptions { settings, ..ReadAheadOptions::default() };
            let options = Options { read_ahead, budget_bytes: 256 << 20, ..options() };
            let house = House::build_with(root.path(), far_origin(size), options);
            let mut job = Job::open(&house, "/set/0.root", &file).await;
            for column in READ {
                job.keys(&file, column).await;
            }
            for baskets in file.baskets_of(&READ).chunks(READ.len() * 15) {
                job.read(baskets).await;
            }
            let bytes = asked_bytes(&house);
            assert!(job.waits < WAITS_MAX && bytes < BYTES_MAX, "seed {seed}: {} waits, {bytes} bytes", job.waits);
        });
    }
}
