//! Reads of servers that die, stall, shorten and damage: the right bytes after recovery, or the right error in time.

use crate::setup::{
    assert_right, bounded, drain, impatient_origin_of, open, options, origin_of, path, pool, read_error, read_right,
};
use forebay_origin::{Origin, OriginError, RefusalKind};
use forebay_origin_root::RootOrigin;
use forebay_proto::{ErrorCode, RequestCode};
use forebay_telemetry::Metrics;
use forebay_testkit::{Facts, Reply, ScriptedOrigin, Seen};
use forebay_types::ByteRange;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const WHOLE: ByteRange = ByteRange::at(0, 1 << 20);

/// A server that answers the `nth` page read with `reply`, and everything else as it should.
async fn once(nth: usize, reply: Reply) -> ScriptedOrigin {
    with_reads(Facts::default(), move |seen| if seen.nth == nth { reply.clone() } else { Reply::Good }).await
}

async fn always(reply: Reply) -> ScriptedOrigin {
    with_reads(Facts::default(), move |_| reply.clone()).await
}

async fn with_reads(facts: Facts, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> ScriptedOrigin {
    ScriptedOrigin::start(facts, move |seen| match seen.code {
        RequestCode::PGREAD | RequestCode::READ | RequestCode::READV => reply(seen),
        _ => Reply::Good,
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_connection_lost_in_mid_read_is_replaced_and_reading_goes_on() {
    for cut_after in [0, 5, 32, 100, 5000, 300_000, 700_001] {
        let server = once(0, Reply::CutAfter(cut_after)).await;
        let origin = origin_of(&[&server]);
        let file = open(&origin).await;
        read_right(&file, WHOLE).await;
        assert_eq!(server.count(RequestCode::OPEN), 2, "opened again once");
        let seen = server.seen();
        let last = seen.iter().rfind(|seen| seen.code == RequestCode::PGREAD).unwrap();
        let delivered = last.ranges[0].start();
        let least = (cut_after / 4128) as u64 * 4096;
        assert!(delivered + (256 << 10) >= least.min(1 << 20), "{cut_after}: resumed at {delivered}");
    }
}

#[tokio::test]
async fn all_readers_recover_from_a_lost_connection_with_one_open() {
    let server = once(7, Reply::CutAfter(10)).await;
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let ranges: Vec<_> = (0..16).map(|at| ByteRange::at(at * 50_000, 40_000)).collect();
    let chunks: Vec<_> = ranges.iter().map(|&range| file.read(range)).collect();
    for (range, chunks) in ranges.into_iter().zip(chunks) {
        assert_right(range, &drain(chunks).await.unwrap());
    }
    assert_eq!(server.count(RequestCode::OPEN), 2);
    assert_eq!(server.count(RequestCode::LOGIN), 2);
}

#[tokio::test]
async fn a_reader_that_does_not_come_back_holds_up_nobody_while_the_file_is_opened_anew() {
    let server = once(0, Reply::CutAfter(10)).await;
    let origin = origin_of(&[&server]);
    let (file, other) = (open(&origin).await, open(&origin).await);
    let front = file.read(WHOLE);
    bounded(async {
        while server.count(RequestCode::LOGIN) < 2 {
            // Notices that the connection is lost, and makes another one.
            origin.stat(&path("/store/file")).await.unwrap();
        }
    })
    .await;
    // Started, and then left alone, as by a reader whose client is slow.
    let behind = [file.read(WHOLE), other.read(WHOLE)];
    assert_right(WHOLE, &drain(front).await.unwrap());
    for range in [ByteRange::at(0, 10), ByteRange::at(5, 10)] {
        read_right(&file, range).await;
        read_right(&other, range).await;
    }
    for chunks in behind {
        assert_right(WHOLE, &drain(chunks).await.unwrap());
    }
}

#[tokio::test]
async fn an_origin_that_dies_and_comes_back_is_read_on() {
    let server = Arc::new(once(0, Reply::StallAfter(10_000)).await);
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let reading = tokio::spawn(async move { read_right(&file, WHOLE).await });
    bounded(async {
        while server.count(RequestCode::PGREAD) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.stop().await;
    server.restart().await.unwrap();
    bounded(reading).await.unwrap();
}

#[tokio::test]
async fn an_origin_that_stays_dead_is_an_error_in_time() {
    let server = once(0, Reply::CutAfter(100)).await;
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    server.stop().await;
    let error = read_error(&file, WHOLE).await;
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_always_dies_is_an_error_in_time() {
    let server = always(Reply::CutAfter(3)).await;
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let error = read_error(&file, WHOLE).await;
    assert!(matches!(error, OriginError::Lost { .. }), "{error}");
    assert_eq!(server.count(RequestCode::PGREAD), 4, "read_attempts");
}

#[tokio::test]
async fn progress_counts_as_a_fresh_start() {
    // Each answer is cut after some pages: far more cuts than attempts, and yet every byte arrives.
    let facts = Facts { frame_len: 16 << 10, ..Facts::default() };
    let server = with_reads(facts, |_| Reply::CutAfter(100_000)).await;
    let origin = origin_of(&[&server]);
    read_right(&open(&origin).await, WHOLE).await;
    assert!(server.count(RequestCode::PGREAD) > 8);
}

#[tokio::test]
async fn silence_and_stalls_are_noticed_and_recovered_from() {
    let range = ByteRange::at(0, 300_000);
    for reply in [Reply::Silence, Reply::StallAfter(20), Reply::StallAfter(200_000)] {
        let server = once(0, reply.clone()).await;
        let origin = impatient_origin_of(&server);
        read_right(&open(&origin).await, range).await;
        assert!(server.count(RequestCode::LOGIN) > 1, "{reply:?}");
    }
    let server = always(Reply::Silence).await;
    let error = read_error(&open(&impatient_origin_of(&server)).await, range).await;
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_page_damaged_once_is_asked_for_again() {
    for offset in [0, 5000, 300_000, (1 << 20) - 1] {
        let server = once(0, Reply::CorruptPage(offset)).await;
        let origin = origin_of(&[&server]);
        read_right(&open(&origin).await, WHOLE).await;
        let seen = server.seen();
        let retry: Vec<_> = seen.iter().filter(|seen| seen.retry).collect();
        assert_eq!(retry.len(), 1);
        assert_eq!(retry[0].ranges, [ByteRange::at(offset - offset % 4096, 4096)]);
    }
}

#[tokio::test]
async fn a_damaged_page_at_the_edge_of_a_range_is_asked_for_in_part() {
    let server = once(0, Reply::CorruptPage(100)).await;
    let origin = origin_of(&[&server]);
    read_right(&open(&origin).await, ByteRange::at(100, 50)).await;
    assert_eq!(server.seen().iter().find(|seen| seen.retry).unwrap().ranges, [ByteRange::at(100, 50)]);
}

#[tokio::test]
async fn a_page_that_stays_damaged_is_never_delivered() {
    let server = always(Reply::CorruptPage(500_000)).await;
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let error = read_error(&file, WHOLE).await;
    assert!(matches!(error, OriginError::Corrupt { offset: 499_712, .. }), "{error}");
    read_right(&file, ByteRange::at(0, 400_000)).await;
}

#[tokio::test]
async fn a_damaged_page_is_read_from_the_next_server() {
    let bad = always(Reply::CorruptPage(500_000)).await;
    let good = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&bad, &good]);
    read_right(&open(&origin).await, WHOLE).await;
    let resumed = good.seen().iter().find(|seen| seen.code == RequestCode::PGREAD).unwrap().ranges[0].start();
    assert!(resumed > 0, "what was delivered is not asked for again");
}

#[tokio::test]
async fn a_short_answer_is_not_the_end_of_the_file() {
    let server = once(0, Reply::Short(10_000)).await;
    let origin = origin_of(&[&server]);
    read_right(&open(&origin).await, WHOLE).await;
    for facts in [Facts::default(), Facts::without_pages()] {
        let server = with_reads(facts, |seen| Reply::Short(if seen.nth == 0 { 4096 } else { 0 })).await;
        let origin = origin_of(&[&server]);
        let error = read_error(&open(&origin).await, WHOLE).await;
        assert!(matches!(error, OriginError::ShortRead { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_short_answer_is_completed_by_the_next_server() {
    let short = always(Reply::Short(4096)).await;
    let good = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&short, &good]);
    read_right(&open(&origin).await, ByteRange::at(0, 100_000)).await;
    assert_eq!(good.count(RequestCode::PGREAD), 1);
}

#[tokio::test]
async fn a_file_counts_as_verified_until_bytes_come_without_checksums() {
    let with = once(0, Reply::CutAfter(300_000)).await;
    let without = ScriptedOrigin::start(Facts::without_pages(), |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&with, &without]);
    let file = open(&origin).await;
    let mut chunks = file.read(WHOLE);
    bounded(chunks.next()).await.unwrap().unwrap();
    assert!(file.verifies_pages());
    with.stop().await;
    drain(chunks).await.unwrap();
    assert!(!file.verifies_pages());
    let denies = with_reads(Facts::default(), |seen| match seen.code {
        RequestCode::PGREAD => Reply::Error(ErrorCode::UNSUPPORTED, "no pages"),
        _ => Reply::Good,
    })
    .await;
    let file = open(&origin_of(&[&denies])).await;
    read_right(&file, WHOLE).await;
    assert!(!file.verifies_pages());
}

#[tokio::test]
async fn an_error_of_one_range_leaves_the_others_alone() {
    let server = with_reads(Facts::default(), |seen| match seen.ranges[0].start() {
        500_000 => Reply::Error(ErrorCode::NOT_AUTHORIZED, "not this one"),
        _ => Reply::Good,
    })
    .await;
    let origin = origin_of(&[&server]);
    let file = open(&origin).await;
    let ranges = [ByteRange::at(0, 1000), ByteRange::at(500_000, 1000), ByteRange::at(900_000, 1000)];
    let mut chunks = file.read_many(&ranges).into_iter();
    assert_right(ranges[0], &drain(chunks.next().unwrap()).await.unwrap());
    let (bytes, error) = drain(chunks.next().unwrap()).await.unwrap_err();
    assert!(bytes.is_empty());
    assert_eq!(error.refusal(), Some(RefusalKind::Denied));
    assert_right(ranges[2], &drain(chunks.next().unwrap()).await.unwrap());
}

#[tokio::test]
async fn a_file_that_changed_is_not_mixed_with_the_old_one() {
    let before = once(0, Reply::CutAfter(50_000)).await;
    let after = ScriptedOrigin::start(Facts { size: 999_999, ..Facts::default() }, |_| Reply::Good).await.unwrap();
    let origin = origin_of(&[&before, &after]);
    let file = open(&origin).await;
    before.stop().await;
    let error = read_error(&file, WHOLE).await;
    assert!(matches!(error, OriginError::Changed { .. }), "{error}");
}

#[tokio::test]
async fn a_file_is_opened_anew_by_way_of_the_redirector() {
    let pool = once(0, Reply::CutAfter(50_000)).await;
    let target = pool.endpoint().clone();
    let door = ScriptedOrigin::start(Facts::redirector(), move |seen| match seen.code {
        RequestCode::LOGIN => Reply::Good,
        _ => Reply::Redirect(target.clone(), format!("uuid={}", seen.nth)),
    })
    .await
    .unwrap();
    let origin = origin_of(&[&door]);
    let file = open(&origin).await;
    read_right(&file, WHOLE).await;
    assert_eq!(door.count(RequestCode::OPEN), 2);
    let opened: Vec<_> =
        pool.seen().into_iter().filter(|seen| seen.code == RequestCode::OPEN).map(|seen| seen.path).collect();
    assert_eq!(opened, ["/store/file?uuid=0", "/store/file?uuid=1"]);
}

#[tokio::test]
async fn nonsense_from_a_server_breaks_the_connection_and_nothing_else() {
    let server = ScriptedOrigin::start(Facts::without_pages(), |seen| match (seen.code, seen.nth) {
        // More bytes than asked for.
        (RequestCode::READ, 0) => Reply::Body(vec![0; 5000]),
        (RequestCode::OPEN, 0) => Reply::Body(vec![1, 2]),
        _ => Reply::Good,
    })
    .await
    .unwrap();
    let origin = origin_of(&[&server]);
    let Err(error) = bounded(origin.open(&path("/f"))).await else { panic!("opened") };
    assert!(matches!(error, OriginError::Protocol { .. }), "{error}");
    let file = open(&origin).await;
    read_right(&file, ByteRange::at(0, 1000)).await;
}

#[tokio::test]
async fn one_dead_origin_does_not_delay_another() {
    let silent = always(Reply::Silence).await;
    let good = ScriptedOrigin::start(Facts::default(), |_| Reply::Good).await.unwrap();
    let (pool, metrics) = (pool(), Metrics::new());
    let origin = |server: &ScriptedOrigin| {
        RootOrigin::new(vec![server.endpoint().clone()], options(), Arc::clone(&pool), &metrics)
    };
    let (silent_file, good_file) = (open(&origin(&silent)).await, open(&origin(&good)).await);
    let stuck: Vec<_> = (0..100).map(|at| silent_file.read_many(&[ByteRange::at(at, 1), WHOLE])).collect();
    let begun = Instant::now();
    read_right(&good_file, WHOLE).await;
    assert!(begun.elapsed() < options().first_byte_timeout, "the good origin is not held up");
    assert_eq!(stuck.len(), 100);
}

#[tokio::test]
async fn a_session_that_is_given_up_is_closed_although_files_are_open_there() {
    let server = once(0, Reply::Silence).await;
    let origin = impatient_origin_of(&server);
    let (file, _idle) = (open(&origin).await, open(&origin).await);
    read_right(&file, ByteRange::at(0, 10)).await;
    assert_eq!(server.count(RequestCode::LOGIN), 2);
    bounded(async {
        while server.connections() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_time_for_which_a_reader_stays_away_is_not_the_origins() {
    for first in [Reply::CutAfter(10), Reply::CutAfter(300_000), Reply::Wait(1), Reply::Good] {
        let server = once(0, first.clone()).await;
        let origin = origin_of(&[&server]);
        let file = open(&origin).await;
        let chunks = file.read(WHOLE);
        // The answer has come when that of a later request has.
        read_right(&file, ByteRange::at(0, 10)).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::time::resume();
        let bytes = drain(chunks).await.unwrap_or_else(|(_, error)| panic!("{first:?}: {error}"));
        assert_right(WHOLE, &bytes);
    }
}
