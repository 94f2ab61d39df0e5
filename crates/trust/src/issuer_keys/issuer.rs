//! The current keys of one issuer.

use super::{FetchError, FetchedKeys, IssuerClient, IssuerDiscovery, saved_keys::SavedKeys};
use crate::reloading_file::LoadError;
use bytes::Bytes;
use forebay_auth::{KeyLease, KeySet, UnixTime};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::sleep};

/// Logins that may wait for the keys of one issuer; further ones are refused at once. Each blocks a thread.
const LOGINS_WAITING_MAX: usize = 8;

/// Time limit for saving keys.
const SAVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Longest sleep: the wall clock may jump.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The keys of one issuer: schedule of fetches, and waiting logins.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    pub(crate) url: String,
    login_wait_max: Duration,
    client: IssuerClient,
    kept: Option<Arc<SavedKeys>>,
    state: Mutex<State>,
    /// Notified when a fetch has ended.
    ended: Condvar,
    /// Notified when keys are needed early.
    wanted: Notify,
}

#[derive(Debug)]
struct State {
    lease: KeyLease,
    /// The document of the keys in use.
    json: Bytes,
    /// Fetches that have ended.
    rounds: u64,
    waiting: usize,
}

impl IssuerKeys {
    /// Of the issuer in `discovery`. Keys are saved in `directory`; keys saved there earlier are returned. Blocks on the disk.
    pub(crate) fn open(
        discovery: &IssuerDiscovery,
        directory: Option<&Path>,
        now: UnixTime,
    ) -> Result<(Self, Option<KeySet>), LoadError> {
        let client = IssuerClient::new(discovery)?;
        let grace_seconds = i64::try_from(discovery.grace.as_secs()).unwrap_or(i64::MAX);
        let kept = directory.map(|directory| Arc::new(SavedKeys::new(directory, &discovery.url)));
        let (mut lease, mut keys) = (KeyLease::new(grace_seconds), None);
        match kept.as_ref().map(|kept| kept.load()) {
            // Keys from the future and expired keys are ignored.
            Some(Ok(Some((found, fetched_at)))) if fetched_at <= now && now < fetched_at.plus(grace_seconds) => {
                lease = KeyLease::resumed(grace_seconds, fetched_at);
                keys = Some(found);
            }
            Some(Err(error)) => tracing::warn!(issuer = discovery.url, %error, "saved keys of an issuer are ignored"),
            _ => {}
        }
        let state = Mutex::new(State { lease, json: Bytes::new(), rounds: 0, waiting: 0 });
        let (url, login_wait_max) = (discovery.url.clone(), discovery.login_wait_max);
        let (ended, wanted) = (Condvar::new(), Notify::new());
        Ok((Self { url, login_wait_max, client, kept, state, ended, wanted }, keys))
    }

    /// Keeps the keys current, without end: `set` gets each new set, and an empty one when the old keys have expired.
    pub(crate) async fn keep_current(&self, set: impl Fn(KeySet)) {
        loop {
            self.sleep_until_due().await;
            let now = unix_now();
            if self.forget_ended(now) {
                tracing::error!(issuer = self.url, "the keys of a token issuer have expired; its tokens are refused");
                set(KeySet::default());
            }
            if !self.state().lease.begin_fetch(now) {
                continue;
            }
            match self.client.fetch().await {
                Ok(fetched) => self.take(fetched, &set).await,
                Err(error) => self.note_failure(&error),
            }
        }
    }

    /// Drops expired keys; returns whether there were any.
    fn forget_ended(&self, now: UnixTime) -> bool {
        let mut state = self.state();
        let has_ended = state.lease.poll_ended(now);
        if has_ended {
            // So that the same keys count as new when the issuer is back.
            state.json = Bytes::new();
        }
        has_ended
    }

    async fn sleep_until_due(&self) {
        let now = unix_now();
        let due = {
            let lease = &self.state().lease;
            lease.ends_at.into_iter().fold(lease.due, UnixTime::min)
        };
        let pause = u64::try_from(due.seconds_since(now)).map_or(Duration::ZERO, Duration::from_secs);
        tokio::select! {
            () = sleep(pause.min(LOOK_INTERVAL_MAX)) => {}
            () = self.wanted.notified() => {}
        }
    }

