//! Costs of a file's block map in reads, and of its record.

use divan::{Bencher, black_box};
use forebay_cache::{
    Access, BlockMap, BlockState, CacheKey, ChecksumState, Cinfo, Geometry, Piece, PlanLimits, Trust, compact_accesses,
    plan_read,
};
use forebay_types::{BlockIndex, ByteRange, Lfn};

fn main() {
    divan::main();
}

const BLOCK_LEN: u64 = 64 << 10;
const FILE_LEN: u64 = 16 << 30;
const NOW: i64 = 1_780_000_000;

fn geometry() -> Geometry {
    Geometry::new(BLOCK_LEN, FILE_LEN).expect("the sizes are ordinary")
}

/// The record of a file whose blocks are all there but for the last one.
fn cinfo() -> Cinfo {
    let mut cinfo = Cinfo::new(geometry(), NOW, ChecksumState::Net);
    for block in 0..geometry().block_count() - 1 {
        cinfo.blocks.insert(BlockIndex(block));
    }
    cinfo.accesses.extend((0..20).map(|day| Access { opens: 1, ..Access::begun(NOW + day * 86_400) }));
    cinfo
}

#[divan::bench(args = [4 << 10, 1 << 20, 64 << 20])]
fn holds(bencher: Bencher<'_, '_>, len: u64) {
    let map = BlockMap::from_cinfo(&cinfo(), Trust::Given);
    bencher.bench(|| map.holds(black_box(ByteRange::at(5 << 30, len))));
}

#[divan::bench]
fn holds_of_a_complete_file(bencher: Bencher<'_, '_>) {
    let map = BlockMap::from_cinfo(&cinfo(), Trust::Given);
    map.set_written(BlockIndex(geometry().block_count() - 1));
    bencher.bench(|| map.holds(black_box(ByteRange::at(5 << 30, 4096))));
}

#[divan::bench]
fn present_run_to_the_gap(bencher: Bencher<'_, '_>) {
    let map = BlockMap::from_cinfo(&cinfo(), Trust::Given);
    bencher.bench(|| map.present_run(black_box(0)));
}

#[divan::bench(args = [4 << 10, 1 << 20])]
fn plan_of_a_hit(len: u64) -> Vec<Piece> {
    let range = black_box(ByteRange::at(5 << 30, len));
    plan_read(range, geometry(), PlanLimits::default(), |_| BlockState::Present)
}

#[divan::bench(args = [4 << 10, 1 << 20])]
fn plan_of_a_miss(len: u64) -> Vec<Piece> {
    let range = black_box(ByteRange::at(5 << 30, len));
    plan_read(range, geometry(), PlanLimits::default(), |_| BlockState::Missing)
}

#[divan::bench]
fn encode_cinfo(bencher: Bencher<'_, '_>) {
    let (cinfo, mut out) = (cinfo(), Vec::new());
    bencher.bench_local(move || {
        out.clear();
        black_box(&cinfo).encode(&mut out);
    });
}

#[divan::bench]
fn decode_cinfo(bencher: Bencher<'_, '_>) {
    let mut bytes = Vec::new();
    cinfo().encode(&mut bytes);
    bencher.bench(|| Cinfo::decode(black_box(&bytes)));
}

#[divan::bench]
fn compact_one_access_too_many(bencher: Bencher<'_, '_>) {
    let accesses = cinfo().accesses;
    bencher.with_inputs(|| accesses.clone()).bench_values(|mut accesses| {
        compact_accesses(&mut accesses, 19, NOW + 21 * 86_400);
        accesses
    });
}

#[divan::bench]
fn cache_key(bencher: Bencher<'_, '_>) {
    let lfn = Lfn::parse("/store/mc/NANOAODSIM/120000/0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9.root");
    let lfn = lfn.expect("the name is good");
    bencher.bench(|| CacheKey::fixed(black_box(&lfn)));
}
