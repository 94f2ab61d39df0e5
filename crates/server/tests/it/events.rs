//! Events of the files that clients open, as subscribers get them.

use crate::site::{Site, element, open, run};
use forebay_origin::OriginError;
use forebay_proto::{ErrorCode, OpenOptions};
use forebay_server::Options;
use forebay_telemetry::{FileBytes, Operations, Spread};
use forebay_testkit::MemoryOrigin;

#[test]
fn a_file_is_followed_from_the_login_to_its_close() {
    run(async {
        let site = Site::of_origin(10_000, Options::default()).await;
        let mut peer = site.login().await;
        let handle = peer.open("/store/f").await;
        peer.read(handle, 5, 100).await.unwrap();
        peer.readv(&[element(handle, 0, 10), element(handle, 50, 20)]).await.unwrap();
        peer.close(handle).await.unwrap();
        peer.error(open("/elsewhere", OpenOptions::READ)).await;
        let events = site.events.when(|events| !events.closes.is_empty()).await;
        let lines = &events.lines;
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert_eq!(lines[..2], ["login 1 tester", "open 1 tester /store/f 10000"]);
        assert_eq!(events.of("Read"), ["Read 1 5+100 missed"]);
        let vectors = events.of("ReadVector");
        assert!(vectors.len() == 1 && vectors[0].starts_with("ReadVector 1 of 2 "), "{vectors:?}");
        assert_eq!(events.of("failed"), ["failed open tester /elsewhere authorization not_authorized"]);
        // Of the file, the close is the last event.
        let of_file = lines.iter().rfind(|line| !line.starts_with("failed")).unwrap();
        assert!(of_file.starts_with("close 1 hit="), "{lines:?}");
    });
}

#[test]
fn a_close_reports_the_operations_of_its_open_and_the_use_of_the_file() {
    run(async {
        let site = Site::of_origin(100_000, Options::default()).await;
        let mut peer = site.login().await;
        let (first, second) = (peer.open("/store/f").await, peer.open("/store/f").await);
        let other = peer.open("/store/g").await;
        peer.read(first, 5, 100).await.unwrap();
        // The second part of this range lies after the end of the file.
        peer.read(first, 99_000, 4096).await.unwrap();
        peer.pgread(first, 0, 4096).await.unwrap();
        peer.readv(&[element(first, 0, 10), element(other, 7, 300), element(first, 50, 20)]).await.unwrap();
        peer.close(first).await.unwrap();
        site.events.when(|events| events.closes.len() == 1).await;
        peer.read(second, 0, 1).await.unwrap();
        peer.close(second).await.unwrap();
        peer.close(other).await.unwrap();
        let closes = site.events.when(|events| events.closes.len() == 3).await.closes;
        let close = |open: u64| closes.iter().find(|close| close.open == open).unwrap().clone();
        let spread = |sizes: &[u64]| Spread {
            count: sizes.len() as u64,
            sum: sizes.iter().sum(),
            min: *sizes.iter().min().unwrap(),
            max: *sizes.iter().max().unwrap(),
        };
        let (reads, page_reads) = (spread(&[100, 1000]), spread(&[4096]));
        assert_eq!(
            close(1).operations,
            Operations { reads, page_reads, vectors: spread(&[30]), elements: spread(&[2]) }
        );
        assert_eq!(close(2).operations, Operations { reads: spread(&[1]), ..Operations::default() });
        let of_other = Operations { vectors: spread(&[300]), elements: spread(&[1]), ..Operations::default() };
        assert_eq!(close(3).operations, of_other);

        assert_eq!((close(1).opens, close(2).opens), (2, 1), "the second close ends the access period");
        let file = close(2).file.unwrap();
        assert_eq!((file.block_size, file.blocks, file.accesses, file.last_use), (65_536, 2, 1, None));
        let FileBytes { hit, missed, bypassed, fetched, .. } = file.bytes;
        assert_eq!(hit + missed + bypassed, 100 + 1000 + 4096 + 30 + 1, "bytes of all clients of the file");
        assert!(fetched >= 4096 + 1000, "what is read was fetched before: {fetched}");
        assert_eq!(file.servers, [MemoryOrigin::endpoint().into()]);
    });
}

#[test]
fn opens_and_reads_that_fail_are_reported_with_their_side_and_kind() {
    run(async {
        let site = Site::of_origin(10_000, Options::default()).await;
        let mut peer = site.login().await;
        let endpoint = MemoryOrigin::endpoint();
        let error = OriginError::TimedOut { endpoint: endpoint.clone(), doing: "opening", seconds: 5 };
        site.origin.script(|script| script.open_error = Some(error));
        peer.error(open("/store/f", OpenOptions::READ)).await;
        site.origin.script(|script| script.open_error = None);
        let handle = peer.open("/store/g").await;
        let error = OriginError::Corrupt { endpoint, offset: 0 };
        site.origin.script(|script| script.read_error = Some((0, error)));
        peer.read(handle, 0, 100).await.unwrap_err();
        let events = site.events.when(|events| events.of("failed").len() >= 2).await;
        let expected =
            ["failed open tester /store/f origin origin_timed_out", "failed read tester /store/g origin corrupt"];
        assert_eq!(events.of("failed"), expected);
    });
}

#[test]
fn refused_opens_are_reported_with_their_reason() {
    run(async {
        let granted = Site::of_files_granted("/public").await;
        granted.put("public/f", b"x");
        let mut peer = granted.login().await;
        assert_eq!(peer.error(open("/private/f", OpenOptions::READ)).await, ErrorCode::NOT_AUTHORIZED);
        let handle = peer.open("/public/f").await;
        granted.readiness.set_draining();
        assert_eq!(peer.error(open("/public/f", OpenOptions::READ)).await, ErrorCode::OVERLOADED);
        peer.close(handle).await.unwrap();
        let events = granted.events.when(|events| events.of("refused").len() >= 2).await;
        assert_eq!(
            events.of("refused"),
            ["refused tester /private/f not_authorized", "refused tester /public/f overloaded"]
        );

        let options = Options { handles_per_session_max: 1, ..Options::default() };
        let limited = Site::of_files_with(options).await;
        limited.put("f", b"x");
        let mut peer = limited.login().await;
        peer.open("/f").await;
        assert_eq!(peer.error(open("/f", OpenOptions::READ)).await, ErrorCode::OVERLOADED);
        let events = limited.events.when(|events| !events.of("refused").is_empty()).await;
        assert_eq!(events.of("refused"), ["refused tester /f overloaded"]);
    });
}
