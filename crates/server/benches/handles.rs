//! What finding an open file by its name costs.

use divan::{Bencher, black_box};
use forebay_proto::FileHandle;
use handles::HandleTable;

/// The table itself: it is no part of the crate's interface.
#[allow(dead_code, unused_imports, reason = "only what requests do is measured, and no test of the table is run")]
#[path = "../src/base/handles.rs"]
mod handles;

fn main() {
    divan::main();
}

#[divan::bench(args = [1, 8192])]
fn find(bencher: Bencher<'_, '_>, open: usize) {
    let mut table = HandleTable::new(open);
    let names: Vec<FileHandle> = (0..open).filter_map(|file| table.insert(file, ())).collect();
    let mut next = names.iter().cycle();
    bencher.bench_local(move || next.next().and_then(|name| table.get(black_box(*name))).copied());
}

#[divan::bench]
fn open_and_close(bencher: Bencher<'_, '_>) {
    let mut table = HandleTable::new(8192);
    bencher.bench_local(move || table.insert(black_box(7), ()).and_then(|name| table.remove(name)));
}
