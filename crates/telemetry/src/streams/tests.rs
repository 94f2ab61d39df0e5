//! Tests of the queue between requests and the thread that sends.

use super::*;
use forebay_types::Lfn;
use parking_lot::Mutex;
use std::time::Instant;

/// The thread cannot read its clock while a test holds this: as if the system hung in the middle of sending.
static CLOCK: Mutex<()> = Mutex::new(());

fn clock() -> i64 {
    let _turn = CLOCK.lock();
    1_700_000_000
}

#[test]
fn an_output_that_hangs_loses_events_and_holds_up_no_request() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let metrics = Metrics::new();
    let collectors = vec![receiver.local_addr().unwrap().to_string()];
    let streams = Streams::start(StreamOptions { collectors, ..StreamOptions::default() }, clock, metrics.clone());
    let streams = streams.unwrap();
    let hung = CLOCK.lock();
    #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
    let at = Instant::now();
    let (client, lfn, handle) = (Arc::new(Client::default()), Lfn::parse("/f").unwrap(), metrics.open_handle());
    let (client, lfn, origin, size, purpose, account) = (&client, &lfn, None, 9, OpenPurpose::Read, handle.shared());
    let (duration, opens, file) = (Duration::ZERO, 1, None);
    // This ends only if no event waits for the thread.
    let rounds = EVENTS_MAX as u64;
    for open in 0..rounds {
        streams.opened(&OpenEvent { open, at, client, lfn, origin, size, purpose, account });
        streams.closed(&CloseEvent { open, at, client, lfn, origin, size, purpose, account, duration, opens, file });
    }
    // The thread has taken one event at most besides those in the queue.
    let dropped = metrics.stream_events_dropped();
    assert!((rounds - 1..=rounds).contains(&dropped), "{dropped} of {} events are dropped", 2 * rounds);
    drop(hung);
    // It continues: the test would not end otherwise.
    while metrics.stream_datagrams_sent() == 0 {
        std::thread::yield_now();
    }
}
