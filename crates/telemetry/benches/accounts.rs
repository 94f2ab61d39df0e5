//! What is counted and logged of each request and each close.

use divan::{Bencher, black_box};
use forebay_telemetry::{
    AccessLog, Activity, ActivityOptions, Client, CloseEvent, FileEvents, FileUse, Metrics, OpenEvent, OpenPurpose,
    ReadAnswer, ReadEvents, ReadKind, RequestKind, Sample, StreamOptions, Streams, Trace, TraceOptions,
};
use forebay_types::{ByteRange, Endpoint, Lfn, Outcome};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

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

#[divan::bench]
fn note_a_read(bencher: Bencher<'_, '_>) {
    let handle = Metrics::new().open_handle();
    bencher.bench_local(|| handle.note_read(ReadKind::Read, black_box(4096)));
}

#[divan::bench(threads = [1, 2])]
fn observe_a_duration(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.observe_requests(Outcome::Hit, black_box(Duration::from_micros(37)), 1));
}

#[divan::bench]
fn log_a_close(bencher: Bencher<'_, '_>) {
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(io::sink).finish();
    let (log, client, handle) = (AccessLog::default(), Client::default(), Metrics::new().open_handle());
    let lfn = Lfn::parse("/store/mc/NANOAODSIM/0A1B2C3D.root").expect("the name is good");
    let duration = Duration::from_millis(12);
    let event = CloseEvent {
        open: 1,
        at: now(),
        client: &client,
        lfn: &lfn,
        origin: None,
        size: 1 << 30,
        purpose: OpenPurpose::Read,
        account: handle.shared(),
        duration,
        opens: 1,
        file: None,
    };
    tracing::subscriber::with_default(subscriber, || bencher.bench_local(|| log.closed(black_box(&event))));
}

const CMS_FILE: &str = "/store/mc/RunIISummer20/TTbar/NANOAODSIM/106X-v2/260000/0A1B2C3D.root";

fn client() -> Arc<Client> {
    Arc::new(Client {
        user: "cms".to_owned(),
        host: "wn123.gridka.de".to_owned(),
        program: "cmsRun".to_owned(),
        ..Client::default()
    })
}

#[divan::bench]
fn follow_an_open_and_its_close(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    let options = ActivityOptions { exports: vec!["/store".to_owned()], ..ActivityOptions::default() };
    let activity = Activity::new(options, (now(), 1_700_000_000), &metrics);
    let lfn = Lfn::parse(CMS_FILE).expect("the name is good");
    let client = client();
    let (handle, origin) = (metrics.open_handle(), Endpoint::new("xrootd-cms.infn.it", 1094).into());
    let (open, at, size, purpose, account) = (1, now(), 1 << 30, OpenPurpose::Read, handle.shared());
    let (client, lfn, origin, file) = (&client, &lfn, Some(&origin), None);
    let (duration, opens) = (Duration::from_millis(12), 1);
    let opened = OpenEvent { open, at, client, lfn, origin, size, purpose, account };
    let closed = CloseEvent { open, at, client, lfn, origin, size, purpose, account, duration, opens, file };
    bencher.bench_local(|| {
        activity.opened(black_box(&opened));
        activity.closed(black_box(&closed));
    });
}

/// Opens and closes of a round: the queue of the streams takes them at once.
const ROUND: u64 = 10_000;

/// With the work of the thread that encodes and sends: the time for each is more than the processor time for both.
#[divan::bench(sample_count = 50)]
fn stream_ten_thousand_opens_and_closes(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("there are ports");
    let address = receiver.local_addr().expect("it is bound");
    std::thread::spawn(move || while receiver.recv(&mut [0; 2048]).is_ok() {});
    let options = StreamOptions { collectors: vec![address.to_string()], ..StreamOptions::default() };
    let streams = Streams::start(options, || 1_700_000_000, metrics.clone()).expect("there are threads");
    let (client, file) = (client(), FileUse::default());
    let lfn = Lfn::parse(CMS_FILE).expect("the name is good");
    let (client, lfn, handle, at) = (&client, &lfn, metrics.open_handle(), now());
    let (origin, size, purpose, account) = (None, 1 << 30, OpenPurpose::Read, handle.shared());
    let (duration, opens, file) = (Duration::from_millis(12), 1, Some(&file));
    bencher.counter(divan::counter::ItemsCount::new(ROUND)).bench_local(|| {
        for open in 0..ROUND {
            streams.opened(&OpenEvent { open, at, client, lfn, origin, size, purpose, account });
            streams.closed(&CloseEvent {
                open,
                at,
                client,
                lfn,
                origin,
                size,
                purpose,
                account,
                duration,
                opens,
                file,
            });
        }
        streams.flush(Duration::from_secs(10));
    });
    assert_eq!(metrics.stream_events_dropped(), 0, "the queue has room for a round");
}

#[divan::bench]
fn trace_a_read(bencher: Bencher<'_, '_>) {
    let (file, answer) = traced();
    let range = ByteRange::at(123_456_789, 4096);
    bencher.bench_local(|| file.read(ReadKind::Read, black_box(range), &answer));
}

#[divan::bench]
fn trace_a_vector_of_100(bencher: Bencher<'_, '_>) {
    let (file, answer) = traced();
    let element = |number: u64| ByteRange::at(123_456_789 + number * 10_000, 4096);
    let elements: Vec<_> = (0..100).map(element).collect();
    bencher.bench_local(|| file.read_vector(black_box(&elements), &answer));
}

/// A file whose trace goes nowhere, so that no disk is measured, and an answer.
fn traced() -> (Box<dyn ReadEvents>, ReadAnswer) {
    let now = now();
    let directory = "/dev/null".into();
    let options = TraceOptions { directory, sample: Sample::ALL, only: Vec::new(), file_bytes: 1 << 30, files_max: 1 };
    let trace = Trace::start(options, (now, 1_700_000_000_000_000), Metrics::new()).expect("there are threads");
    let (client, lfn) = (Arc::new(Client::default()), Lfn::parse("/f").expect("the name is good"));
    let handle = Metrics::new().open_handle();
    let (client, lfn, purpose, account) = (&client, &lfn, OpenPurpose::Read, handle.shared());
    let open = OpenEvent { open: 1, at: now, client, lfn, origin: None, size: 1 << 30, purpose, account };
    let file = trace.opened(&open).expect("all are drawn");
    (file, ReadAnswer { received: now, done: now + Duration::from_micros(17), outcome: Outcome::Hit })
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "some moment")]
    Instant::now()
}

#[divan::bench]
fn render_metrics(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    bencher.bench(|| metrics.render());
}
