//! Reads of a server that answers, in whatever order, form and number of pieces.

use crate::setup::{assert_right, bounded, drain, open, options, origin_of, path, pool, read_right};
use forebay_origin::Origin;
use forebay_origin_root::{Options, RootOrigin};
use forebay_proto::{ErrorCode, RequestCode};
use forebay_telemetry::Metrics;
use forebay_testkit::{Facts, Reply, ScriptedOrigin};
use forebay_types::ByteRange;

const RANGES: [(u64, u64); 8] = [
    (0, 1),
    (0, 4096),
    (4095, 2),
    (100, 10_000),
    (0, 1 << 20),
    ((1 << 20) - 1, 1),
    (130_000, 200_001),
    (5000, (1 << 20) - 5000),
];

async fn assert_ranges_are_read(facts: Facts) -> ScriptedOrigin {
    let server = ScriptedOrigin::start(facts, |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    for (start, len) in RANGES {
        read_right(&file, ByteRange::at(start, len)).await;
    }
    server
}

#[tokio::test]
async fn ranges_are_read_with_page_checksums() {
    let server = assert_ranges_are_read(Facts::default()).await;
    assert_eq!(server.count(RequestCode::READ), 0);
    assert_eq!(server.count(RequestCode::PGREAD), RANGES.len());
}

#[tokio::test]
async fn ranges_are_read_plainly_where_there_are_no_pages() {
    let server = assert_ranges_are_read(Facts::without_pages()).await;
    assert_eq!(server.count(RequestCode::PGREAD), 0);
    assert_eq!(server.count(RequestCode::READ), RANGES.len());
}

#[tokio::test]
async fn answers_in_tiny_frames_are_put_together() {
    assert_ranges_are_read(Facts { frame_len: 4096, ..Facts::default() }).await;
    assert_ranges_are_read(Facts { frame_len: 4096, ..Facts::without_pages() }).await;
}

#[tokio::test]
async fn page_reads_can_be_switched_off() {
    let server = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let options = Options { page_reads: false, ..options() };
    let origin = RootOrigin::new(vec![server.endpoint().clone()], options, pool(), &Metrics::new());
    read_right(&open(&origin).await, ByteRange::at(10, 100)).await;
    assert_eq!(server.count(RequestCode::PGREAD), 0);
}

#[tokio::test]
async fn a_server_that_denies_page_reads_after_all_is_read_plainly() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::PGREAD => Reply::Error(ErrorCode::UNSUPPORTED, "not here"),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    read_right(&file, ByteRange::at(10, 100_000)).await;
    read_right(&file, ByteRange::at(500, 1000)).await;
    assert_eq!(server.count(RequestCode::PGREAD), 1);
}

