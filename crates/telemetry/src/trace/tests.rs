//! What a trace has in it, and what becomes of it when it cannot be written.

use super::*;
use crate::{Client, NotReadAhead, ReadAheadSource};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};
use writer::{Lines, Writer};

const EPOCH_US: i64 = 1_700_000_000_000_000;

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
    Instant::now()
}

fn options(directory: &Path) -> TraceOptions {
    let directory = directory.to_owned();
    TraceOptions { directory, sample: Sample::ALL, only: Vec::new(), file_bytes: 1 << 20, files_max: 3 }
}

/// A trace that starts with these options, its start, and its metrics.
fn started(options: TraceOptions) -> (Trace, Instant, Metrics) {
    let (start, metrics) = (now(), Metrics::new());
    (Trace::start(options, (start, EPOCH_US), metrics.clone()).unwrap(), start, metrics)
}

fn client() -> Arc<Client> {
    let (user, program, peer) = ("ann".to_owned(), "xrdcp".to_owned(), "[::1]:40000".parse().ok());
    Arc::new(Client { user, program, peer, pid: 7, ..Client::default() })
}

fn open_for(trace: &Trace, path: &str, purpose: OpenPurpose, at: Instant) -> Option<Box<dyn ReadEvents>> {
    let (lfn, client) = (Lfn::parse(path).unwrap(), client());
    let handle = Metrics::new().open_handle();
    let (client, lfn, account) = (&client, &lfn, handle.shared());
    trace.opened(&OpenEvent { open: 0, at, client, lfn, origin: None, size: 1000, purpose, account })
}

fn open(trace: &Trace, path: &str, at: Instant) -> Option<Box<dyn ReadEvents>> {
    open_for(trace, path, OpenPurpose::Read, at)
}

/// Closes a file of which a client has got these bytes, by outcome.
fn close(file: &dyn ReadEvents, bytes: impl Fn(Outcome) -> u64, at: Instant) {
    let (lfn, client, handle) = (Lfn::parse("/f").unwrap(), client(), Metrics::new().open_handle());
    Outcome::ALL.into_iter().for_each(|outcome| handle.account(outcome, bytes(outcome)));
    file.closed(&CloseEvent {
        open: 0,
        at,
        client: &client,
        lfn: &lfn,
        origin: None,
        size: 1000,
        purpose: OpenPurpose::Read,
        account: handle.shared(),
        duration: Duration::ZERO,
        opens: 1,
        file: None,
    });
}

fn after(start: Instant, micros: u64) -> Instant {
    start + Duration::from_micros(micros)
}

fn answer(start: Instant, received: u64, done: u64, outcome: Outcome) -> ReadAnswer {
    ReadAnswer { received: after(start, received), done: after(start, done), outcome }
}

/// Names and contents of the files of a trace, in order.
fn files(directory: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), read(&entry.path()))).collect();
    files.sort();
    files
}

