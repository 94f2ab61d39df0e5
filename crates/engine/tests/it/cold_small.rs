//! Small files that were never cached, at a far origin: what each of them costs its reader and its origin.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use crate::house::{House, check, options, run_virtual};
use forebay_engine::{IndexState, Options, Workers};
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};

const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Time of each piece of work on the disk: an open or a read that waited for one would show it.
const DISK_TIME: Duration = Duration::from_millis(30);

const SIZE: u64 = 100_000;
const WHOLE: ByteRange = ByteRange::at(0, SIZE);

const CLIENTS: u32 = 8;
const FILES_OF_CLIENT: u32 = 25;
const FILES: u32 = CLIENTS * FILES_OF_CLIENT;

/// A house that knows that it holds nothing.
async fn empty_house(root: &Path) -> House {
    let origin = MemoryOrigin::new(SIZE);
    origin.script(|script| (script.latency, script.open_latency) = (ROUND_TRIP, ROUND_TRIP));
    let workers = Workers::Inline(Arc::new(|| DISK_TIME));
    let house = House::build_with(root, origin, Options { workers, ..options() });
    while !matches!(house.engine.index_state(), IndexState::Ready { .. }) {
        // sleep: by the virtual clock, which stands still in a loop that only yields.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    house
}

/// Has each client open, read and close its files one after the other.
async fn read_all(house: &Arc<House>) {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let house = Arc::clone(house);
        clients.spawn(async move {
            for number in 0..FILES_OF_CLIENT {
                check(&house.open(&format!("/d/{client}-{number}")).await, WHOLE).await;
            }
        });
    }
    clients.join_all().await;
}

#[test]
fn a_cold_small_file_is_an_open_and_a_read_at_its_origin_and_waits_for_nothing_else() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(empty_house(root.path()).await);
        let began = Instant::now();
        read_all(&house).await;
        let round_trips = began.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64() / f64::from(FILES_OF_CLIENT);
        // The clock counts whole milliseconds, each wait up to one too many.
        assert!((2.0..2.1).contains(&round_trips), "{round_trips} round trips for each file of a client");
        let files = u64::from(FILES);
        assert_eq!((house.origin.opens(), house.origin.stats()), (files, 0));
        assert!(house.origin.asked().iter().all(|range| *range == WHOLE), "one request for each file");
        assert_eq!((house.origin.asked().len() as u64, house.bytes(Outcome::Missed)), (files, files * SIZE));
        house.engine.shutdown().await;
        let stored = (0..CLIENTS).flat_map(|client| (0..FILES_OF_CLIENT).map(move |number| (client, number)));
        for (client, number) in stored {
            assert!(root.path().join(format!("d/{client}-{number}.cinfo")).exists(), "{client}-{number} is kept");
        }
    });
}
