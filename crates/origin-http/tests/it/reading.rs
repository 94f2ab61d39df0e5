//! Reads of open files.

use crate::scripted::{Reply, Seen, Server, options, origin_with, path};
use forebay_origin::{Chunks, Origin, OriginError, OriginFile, RefusalKind};
use forebay_origin_http::Options;
use forebay_types::ByteRange;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

const LEN: usize = 100_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect()
}

fn head(etag: &str) -> Reply {
    Reply::new("200 OK", &format!("Content-Length: {LEN}\nETag: {etag}"), b"")
}

/// Answers as a server with ranges does.
fn part(seen: &Seen, etag: &str) -> Reply {
    let (start, end) = seen.range().map(|(start, end)| (start, end.min(LEN))).unwrap();
    let headers =
        format!("Content-Length: {}\nContent-Range: bytes {start}-{}/{LEN}\nETag: {etag}", end - start, end - 1);
    Reply::new("206 Partial Content", &headers, &content()[start..end])
}

/// Answers as a server does that sends several ranges.
fn parts(seen: &Seen, etag: &str) -> Reply {
    let mut body = Vec::new();
    for (start, end) in seen.ranges() {
        let head = format!("\r\n--xyz\r\nContent-Range: bytes {start}-{}/{LEN}\r\n\r\n", end - 1);
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&content()[start..end]);
    }
    body.extend_from_slice(b"\r\n--xyz--\r\n");
    let kind = "Content-Type: multipart/byteranges; boundary=xyz";
    Reply::new("206 Partial Content", &format!("Content-Length: {}\n{kind}\nETag: {etag}", body.len()), &body)
}

fn ordinary(seen: &Seen) -> Reply {
    match seen.ranges().len() {
        _ if seen.method == "HEAD" => head("\"one\""),
        1 => part(seen, "\"one\""),
        _ => parts(seen, "\"one\""),
    }
}

async fn collect(mut chunks: Chunks) -> Result<Vec<u8>, OriginError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?.bytes);
    }
    Ok(bytes)
}

async fn open(server: &Server) -> Arc<dyn OriginFile> {
    server.origin().open(&path("/f")).await.unwrap()
}

async fn read(file: &Arc<dyn OriginFile>, start: usize, end: usize) -> Result<Vec<u8>, OriginError> {
    collect(file.read(ByteRange::between(start as u64, end as u64))).await
}

#[tokio::test]
async fn ranges_are_requested_with_the_entity_tag_over_kept_connections() {
    let server = Server::start(ordinary).await;
    let file = open(&server).await;
    assert_eq!((file.identity().size, file.verifies_pages()), (LEN as u64, false));
    for (start, end) in [(0, 10), (500, 70_000), (LEN - 1, LEN)] {
        assert_eq!(read(&file, start, end).await.unwrap(), content()[start..end]);
    }
    let seen = server.seen.lock();
    assert_eq!(seen[1].target, "/base/f");
    assert_eq!((seen[1].header("range"), seen[1].header("if-match")), (Some("bytes=0-9"), Some("\"one\"")));
    assert!(seen.iter().all(|seen| seen.connection == 0), "{seen:?}");
}

async fn open_to_read(server: &Server, start: u64, end: u64) -> Arc<dyn OriginFile> {
    server.origin().open_to_read(&path("/f"), ByteRange::between(start, end)).await.unwrap()
}

#[tokio::test]
async fn an_open_brings_the_first_bytes_along() {
    let server = Server::start(ordinary).await;
    let file = open_to_read(&server, 500, 4096).await;
    assert_eq!((file.identity().size, file.identity().validator.to_string()), (LEN as u64, "etag:\"one\"".to_owned()));
    assert_eq!(read(&file, 500, 10_000).await.unwrap(), content()[500..10_000]);
    assert_eq!(read(&file, 500, 10_000).await.unwrap(), content()[500..10_000], "again");
    let asked: Vec<_> = server.seen.lock().iter().map(|seen| seen.ranges()).collect();
    assert_eq!(asked, [vec![(500, 4096)], vec![(4096, 10_000)], vec![(500, 10_000)]]);
}

