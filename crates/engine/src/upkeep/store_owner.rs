//! The record by which managers and other fillers know who fills the store.

use crate::{
    Engine,
    entries::shared::{Shared, with_cause},
};
use forebay_store::{FillerRecord, StoreError};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// How often the record is renewed: a small part of the time after which it says nothing.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long a shutdown waits until the record is removed.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(5);

/// The record of this process, on each disk of the store.
#[derive(Clone)]
pub(crate) struct OwnRecords(Vec<(PathBuf, FillerRecord)>);

impl Engine {
    /// Lets managers and others know that this process fills the store and is reached at `url`, until the shutdown.
    pub fn tell_who_fills(&self, url: &str) {
        let record = FillerRecord::of_this_process(url.to_owned());
        let records = self.volumes().into_iter().map(|volume| (volume.path, record.clone())).collect();
        self.add_task(tokio::spawn(run(Arc::clone(self.shared()), OwnRecords(records))));
    }

    /// Waits until the store turns out to be filled by somebody else: then this process has to leave it.
    pub async fn store_lost(&self) {
        self.shared().store_lost.wait().await;
    }
}

/// Renews the records for ever. What cannot be written is told once, and harms nobody but managers that look for it.
async fn run(shared: Arc<Shared>, mut records: OwnRecords) {
    *shared.own_records() = Some(records.clone());
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        let renewed = shared.options.workers.run(move || {
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
                shared.store_lost.set();
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

    /// Removes them. Blocking.
    fn remove(&self) {
        for (root, record) in &self.0 {
            if let Err(error) = record.remove(root) {
                tracing::warn!(reason = with_cause(&error), "the record of who fills the store is left: it ages");
            }
        }
    }
}

/// Removes the record at the end.
pub(crate) async fn forget(shared: &Shared) {
    let Some(records) = shared.own_records().take() else { return };
    let removed = shared.options.workers.run(move || records.remove());
    match tokio::time::timeout(REMOVAL_TIME_MAX, removed).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!("removing the record of who fills the store broke off"),
        Err(_) => tracing::warn!("the disk does not answer: the record of who fills the store is left, and ages"),
    }
}