    async fn take(&self, fetched: FetchedKeys, set: &impl Fn(KeySet)) {
        let now = unix_now();
        let (count, is_new) = (fetched.keys.len(), self.state().json != fetched.json);
        if is_new {
            set(fetched.keys);
            tracing::info!(issuer = self.url, keys = count, "fetched the keys of a token issuer");
        }
        {
            let mut state = self.state();
            state.json = fetched.json.clone();
            state.lease.handle_fetched(now, fetched.max_age);
            self.end_round(&mut state);
        }
        let Some(kept) = self.kept.clone() else { return };
        let saved = tokio::task::spawn_blocking(move || {
            kept.save(&fetched.json, now).map_err(|error| format!("{}: {error}", kept.path.display()))
        });
        // A hanging disk must not delay the next fetch.
        let error = match tokio::time::timeout(SAVE_TIME_MAX, saved).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer of the disk within {SAVE_TIME_MAX:?}"),
        };
        tracing::warn!(issuer = self.url, error, "cannot save the keys of a token issuer");
    }

    fn note_failure(&self, error: &FetchError) {
        let now = unix_now();
        let mut state = self.state();
        state.lease.handle_failed(now);
        self.end_round(&mut state);
        let again_s = state.lease.due.seconds_since(now);
        let ends_at = state.lease.ends_at;
        drop(state);
        match ends_at {
            Some(ends_at) => {
                let grace_s = ends_at.seconds_since(now);
                tracing::warn!(issuer = self.url, %error, again_s, grace_s, "cannot fetch the keys of a token issuer; the old keys are used for a grace period");
            }
            None => {
                tracing::error!(issuer = self.url, %error, again_s, "cannot fetch the keys of a token issuer; its tokens are refused");
            }
        }
    }

    /// Notifies the waiting logins of the end of a fetch. They must not wait for the disk on which keys are saved.
    fn end_round(&self, state: &mut State) {
        state.rounds += 1;
        self.ended.notify_all();
    }

    /// Requests a fetch for a missing key, unless there was one just before. Returns whether a new key may arrive soon.
    pub(crate) fn want(&self, now: UnixTime) -> bool {
        let is_coming = self.state().lease.handle_missing(now);
        if is_coming {
            self.wanted.notify_one();
        }
        is_coming
    }

    /// Like [`Self::want`], and waits for the end of the fetch, at most a few seconds. Blocks.
    pub(crate) fn want_and_wait(&self, now: UnixTime) {
        let round = self.state().rounds;
        let is_coming = self.want(now);
        let mut state = self.state();
        if !is_coming || state.waiting >= LOGINS_WAITING_MAX {
            return;
        }
        state.waiting += 1;
        self.ended.wait_while_for(&mut state, |state| state.rounds == round, self.login_wait_max);
        state.waiting -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn unix_now() -> UnixTime {
    UnixTime(forebay_net::clock::now_unix())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testkit::TokenServer;

    #[tokio::test]
    async fn keys_that_have_ended_are_taken_again_when_the_issuer_still_has_them() {
        let server = TokenServer::start("ES256").unwrap();
        let discovery = IssuerDiscovery { allows_plain_http: true, ..IssuerDiscovery::new(&server.url()) };
        let (issuer, kept) = IssuerKeys::open(&discovery, None, unix_now()).unwrap();
        assert!(kept.is_none());
        let (counts, changed) = (Mutex::new(Vec::new()), Notify::new());
        let set = |keys: KeySet| {
            counts.lock().push(keys.len());
            changed.notify_one();
        };
        issuer.take(issuer.client.fetch().await.unwrap(), &set).await;
        issuer.state().lease = KeyLease::resumed(0, unix_now());
        let all_reported = async {
            while counts.lock().len() < 3 {
                changed.notified().await;
            }
        };
        tokio::select! {
            () = issuer.keep_current(set) => {}
            () = all_reported => {}
        }
        assert_eq!(*counts.lock(), [1, 0, 1]);
    }
}