fn counted(metrics: &Metrics, what: &str) -> u64 {
    let page = metrics.render().unwrap();
    let name = format!("forebay_trace_{what}_total ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

fn lines(text: &str, at: Instant) -> Lines {
    Lines { text: text.as_bytes().to_vec(), count: 1, at }
}

#[test]
fn each_event_is_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, start, metrics) = started(options(directory.path()));
    let file = open(&trace, "/a \"b\"\\\n\u{7f}é", after(start, 1)).unwrap();
    file.read(ReadKind::Read, ByteRange::at(5, 10), &answer(start, 2, 9, Outcome::Hit));
    file.read(ReadKind::PageRead, ByteRange::at(1000, 0), &answer(start, 3, 3, Outcome::Coalesced));
    let elements = [ByteRange::at(1, 2), ByteRange::between(u64::MAX - 1, u64::MAX)];
    file.read_vector(&elements, &answer(start, 4, 5, Outcome::Missed));
    file.read_vector(&[], &answer(start, 5, 5, Outcome::Hit));
    let (at, source) = (after(start, 5), ReadAheadSource::History);
    file.advised(&AdviceEvent::Given { at, source, ranges: &[ByteRange::at(100, 20), ByteRange::at(200, 30)] });
    file.advised(&AdviceEvent::GivenUp { at, reason: NotReadAhead::Wasteful });
    close(&*file, |outcome| if outcome == Outcome::Hit { 10 } else { 0 }, after(start, 6));
    trace.flush(Duration::from_secs(60));
    let expected = r#"{"e":"open","t":1700000000000001,"f":1,"path":"/a \"b\"\\\u000a\u007fé","size":1000,"user":"ann","peer":"[::1]:40000","pid":7,"app":"xrdcp"}
{"e":"read","t":1700000000000002,"f":1,"o":5,"n":10,"r":"hit","us":7}
{"e":"pgread","t":1700000000000003,"f":1,"o":1000,"n":0,"r":"missed","us":0}
{"e":"readv","t":1700000000000004,"f":1,"v":[[1,2],[18446744073709551614,1]],"r":"missed","us":1}
{"e":"readv","t":1700000000000005,"f":1,"v":[],"r":"hit","us":0}
{"e":"advice","t":1700000000000005,"f":1,"by":"history","v":[[100,20],[200,30]]}
{"e":"giveup","t":1700000000000005,"f":1,"why":"wasteful"}
{"e":"close","t":1700000000000006,"f":1,"hit":10,"missed":0,"coalesced":0,"bypassed":0}
"#;
    let written = files(directory.path());
    assert_eq!(written, [("trace-001700000000-000001.jsonl".to_owned(), expected.to_owned())]);
    let mode = fs::metadata(directory.path().join(&written[0].0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "others cannot read it");
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "dropped")), (8, 0));
}

#[test]
fn lines_are_handed_over_when_they_are_many_or_old() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, start, _) = started(options(directory.path()));
    let file = open(&trace, "/f", start).unwrap();
    let lines = || {
        trace.flush(Duration::from_secs(60));
        files(directory.path()).first().map_or(0, |(_, text)| text.lines().count())
    };
    file.read(ReadKind::Read, ByteRange::at(0, 1), &answer(start, 0, 999_999, Outcome::Hit));
    assert_eq!(lines(), 0);
    file.read(ReadKind::Read, ByteRange::at(0, 1), &answer(start, 0, 1_000_000, Outcome::Hit));
    assert_eq!(lines(), 3);
    let mut sent = 3;
    while lines() == 3 {
        assert!(sent < 1000, "a batch is at most some kilobytes");
        file.read(ReadKind::Read, ByteRange::at(0, 1), &answer(start, 1_000_000, 1_000_001, Outcome::Hit));
        sent += 1;
    }
    assert_eq!(lines(), sent);
}

#[test]
fn lines_of_many_opens_are_written_together_and_all_of_them() {
    const READS: u64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let (trace, start, metrics) = started(options(directory.path()));
    let opened: Vec<_> = (0..4).map(|_| open(&trace, "/f", start).unwrap()).collect();
    for at in 0..READS {
        for file in &opened {
            file.read(ReadKind::Read, ByteRange::at(at, 1), &answer(start, at, at, Outcome::Hit));
        }
    }
    opened.iter().for_each(|file| close(&**file, |_| 0, after(start, READS)));
    trace.flush(Duration::from_secs(60));
    let (_, text) = files(directory.path()).pop().unwrap();
    for number in 1..=4 {
        let mine: Vec<&str> = text.lines().filter(|line| line.contains(&format!(r#","f":{number},"#))).collect();
        let offsets = mine.iter().filter_map(|line| line.split_once(r#""o":"#)?.1.split_once(',')?.0.parse().ok());
        assert_eq!(offsets.collect::<Vec<u64>>(), (0..READS).collect::<Vec<_>>(), "in their order");
        assert!(mine[0].contains("open") && mine[mine.len() - 1].contains("close"));
    }
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "dropped")), (4 * (READS + 2), 0));
}

#[test]
fn files_are_ended_at_their_size_and_the_oldest_go() {
    let directory = tempfile::tempdir().unwrap();
    let (start, metrics) = (now(), Metrics::new());
    let options = TraceOptions { file_bytes: 10, files_max: 2, ..options(directory.path()) };
    fs::write(directory.path().join("notes.jsonl"), "mine").unwrap();
    let mut writer = Writer::new(options, Clock(start, EPOCH_US), metrics.clone());
    for text in ["1234\n", "5678\n", "abcd\n", "efgh\n", "ijkl\n"] {
        writer.put(&lines(text, start));
    }
    let text = |(_, text): (String, String)| text;
    let kept: Vec<String> = files(directory.path()).into_iter().map(text).collect();
    assert_eq!(kept, ["mine", "abcd\nefgh\n", "ijkl\n"]);
    // The next process continues after them.
    let options = TraceOptions { file_bytes: 10, files_max: 2, ..self::options(directory.path()) };
    let mut next = Writer::new(options, Clock(start, EPOCH_US), metrics);
    next.put(&lines("next\n", start));
    let names: Vec<String> = files(directory.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn what_cannot_be_written_is_dropped_until_it_can() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("trace");
    fs::write(&directory, "in the way").unwrap();
    let (start, metrics) = (now(), Metrics::new());
    let mut writer = Writer::new(options(&directory), Clock(start, EPOCH_US), metrics.clone());
    writer.put(&lines("1\n", start));
    assert_eq!(counted(&metrics, "dropped"), 1);
    fs::remove_file(&directory).unwrap();
    writer.put(&lines("2\n", after(start, 4_999_999)));
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "dropped")), (0, 2));
    writer.put(&lines("3\n", after(start, 5_000_000)));
    assert_eq!((counted(&metrics, "written"), counted(&metrics, "dropped")), (1, 2));
    assert_eq!(files(&directory)[0].1, "3\n");
}

