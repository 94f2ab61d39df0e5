//! Jobs that read ROOT files at the same time, or others than were expected, over one link.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::{
    house::{House, run_virtual},
    root_jobs::{Job, RootFile, asked_bytes, observed_house},
};
use forebay_telemetry::Observers;
use forebay_testkit::EventRecorder;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

const MIB: u64 = 1 << 20;

/// Time in which what a close begins is done, and what is held for a closed file is given up.
const SETTLING: Duration = Duration::from_secs(10);

/// One job reads a file of the dataset, so that the others have something to learn from.
async fn learn(house: &House, file: &RootFile, read: impl AsyncFnOnce(&mut Job, &RootFile)) {
    let mut job = Job::open(house, "/set/0.root", file).await;
    read(&mut job, file).await;
    drop(job);
    // sleep: on the paused clock it takes no time.
    tokio::time::sleep(SETTLING).await;
}

/// Mean of the round trips that so many jobs of `uproot` wait that begin together, each with a file of its own.
async fn mean_wait(house: &Arc<House>, file: &Arc<RootFile>, directory: &str, jobs: u32) -> f64 {
    let mut running = JoinSet::new();
    for number in 0..jobs {
        let (house, file, path) = (Arc::clone(house), Arc::clone(file), format!("/set/{directory}{number}.root"));
        running.spawn(async move {
            let mut job = Job::open(&house, &path, &file).await;
            job.thinking = Duration::from_millis(10);
            job.iterate(&file).await;
            job.round_trips()
        });
    }
    running.join_all().await.into_iter().sum::<f64>() / f64::from(jobs)
}

#[test]
fn sixteen_jobs_at_once_wait_about_as_long_as_one() {
    let file = Arc::new(RootFile::parse());
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(observed_house(&root, &file, Observers::new(Vec::new())));
        learn(&house, &file, Job::iterate).await;
        let one = mean_wait(&house, &file, "1", 1).await;
        let sixteen = mean_wait(&house, &file, "2", 16).await;
        // Together they need five times a round trip for the bytes, and a third of that for the first advice of each.
        assert!(sixteen < one + 4.0, "{one} {sixteen}");
    });
}

#[test]
fn prefetches_go_on_when_others_make_room_on_the_link() {
    let file = Arc::new(RootFile::parse());
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(observed_house(&root, &file, Observers::new(Vec::new())));
        learn(&house, &file, Job::frame).await;
        let mut running = JoinSet::new();
        for number in 1..=24 {
            let (house, file) = (Arc::clone(&house), Arc::clone(&file));
            running.spawn(async move {
                let mut job = Job::open(&house, &format!("/set/{number}.root"), &file).await;
                let before = job.round_trips();
                job.frame(&file).await;
                job.round_trips() - before
            });
        }
        let waits = running.join_all().await;
        assert!(waits.iter().all(|wait| *wait < 0.1), "all is fetched while they compile: {waits:?}");
    });
}

#[test]
fn wrong_expectations_cost_no_more_than_their_baskets() {
    let (expected, read) = ([4, 11, 17, 30, 46], [2, 22, 44]);
    let file = RootFile::parse();
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = observed_house(&root, &file, Observers::new(Vec::new()));
        learn(&house, &file, async |job, file| job.columns(file, &expected).await).await;
        let before = asked_bytes(&house);
        let mut job = Job::open(&house, "/set/1.root", &file).await;
        job.columns(&file, &read).await;
        drop(job);
        // sleep: as above.
        tokio::time::sleep(SETTLING).await;
        let (asked, baskets) = (asked_bytes(&house) - before, |columns: &[usize]| -> u64 {
            file.baskets_of(columns).iter().map(|range| range.len()).sum()
        });
        // Whole blocks of the baskets that are read, whole pages of the others.
        let max = baskets(&read) * 4 + baskets(&expected) * 3 / 2 + MIB;
        assert!(asked < max, "{asked} of {max}");
    });
}

#[test]
fn what_is_fetched_ahead_and_why_not_more_is_reported() {
    let file = RootFile::parse();
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let events = EventRecorder::default();
        let house = observed_house(&root, &file, Observers::new(vec![Arc::new(events.clone())]));
        learn(&house, &file, Job::each_basket).await;
        let first = events.when(|events| !events.of("close").is_empty()).await;
        assert!(first.of("advice").iter().any(|line| line.contains(" structure ")), "{:?}", first.of("advice"));
        let mut job = Job::open(&house, "/set/1.root", &file).await;
        job.each_basket(&file).await;
        let second = events.when(|events| events.of("advice").iter().any(|line| line.contains(" history "))).await;
        assert!(second.of("giveup").is_empty());
    });
}
