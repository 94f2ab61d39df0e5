//! The record by which managers and other fillers know the process that fills the store.

use crate::{
    Workers,
    base::{error::with_cause, latch::Latch},
};
use forebay_store::{FillerRecord, StoreError};
use parking_lot::Mutex;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// How often the record is renewed: a small part of the time after which it says nothing.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long a shutdown waits until the record is removed.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(5);

/// The record of this process, on each disk of the store.
#[derive(Clone)]
struct OwnRecords(Vec<(PathBuf, FillerRecord)>);

/// The records by which this process claims the store, and whether it has lost it.
#[derive(Default)]
pub(crate) struct StoreOwner {
    records: Mutex<Option<OwnRecords>>,
    /// Set when another process fills the store.
    pub(crate) lost: Latch,
}

impl StoreOwner {
    /// Renews the records until the engine stops. A failure is logged once: only managers that look for the record are affected.
    pub(crate) async fn run(self: Arc<Self>, url: String, roots: Vec<PathBuf>, workers: Workers) {
        let record = FillerRecord::of_this_process(url);
        let mut records = OwnRecords(roots.into_iter().map(|root| (root, record.clone())).collect());
        *self.records.lock() = Some(records.clone());
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            ticks.tick().await;
            let renewed = workers.run(move || {
                let error = records.renew();
                (records, error)
            });
            // Only a panic of our own ends it.
            let Ok((stored, error)) = renewed.await else { return };
            records = stored;
            match error {
                None => is_failing = false,
                Some(error @ StoreError::Filled { .. }) => {
                    tracing::error!(reason = with_cause(&error), "the store was taken over: this process leaves it");
                    self.lost.set();
                    return;
                }
                Some(error) if !is_failing => {
                    is_failing = true;
                    let reason = with_cause(&error);
                    tracing::warn!(
                        reason,
                        "who fills the store cannot be written there: managers may not find this process"
                    );
                }
                Some(_) => {}
            }
        }
    }

    pub(crate) async fn forget(&self, workers: &Workers) {
        let Some(records) = self.records.lock().take() else { return };
        let removed = workers.run(move || records.remove());
        match tokio::time::timeout(REMOVAL_TIME_MAX, removed).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => tracing::error!("removing the record of the process that fills the store was aborted"),
            Err(_) => tracing::warn!(
                "the disk does not answer: the record of the process that fills the store stays until it expires"
            ),
        }
    }
}

impl OwnRecords {
    /// Renews all that can be; the gravest of what went wrong. Blocking.
    fn renew(&mut self) -> Option<StoreError> {
        let now_ms = forebay_net::clock::now_unix().saturating_mul(1000);
        let mut gravest = None;
        for (root, record) in &mut self.0 {
            match record.renew(root, now_ms) {
                Ok(()) => {}
                Err(error @ StoreError::Filled { .. }) => return Some(error),
                Err(error) => gravest = Some(error),
            }
        }
        gravest
    }

    fn remove(&self) {
        for (root, record) in &self.0 {
            if let Err(error) = record.remove(root) {
                tracing::warn!(
                    reason = with_cause(&error),
                    "cannot remove the record of the process that fills the store: it expires later"
                );
            }
        }
    }
}
