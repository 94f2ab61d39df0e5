//! What is counted and logged of each request and each close.

use divan::{Bencher, black_box};
use forebay_telemetry::{
    Access, Metrics, RequestKind, Sample, Trace, TraceOptions, TracedAnswer, TracedFile, TracedOpen, TracedRead,
};
use forebay_types::{ByteRange, Lfn, Outcome};
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
fn trace_a_read(bencher: Bencher<'_, '_>) {
    let (file, answer) = traced();
    let range = ByteRange::at(123_456_789, 4096);
    bencher.bench_local(|| file.read(TracedRead::Read, black_box(range), &answer));
}

#[divan::bench]
fn trace_a_vector_of_100(bencher: Bencher<'_, '_>) {
    let (file, answer) = traced();
    let element = |number: u64| ByteRange::at(123_456_789 + number * 10_000, 4096);
    bencher.bench_local(|| file.read_vector((0..100).map(element), &answer));
}

/// A file whose trace goes nowhere, so that no disk is measured, and an answer.
fn traced() -> (TracedFile, TracedAnswer) {
    #[expect(clippy::disallowed_methods, reason = "some moment")]
    let now = std::time::Instant::now();
    let options =
        TraceOptions { directory: "/dev/null".into(), sample: Sample::ALL, file_bytes: 1 << 30, files_max: 1 };
    let trace = Trace::start(options, (now, 1_700_000_000_000_000), Metrics::new()).expect("there are threads");
    let open = TracedOpen { path: "/f", size: 1 << 30, user: "bench", peer: "[::1]:1094", pid: 1, program: "bench" };
    let file = trace.open(&open, now).expect("all are drawn");
    (file, TracedAnswer { received: now, done: now + Duration::from_micros(17), outcome: Outcome::Hit })
}

#[divan::bench]
fn render_metrics(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.render());
}
