//! Tests of datagrams over time: closes that were lost, and opens of HTTP clients.

use super::*;
use crate::{FileBytes, Metrics, OpenHandle, ReadKind, file_events::ClientProtocol};
use forebay_types::Outcome;
use std::time::Duration;

const START: i64 = 1_700_000_000;

/// A composer, and the records that it has sent.
struct Bench {
    composer: Composer,
    metrics: Metrics,
    opens: u64,
}

/// A record of the f-stream: its kind, and the number of its file or user.
type Record = (u8, u32);

const CLOSE: u8 = 0;
const OPEN: u8 = 1;
const DISCONNECT: u8 = 4;

impl Bench {
    fn new() -> Self {
        let (site, flush) = ("LAB".to_owned(), Duration::from_secs(30));
        let options = StreamOptions { site, flush, ..StreamOptions::default() };
        Self { composer: Composer::new(options, START), metrics: Metrics::new(), opens: 0 }
    }

    /// Opens a file, and returns the number of the open with its handle.
    fn open(&mut self, protocol: ClientProtocol, lfn: &str, at: i64) -> (u64, OpenHandle) {
        self.opens += 1;
        let handle = self.metrics.open_handle();
        let client = Client { session: 1, host: "wn".to_owned(), protocol, ..Client::default() };
        let (open, lfn, account) = (self.opens, lfn.to_owned(), Arc::clone(handle.shared()));
        self.composer.handle_time(START + at);
        self.composer.open(Opened { open, client: client.into(), lfn, size: 1000, account }, START + at);
        (open, handle)
    }

    /// Reads `bytes` with one request, and closes; `last` if no other client has the file open.
    fn read_and_close(&mut self, (open, handle): (u64, OpenHandle), bytes: u64, last: bool, at: i64) {
        handle.note_read(ReadKind::Read, bytes);
        handle.account(Outcome::Hit, bytes);
        let used = FileUse {
            attached: START + at,
            bytes: FileBytes { hit: bytes, ..FileBytes::default() },
            ..FileUse::default()
        };
        self.composer.handle_time(START + at);
        let last = last.then_some(used);
        self.composer.close(Closed { open, lfn: "/f".to_owned(), size: 1000, last }, START + at);
    }

    /// All datagrams until `at`.
    fn sent(&mut self, at: i64) -> Vec<Vec<u8>> {
        self.composer.handle_time(START + at);
        std::iter::from_fn(|| self.composer.poll_datagram()).collect()
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The records of the f-stream, without those of times, and the bytes of each.
fn records(datagrams: &[Vec<u8>]) -> Vec<(Record, Vec<u8>)> {
    let mut found = Vec::new();
    for datagram in datagrams.iter().filter(|datagram| datagram[0] == b'f') {
        let mut rest = &datagram[32..];
        while !rest.is_empty() {
            let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            found.push(((rest[0], u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]])), rest[..len].to_vec()));
            rest = &rest[len..];
        }
    }
    found
}

fn kinds(datagrams: &[Vec<u8>]) -> Vec<Record> {
    records(datagrams).into_iter().map(|(record, _)| record).collect()
}

fn texts(datagrams: &[Vec<u8>], code: u8) -> Vec<String> {
    let of_code = datagrams.iter().filter(|datagram| datagram[0] == code);
    of_code.map(|datagram| String::from_utf8_lossy(&datagram[8..]).into_owned()).collect()
}

