//! What is counted and logged of each request and each close.

use divan::{Bencher, black_box};
use forebay_telemetry::{Access, Metrics, RequestKind};
use forebay_types::{Lfn, Outcome};
use std::{io, time::Duration};

fn main() {
    divan::main();
}

#[divan::bench]
fn count_a_request(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.add_client_request(black_box(RequestKind::Read)));
}

#[divan::bench]
fn account_bytes(bencher: Bencher<'_, '_>) {
    let handle = Metrics::new().open_handle();
    bencher.bench(|| handle.account(Outcome::Hit, black_box(4096)));
}

#[divan::bench(threads = [1, 2])]
fn observe_a_duration(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.observe_request(Outcome::Hit, black_box(Duration::from_micros(37))));
}

#[divan::bench]
fn log_a_close(bencher: Bencher<'_, '_>) {
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(io::sink).finish();
    let handle = Metrics::new().open_handle();
    let lfn = Lfn::parse("/store/mc/NANOAODSIM/0A1B2C3D.root").expect("the name is good");
    let duration = Duration::from_millis(12);
    let access =
        Access { user: "bench", host: "127.0.0.1", lfn: &lfn, origin: None, handle: &handle, duration, opens: 1 };
    tracing::subscriber::with_default(subscriber, || bencher.bench_local(|| black_box(&access).log()));
}

#[divan::bench]
fn render_metrics(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.render());
}