#[test]
fn no_request_waits_for_a_full_queue() {
    let metrics = Metrics::new();
    let (queue, messages) = mpsc::sync_channel(1);
    let start = now();
    let trace = Trace(Arc::new(Shared::new(Sample::ALL, Vec::new(), queue, thread::current(), metrics.clone())));
    for _ in 0..3 {
        close(&*open(&trace, "/f", start).unwrap(), |_| 0, start);
    }
    assert_eq!(counted(&metrics, "dropped"), 4);
    trace.flush(2 * FLUSH_STEP);
    drop(messages);
    close(&*open(&trace, "/f", start).unwrap(), |_| 0, start);
    assert_eq!(counted(&metrics, "dropped"), 6);
}

#[test]
fn a_sample_draws_its_part_of_the_opens() {
    assert_eq!(Sample::parse("1/10"), Some(Sample { of: 1, per: 10 }));
    assert_eq!(Sample::parse("3/3"), Some(Sample { of: 3, per: 3 }));
    for bad in ["", "1", "0/1", "2/1", "1/0", "-1/2", "1/x", "10%"] {
        assert_eq!(Sample::parse(bad), None, "{bad}");
    }
    let directory = tempfile::tempdir().unwrap();
    let options = TraceOptions { sample: Sample { of: 1, per: 10 }, ..options(directory.path()) };
    let (trace, start, _) = started(options);
    let drawn = (0..10_000).filter(|_| open(&trace, "/f", start).is_some()).count();
    assert!((900..1100).contains(&drawn), "{drawn}");
}

#[test]
fn files_that_are_not_listed_and_opens_of_the_server_itself_are_not_traced() {
    let directory = tempfile::tempdir().unwrap();
    let only = vec![PathPattern::parse("/root:/origin:1094/a/*").unwrap()];
    let (trace, start, _) = started(TraceOptions { only, ..options(directory.path()) });
    assert!(open(&trace, "/a/f", start).is_none());
    assert!(open(&trace, "/root:/Origin./a/f", start).is_some(), "however its origin is spelled");
    assert!(open_for(&trace, "/root:/origin/a/f", OpenPurpose::Complete, start).is_none());
}

#[test]
fn times_before_the_start_count_too() {
    let start = now() + Duration::from_secs(10);
    let clock = Clock(start, EPOCH_US);
    assert_eq!(clock.micros(start), EPOCH_US);
    assert_eq!(clock.micros(after(start, 5)), EPOCH_US + 5);
    assert_eq!(clock.micros(start - Duration::from_micros(5)), EPOCH_US - 5);
}