#[tokio::test]
async fn a_reader_may_ask_for_less_than_its_open_or_for_other_bytes() {
    let server = Server::start(ordinary).await;
    for (file_end, (start, end)) in [(1 << 40, (0, 1000)), (5000, (100, 1000))] {
        let file = open_to_read(&server, 0, file_end).await;
        assert_eq!(read(&file, start, end).await.unwrap(), content()[start..end]);
        assert_eq!(read(&file, 0, 1000).await.unwrap(), content()[..1000]);
    }
    assert!(server.seen.lock().iter().all(|seen| seen.method == "GET"));
}

#[tokio::test]
async fn bytes_that_came_with_an_open_and_broke_off_are_requested_again() {
    let server = Server::start(|seen| {
        let mut reply = ordinary(seen);
        if seen.nth == 0 {
            reply.bytes.truncate(reply.bytes.len() - 1000);
            return reply.and_close();
        }
        reply
    })
    .await;
    let file = open_to_read(&server, 0, 5000).await;
    assert_eq!(read(&file, 0, 5000).await.unwrap(), content()[..5000]);
    assert_eq!(server.seen.lock()[1].range(), Some((4000, 5000)));
}

#[tokio::test]
async fn an_open_to_read_finds_out_what_an_open_does() {
    // Without ranges, without their size, without the method, beyond the end, and a page about a directory.
    for (answer, methods) in [
        (
            (|_| Reply::new("200 OK", &format!("Content-Length: {LEN}\nETag: \"one\""), &content()))
                as fn(&Seen) -> Reply,
            &["GET", "GET"],
        ),
        (
            |_| Reply::new("206 Partial Content", "Content-Length: 1\nContent-Range: bytes 5-5/*\nETag: \"one\"", b"x"),
            &["GET", "HEAD", "GET"],
        ),
        (|_| Reply::new("405 Method Not Allowed", "Content-Length: 0", b""), &["GET", "HEAD", "GET"]),
        (|_| Reply::new("416 Range Not Satisfiable", "Content-Length: 0", b""), &["GET", "HEAD", "GET"]),
        (|_| Reply::new("200 OK", "Content-Length: 6", b"<html>"), &["GET", "HEAD", "GET"]),
    ] as [(fn(&Seen) -> Reply, &[&str]); 5]
    {
        let server = Server::start(move |seen| if seen.nth == 0 { answer(seen) } else { ordinary(seen) }).await;
        let file = open_to_read(&server, 1000, 2000).await;
        assert_eq!(file.identity().size, LEN as u64);
        assert_eq!(read(&file, 1000, 2500).await.unwrap(), content()[1000..2500]);
        let seen: Vec<_> = server.seen.lock().iter().map(|seen| seen.method.clone()).collect();
        assert_eq!(seen, methods);
    }
    let server = Server::start(|_| Reply::new("404 Not Found", "Content-Length: 0", b"")).await;
    let error = server.origin().open_to_read(&path("/f"), ByteRange::at(0, 1)).await.err().unwrap();
    assert_eq!((error.refusal(), server.requests().len()), (Some(RefusalKind::NotFound), 1));
}

/// Reads `ranges` at once and compares their bytes.
async fn read_together(file: &Arc<dyn OriginFile>, ranges: &[ByteRange]) {
    for (range, chunks) in ranges.iter().zip(file.read_many(ranges)) {
        let [start, end] = [range.start(), range.end()].map(|at| usize::try_from(at).unwrap());
        assert_eq!(collect(chunks).await.unwrap(), content()[start..end], "{range}");
    }
}

fn every_thousand(count: u64) -> Vec<ByteRange> {
    (0..count).map(|nth| ByteRange::at(nth * 1000, 500)).collect()
}

#[tokio::test]
async fn short_ranges_that_begin_together_share_a_request_over_the_connection_that_exists() {
    let server = Server::start(ordinary).await;
    let file = open(&server).await;
    read_together(&file, &every_thousand(64)).await;
    {
        let seen = server.seen.lock();
        let asked: Vec<_> = seen.iter().map(|seen| (seen.ranges().len(), seen.connection)).collect();
        assert_eq!(asked, [(0, 0), (64, 0)]);
        assert_eq!(seen[1].header("if-match"), Some("\"one\""));
    }
    // Of two calls, as fills make them.
    let reads = [[0, 10], [5000, 5010]].map(|[start, end]| file.read(ByteRange::between(start, end)));
    for chunks in reads {
        assert_eq!(collect(chunks).await.unwrap().len(), 10);
    }
    assert_eq!(server.seen.lock().last().unwrap().ranges(), [(0, 10), (5000, 5010)]);
}