#[tokio::test]
async fn answers_out_of_order_find_their_readers() {
    let server = ScriptedOrigin::start(Facts { size: 16 << 20, ..Facts::default() }, |seen| match seen.code {
        RequestCode::PGREAD => Reply::Hold(6),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    // Four parts of a large read and two small ones: all are asked for at once and answered from the last to the first.
    let ranges = [ByteRange::at(0, 8 << 20), ByteRange::at(9 << 20, 5000), ByteRange::at(12_345_678, 4321)];
    let chunks = file.read_many(&ranges);
    for (range, chunks) in ranges.into_iter().zip(chunks) {
        assert_right(range, &drain(chunks).await.unwrap());
    }
}

#[tokio::test]
async fn scattered_ranges_are_one_vector_read() {
    let server = ScriptedOrigin::start(Facts::without_pages(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let ranges: Vec<_> = (0..100).map(|at| ByteRange::at(at * 9000, 3000)).collect();
    for (range, chunks) in ranges.iter().zip(file.read_many(&ranges)) {
        assert_right(*range, &drain(chunks).await.unwrap());
    }
    assert_eq!((server.count(RequestCode::READV), server.count(RequestCode::READ)), (1, 0));
    assert_eq!(server.count(RequestCode::QUERY), 1, "the limits are asked for once");
}

#[tokio::test]
async fn a_server_without_vector_reads_gets_reads() {
    let server = ScriptedOrigin::start(Facts::without_pages(), |seen| match seen.code {
        RequestCode::READV | RequestCode::QUERY => Reply::Error(ErrorCode::UNSUPPORTED, "not here"),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    for _ in 0..2 {
        let ranges = [ByteRange::at(0, 10), ByteRange::at(70_000, 10), ByteRange::at(0, 10)];
        for (range, chunks) in ranges.into_iter().zip(file.read_many(&ranges)) {
            assert_right(range, &drain(chunks).await.unwrap());
        }
    }
    assert_eq!(server.count(RequestCode::READV), 1);
}

#[tokio::test]
async fn deferred_and_delayed_answers_arrive() {
    let server = ScriptedOrigin::start(Facts::without_pages(), |seen| match (seen.code, seen.nth) {
        (RequestCode::OPEN | RequestCode::READ | RequestCode::QUERY, 0) => Reply::Deferred,
        (RequestCode::READ, 1) => Reply::Wait(1),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    read_right(&file, ByteRange::at(0, 700_000)).await;
    read_right(&file, ByteRange::at(1, 100)).await;
    let checksum = origin.checksum(&path("/f"), Some("adler32")).await.unwrap();
    assert_eq!(checksum.to_string(), "adler32 001a2b3c");
    assert_eq!(server.count(RequestCode::READ), 3);
}

#[tokio::test]
async fn a_reader_that_leaves_disturbs_nobody() {
    let server = ScriptedOrigin::start(Facts { size: 64 << 20, ..Facts::default() }, |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    for _ in 0..10 {
        drop(file.read(ByteRange::at(0, 2 << 20)));
        let mut begun = file.read(ByteRange::at(0, 2 << 20));
        begun.next().await.unwrap().unwrap();
    }
    read_right(&file, ByteRange::at(7, 3_000_000)).await;
    assert_eq!(server.count(RequestCode::LOGIN), 1);
}

#[tokio::test]
async fn dropping_a_file_closes_it_at_the_server() {
    let server = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    drop(open(&origin).await);
    // Requests of one connection are seen in order: once this is answered the close has been seen.
    origin.stat(&path("/f")).await.unwrap();
    assert_eq!(server.count(RequestCode::CLOSE), 1);
}

#[tokio::test]
async fn requests_bytes_and_errors_are_counted() {
    let server = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let metrics = Metrics::new();
    let origin = RootOrigin::new(vec![server.endpoint().clone()], options(), pool(), &metrics);
    read_right(&open(&origin).await, ByteRange::at(0, 12_345)).await;
    let text = metrics.render().unwrap();
    let label = origin.label();
    assert!(text.contains(&format!("forebay_origin_bytes_total{{origin=\"{label}\"}} 12345")), "{text}");
    assert!(text.contains(&format!("forebay_origin_errors_total{{origin=\"{label}\"}} 0")), "{text}");
}

#[tokio::test]
async fn more_reads_than_one_session_takes_wait_their_turn() {
    let server = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let ranges: Vec<_> = (0..5000).map(|at| ByteRange::at(at * 200, 3)).collect();
    let chunks: Vec<_> = ranges.iter().map(|&range| file.read(range)).collect();
    for (range, chunks) in ranges.into_iter().zip(chunks) {
        assert_right(range, &drain(chunks).await.unwrap());
    }
    assert_eq!((server.count(RequestCode::PGREAD), server.count(RequestCode::LOGIN)), (5000, 1));
}

#[tokio::test]
async fn a_session_that_owes_too_many_unwanted_answers_is_replaced() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::PGREAD if seen.ranges[0].len() == 1 => Reply::Silence,
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let unwanted: Vec<_> = (0..1100).map(|_| file.read(ByteRange::at(0, 1))).collect();
    drop(unwanted);
    read_right(&file, ByteRange::at(0, 1000)).await;
    assert_eq!(server.count(RequestCode::LOGIN), 2);
}

#[tokio::test]
async fn answers_owed_for_damaged_pages_count_as_unwanted_when_nobody_waits() {
    const READS: usize = 1100;
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::PGREAD if seen.retry => Reply::Silence,
        RequestCode::PGREAD if seen.ranges[0].len() == 1 => Reply::CorruptPage(0),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let reads: Vec<_> = (0..READS).map(|_| tokio::spawn(drain(file.read(ByteRange::at(0, 1))))).collect();
    bounded(async {
        while server.count(RequestCode::PGREAD) < 2 * READS {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for read in reads {
        read.abort();
        assert!(read.await.unwrap_err().is_cancelled());
    }
    read_right(&file, ByteRange::at(0, 1000)).await;
    assert_eq!(server.count(RequestCode::LOGIN), 2);
}

#[tokio::test]
async fn a_session_that_answers_no_close_is_replaced() {
    let server = ScriptedOrigin::start(Facts::default(), |seen| match seen.code {
        RequestCode::CLOSE => Reply::Silence,
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    for _ in 0..1100 {
        open(&origin).await;
    }
    assert_eq!(server.count(RequestCode::LOGIN), 2);
}