#[test]
fn a_close_whose_event_was_lost_is_made_up_for_at_the_next_flush() {
    let mut bench = Bench::new();
    let (_, lost) = bench.open(ClientProtocol::Root, "/f", 1);
    let (_, kept) = bench.open(ClientProtocol::Root, "/g", 1);
    lost.note_read(ReadKind::Read, 70);
    lost.account(Outcome::Hit, 70);
    drop(lost);
    assert_eq!(kinds(&bench.sent(29)), [], "nothing before the flush");
    let sent = bench.sent(30);
    assert_eq!(kinds(&sent), [(OPEN, 2), (OPEN, 3), (CLOSE, 2)]);
    let close = &records(&sent)[2].1;
    assert_eq!(number(close, 8), 70, "with the bytes that were read");
    assert_eq!(kinds(&bench.sent(60)), [], "once, and not for a file that is open");
    drop(kept);
    assert_eq!(kinds(&bench.sent(90)), [(CLOSE, 3)]);
    // The session has no file any more.
    assert_eq!(kinds(&bench.sent(90 + SESSION_IDLE_S)), [(DISCONNECT, 1)]);
}

#[test]
fn a_close_that_comes_after_all_is_not_counted_again() {
    let mut bench = Bench::new();
    let (open, handle) = bench.open(ClientProtocol::Root, "/f", 1);
    drop(handle);
    assert_eq!(kinds(&bench.sent(30)), [(OPEN, 2), (CLOSE, 2)]);
    bench.composer.close(Closed { open, lfn: "/f".to_owned(), size: 1000, last: None }, START + 31);
    assert_eq!(kinds(&bench.sent(60)), []);
}

#[test]
fn the_opens_of_a_file_on_a_connection_of_http_are_one_record() {
    let mut bench = Bench::new();
    for (round, bytes) in [(0, 10), (1, 20), (2, 30)] {
        let open = bench.open(ClientProtocol::Https, "/f", 5 * round);
        bench.read_and_close(open, bytes, true, 5 * round + 4);
    }
    let begun = bench.sent(23);
    assert!(texts(&begun, b'u')[0][4..].starts_with("https/unknown."), "{begun:?}");
    // The last close was at 14.
    assert_eq!(kinds(&begun), []);
    let sent = bench.sent(30);
    assert_eq!(kinds(&sent), [(OPEN, 2), (CLOSE, 2)]);
    let close = &records(&sent)[1].1;
    assert_eq!((number(close, 8), &close[32..36]), (60, &[0, 0, 0, 3][..]), "bytes and calls of all opens");
    let [event] = &texts(&sent, b'g')[..] else { panic!("{sent:?}") };
    let times = format!(r#""attach_t":{},"detach_t":{}"#, START + 4, START + 14);
    assert!(event.contains(r#""b_hit":60,"#) && event.contains(&times), "{event}");
    // An open after the pause is another record.
    let open = bench.open(ClientProtocol::Https, "/f", 31);
    bench.read_and_close(open, 5, false, 32);
    let sent = bench.sent(60);
    assert_eq!(kinds(&sent), [(OPEN, 3), (CLOSE, 3)]);
    assert!(texts(&sent, b'g').is_empty(), "another client still has the file open");
    assert_eq!(kinds(&bench.sent(60 + SESSION_IDLE_S)), [(DISCONNECT, 1)]);
}

#[test]
fn a_server_that_stops_ends_the_records_of_http() {
    let mut bench = Bench::new();
    let open = bench.open(ClientProtocol::Http, "/f", 1);
    bench.read_and_close(open, 10, true, 2);
    bench.composer.finish(START + 3);
    let sent = bench.sent(3);
    assert!(texts(&sent, b'u')[0][4..].starts_with("http/unknown."));
    assert_eq!(kinds(&sent), [(OPEN, 2), (CLOSE, 2)]);
    assert_eq!(texts(&sent, b'g').len(), 1);
}

#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let mut bench = Bench::new();
    let open = bench.open(ClientProtocol::Http, "/f", 1);
    bench.read_and_close(open, 10, true, 2);
    assert_eq!(kinds(&bench.sent(-3600)), [(OPEN, 2), (CLOSE, 2)]);
    let _open = bench.open(ClientProtocol::Http, "/g", -3599);
    assert_eq!(kinds(&bench.sent(-3571)), [], "intervals begin at the new time");
    assert_eq!(kinds(&bench.sent(-3570)), [(OPEN, 3)]);
}