#[tokio::test]
async fn several_ranges_are_spread_over_new_connections_if_there_is_none() {
    let server =
        Server::start(|seen| if seen.method == "HEAD" { ordinary(seen).and_close() } else { ordinary(seen) }).await;
    let file = open(&server).await;
    read_together(&file, &every_thousand(64)).await;
    let asked: Vec<_> = server.seen.lock().iter().skip(1).map(|seen| seen.ranges().len()).collect();
    assert_eq!(asked, [16, 16, 16, 16]);
}

#[tokio::test]
async fn ranges_that_overlap_are_requested_once() {
    let server = Server::start(ordinary).await;
    let file = open(&server).await;
    let ranges =
        [(0, 100), (50, 150), (50, 150), (150, 200), (1000, 1100)].map(|(start, end)| ByteRange::between(start, end));
    read_together(&file, &ranges).await;
    assert_eq!(server.seen.lock()[1].ranges(), [(0, 200), (1000, 1100)]);
}

#[tokio::test]
async fn joined_requests_that_fail_several_times_are_the_last_ones() {
    // A busy server is asked so again.
    for (status, is_final) in [("403 Forbidden", true), ("503 Service Unavailable", false)] {
        let refusal = move || Reply::new(status, "Content-Length: 0", b"");
        let server = Server::start(move |seen| if seen.ranges().len() > 1 { refusal() } else { ordinary(seen) }).await;
        let file = open(&server).await;
        let mut joined = Vec::new();
        for _ in 0..4 {
            read_together(&file, &every_thousand(64)).await;
            joined.push(server.seen.lock().iter().filter(|seen| seen.ranges().len() > 1).count());
        }
        // One request the first time, and then one for each connection that exists.
        assert_eq!((joined[0], joined[2] >= 3, joined[3] == joined[2]), (1, true, is_final), "{status}: {joined:?}");
    }
}

#[tokio::test]
async fn bytes_without_a_validator_do_not_open_files() {
    // As XrdHttp and pools of dCache: the validator is that of `HEAD`, with which copies are compared.
    let server = Server::start(|seen| {
        let mut reply = ordinary(seen);
        let field = b"ETag: \"one\"\r\n";
        if seen.method == "GET"
            && let Some(place) = reply.bytes.windows(field.len()).position(|bytes| bytes == field)
        {
            reply.bytes.drain(place..place + field.len());
        }
        reply
    })
    .await;
    let origin = server.origin();
    for _ in 0..2 {
        let file = origin.open_to_read(&path("/f"), ByteRange::at(0, 100)).await.unwrap();
        assert_eq!(file.identity().validator.to_string(), "etag:\"one\"");
        assert_eq!(collect(file.read(ByteRange::at(0, 100))).await.unwrap(), content()[..100]);
    }
    let methods: Vec<_> = server.seen.lock().iter().map(|seen| seen.method.clone()).collect();
    let expected = ["GET", "HEAD", "GET", "HEAD", "GET"];
    assert_eq!(
        methods, expected,
        "bytes older than their validator are not used, and the second open asks for the head alone"
    );
}

#[tokio::test]
async fn a_connection_is_kept_when_the_first_block_is_not_read() {
    const BLOCK: u64 = 64 << 10;
    let server = Server::start(ordinary).await;
    let file = open_to_read(&server, 0, BLOCK).await;
    let is_used_again = || server.seen.lock().iter().any(|seen| seen.connection == 0 && seen.nth > 0);
    // Its bytes are given up after a second. It has carried more than the other connection, so it is preferred from then on.
    let reading = async {
        while !is_used_again() {
            assert_eq!(read(&file, 70_000, 70_001).await.unwrap().len(), 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
}

#[tokio::test]
async fn long_ranges_have_a_connection_each() {
    let server = Server::start(|seen| match seen.range() {
        None => Reply::new("200 OK", &format!("Content-Length: {}\nETag: \"one\"", 4 << 20), b""),
        Some((start, end)) => {
            let range = format!("bytes {start}-{}/{}", end - 1, 4 << 20);
            let headers = format!("Content-Length: {}\nContent-Range: {range}\nETag: \"one\"", end - start);
            Reply::new("206 Partial Content", &headers, &vec![0; end - start])
        }
    })
    .await;
    let file = open(&server).await;
    let ranges: Vec<_> = (0..4).map(|nth| ByteRange::at(nth << 20, 1 << 20)).collect();
    // Of a worker's task, whose last spawned task runs first.
    let reading = Arc::clone(&file);
    let reads = tokio::spawn(async move { reading.read_many(&ranges) }).await.unwrap();
    for chunks in reads {
        assert_eq!(collect(chunks).await.unwrap().len(), 1 << 20);
    }
    let seen = server.seen.lock();
    assert_eq!(seen.len(), 5);
    let first = seen.iter().find(|seen| seen.range() == Some((0, 1 << 20))).unwrap();
    assert_eq!(first.connection, 0, "it is requested first");
}

#[tokio::test]
async fn servers_that_refuse_several_ranges_are_asked_for_each() {
    // The whole file, the first range only, an error, and a body that is none of parts.
    for answer in [
        (|_| Reply::new("200 OK", &format!("Content-Length: {LEN}\nETag: \"one\""), &content())) as fn(&Seen) -> Reply,
        |_| {
            let headers = format!("Content-Length: 500\nContent-Range: bytes 0-499/{LEN}\nETag: \"one\"");
            Reply::new("206 Partial Content", &headers, &content()[..500])
        },
        |_| Reply::new("400 Bad Request", "Content-Length: 0", b""),
        |_| Reply::new("206 Partial Content", "Content-Length: 5\nETag: \"one\"\nContent-Type: text/plain", b"12345"),
        |_| {
            let kind = "Content-Type: multipart/byteranges; boundary=xyz";
            Reply::new(
                "206 Partial Content",
                &format!("Content-Length: 12\nETag: \"one\"\n{kind}"),
                b"--abc\r\nA: b\r\n\r\n",
            )
        },
    ] {
        let server =
            Server::start(move |seen| if seen.ranges().len() > 1 { answer(seen) } else { ordinary(seen) }).await;
        let file = open(&server).await;
        read_together(&file, &every_thousand(8)).await;
        read_together(&file, &every_thousand(8)).await;
        let joined = server.seen.lock().iter().filter(|seen| seen.ranges().len() > 1).count();
        assert_eq!(joined, 1, "it is not asked so again");
    }
}

#[tokio::test]
async fn what_a_joined_answer_lacks_is_requested_by_itself() {
    let server = Server::start(|seen| {
        let mut reply = ordinary(seen);
        if seen.ranges().len() > 1 {
            let cut = reply.bytes.len() - 1000;
            reply.bytes.truncate(cut);
            return reply.and_close();
        }
        reply
    })
    .await;
    let file = open(&server).await;
    read_together(&file, &every_thousand(8)).await;
    let asked: Vec<_> = server.seen.lock().iter().map(|seen| seen.ranges().len()).collect();
    assert_eq!((asked[..2].to_vec(), asked.len() > 2), (vec![0, 8], true), "{asked:?}");
    assert!(asked[2..].iter().all(|count| *count == 1), "{asked:?}");
}

#[tokio::test]
async fn joined_answers_of_another_version_are_errors_of_their_reads() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "HEAD" => head("\"one\""),
        _ if seen.ranges().len() > 1 => parts(seen, "\"two\""),
        _ => part(seen, "\"two\""),
    })
    .await;
    let file = open(&server).await;
    for chunks in file.read_many(&every_thousand(4)) {
        let error = collect(chunks).await.unwrap_err();
        assert!(matches!(error, OriginError::Changed { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_read_continues_at_the_next_server_at_the_next_byte() {
    let failing = Server::start(|seen| {
        let mut reply = ordinary(seen);
        if seen.method == "GET" {
            let cut = reply.bytes.len() - 20_000;
            reply.bytes.truncate(cut);
        }
        reply.and_close()
    })
    .await;
    let other = Server::start(|seen| part(seen, "\"other\"")).await;
    let origin = origin_with(&[failing.address, other.address], options());
    let file = origin.open(&path("/f")).await.unwrap();
    assert_eq!(read(&file, 0, 50_000).await.unwrap(), content()[..50_000]);
    {
        let seen = other.seen.lock();
        assert_eq!((seen[0].range(), seen[0].header("if-match")), (Some((30_000, 50_000)), None));
    }
    assert_eq!(read(&file, 60_000, 60_010).await.unwrap(), content()[60_000..60_010]);
    assert_eq!(failing.requests().len(), 2, "the server that answers is asked first");
}

#[tokio::test]
async fn servers_with_another_version_are_passed_over() {
    let first = Server::start(|seen| match seen.nth {
        0 => ordinary(seen).and_close(),
        1 => Reply { bytes: Vec::new(), closes: true },
        _ => ordinary(seen),
    })
    .await;
    let other = Server::start(|seen| {
        let (start, end) = seen.range().unwrap();
        let size = LEN + 1;
        let headers = format!("Content-Length: {}\nContent-Range: bytes {start}-{}/{size}", end - start, end - 1);
        Reply::new("206 Partial Content", &headers, &vec![0; end - start])
    })
    .await;
    let origin = origin_with(&[first.address, other.address], options());
    let file = origin.open(&path("/f")).await.unwrap();
    assert_eq!(read(&file, 0, 1000).await.unwrap(), content()[..1000]);
    assert_eq!((first.requests().len(), other.requests().len()), (3, 1));
}

#[tokio::test]
async fn a_connection_that_ends_early_is_resumed_at_the_next_byte() {
    let server = Server::start(|seen| match seen.nth {
        1 | 2 => {
            let mut reply = ordinary(seen);
            let cut = reply.bytes.len() - 20_000;
            reply.bytes.truncate(cut);
            reply.and_close()
        }
        _ => ordinary(seen),
    })
    .await;
    let file = open(&server).await;
    assert_eq!(read(&file, 0, 50_000).await.unwrap(), content()[..50_000]);
    let ranges: Vec<_> = server.seen.lock().iter().skip(1).map(|seen| seen.range().unwrap()).collect();
    assert_eq!(ranges, [(0, 50_000), (30_000, 50_000), (30_000, 50_000)]);
}

#[tokio::test]
async fn a_silent_server_ends_a_read_with_an_error() {
    let server = Server::start(|seen| {
        let mut reply = ordinary(seen);
        if seen.method == "GET" {
            let cut = reply.bytes.len() - 5;
            reply.bytes.truncate(cut);
        }
        reply
    })
    .await;
    let impatient = Options { stall_timeout: Duration::from_millis(300), ..options() };
    let file = origin_with(&[server.address], impatient).open(&path("/f")).await.unwrap();
    let error = read(&file, 0, 5).await.unwrap_err();
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn another_content_is_never_mixed_in() {
    // Servers that honour `If-Match`, and such that do not.
    for reply in [
        (|_| Reply::new("412 Precondition Failed", "Content-Length: 0", b"")) as fn(&Seen) -> Reply,
        |seen| part(seen, "\"two\""),
        |_| Reply::new("416 Range Not Satisfiable", "Content-Length: 0", b""),
        |_| Reply::new("206 Partial Content", "Content-Length: 5\nContent-Range: bytes 0-4/5", b"small"),
        |_| Reply::new("200 OK", "Content-Length: 5\nETag: \"two\"", b"small"),
        |_| Reply::new("200 OK", "Content-Length: 5", b"small"),
    ] {
        let server = Server::start(move |seen| if seen.method == "HEAD" { head("\"one\"") } else { reply(seen) }).await;
        let error = read(&open(&server).await, 0, 5).await.unwrap_err();
        assert!(matches!(error, OriginError::Changed { .. }), "{error}");
    }
}

#[tokio::test]
async fn wrong_parts_are_refused() {
    for (headers, what) in [
        ("Content-Length: 5\nContent-Range: bytes 1-5/100000", "although"),
        ("Content-Length: 50\nContent-Range: bytes 0-49/100000", "although"),
        ("Content-Length: 5", "without stating"),
        ("Content-Length: 5\nContent-Type: multipart/byteranges; boundary=a", "without stating"),
        ("Content-Length: 5\nContent-Range: bytes 0-4/100000\nContent-Encoding: gzip", "compressed"),
    ] {
        let server = Server::start(move |seen| {
            if seen.method == "HEAD" { head("\"one\"") } else { Reply::new("206 Partial Content", headers, &[0; 50]) }
        })
        .await;
        let error = read(&open(&server).await, 0, 5).await.unwrap_err();
        assert!(error.to_string().contains(what), "{headers}: {error}");
        assert!(!error.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn servers_without_ranges_are_read_from_the_beginning() {
    let whole = || Reply::new("200 OK", &format!("Content-Length: {LEN}\nETag: \"one\""), &content());
    let server = Server::start(move |seen| if seen.method == "HEAD" { head("\"one\"") } else { whole() }).await;
    let file = open(&server).await;
    assert_eq!(read(&file, 60_000, 60_010).await.unwrap(), content()[60_000..60_010]);
    assert_eq!(read(&file, 0, LEN).await.unwrap(), content());
}

#[tokio::test]
async fn a_busy_server_is_asked_again_after_its_pause() {
    let server = Server::start(|seen| match seen.nth {
        1 => Reply::new("503 Slow Down", "Content-Length: 3\nRetry-After: 0", b"no\n"),
        2 => Reply::new("429 Too Many Requests", "Content-Length: 0", b""),
        _ => ordinary(seen),
    })
    .await;
    let file = open(&server).await;
    assert_eq!(read(&file, 7, 20).await.unwrap(), content()[7..20]);
    assert_eq!(server.seen.lock().len(), 4);
}

#[tokio::test]
async fn a_redirect_is_remembered_until_its_target_ends() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("HEAD", _) => head("\"one\""),
        (_, "/base/f") => {
            let location = format!("Content-Length: 0\nLocation: /pool?nth={}", seen.nth);
            Reply::new("307 Temporary Redirect", &location, b"")
        }
        // The first URL is good for two reads.
        (_, "/pool?nth=1") if seen.nth > 3 => Reply::new("404 Not Found", "Content-Length: 0", b""),
        _ => part(seen, "\"one\""),
    })
    .await;
    let file = open(&server).await;
    for start in [0, 10, 20] {
        assert_eq!(read(&file, start, start + 10).await.unwrap(), content()[start..start + 10]);
    }
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.replace("GET ", "")).collect();
    assert_eq!(asked[1..], ["/base/f", "/pool?nth=1", "/pool?nth=1", "/pool?nth=1", "/base/f", "/pool?nth=5"]);
}

#[tokio::test]
async fn readers_that_leave_make_room_for_others() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/base/hangs") => Reply::new("200 OK", "Content-Length: 100000\nETag: \"one\"", b""),
        _ => ordinary(seen),
    })
    .await;
    let options = Options { stall_timeout: Duration::from_secs(600), ..Options::default() };
    let origin = origin_with(&[server.address], options);
    let hanging = origin.open(&path("/hangs")).await.unwrap();
    let reads = hanging.read_many(&[ByteRange::at(0, 10); 40]);
    while server.requests().len() < 17 {
        tokio::task::yield_now().await;
    }
    let file = origin.open(&path("/f")).await.unwrap();
    let mut waiting = Box::pin(read(&file, 0, 10));
    // All requests that may be under way are.
    let polled = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(polled.is_err(), "it has to wait for its turn");
    drop(reads);
    assert_eq!(waiting.await.unwrap(), content()[..10]);
}

#[tokio::test]
async fn opens_whose_bytes_are_not_read_occupy_a_bounded_number_of_connections() {
    let server = Server::start(ordinary).await;
    let origin = Arc::new(server.origin());
    let mut opens = JoinSet::new();
    for _ in 0..20 {
        let origin = Arc::clone(&origin);
        opens.spawn(async move { origin.open_to_read(&path("/f"), ByteRange::at(0, 100)).await.unwrap() });
    }
    assert_eq!(opens.join_all().await.len(), 20);
    let methods: Vec<_> = server.seen.lock().iter().map(|seen| seen.method.clone()).collect();
    assert_eq!(methods.iter().filter(|method| *method == "HEAD").count(), 4, "the others only ask for the size");
}
