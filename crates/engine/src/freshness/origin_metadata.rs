//! Questions to origins about their files, each asked once for all concurrent callers.

use crate::{Error, namespace::routes::OriginTarget};
use forebay_auth::CredentialsName;
use forebay_cache::CacheKey;
use forebay_origin::{Checksum, FileIdentity, OriginError, SingleFlight};
use forebay_types::{FileStat, OriginId, Validator};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Questions to origins about their files, and origins that did not answer.
#[derive(Default)]
pub(crate) struct OriginMetadata {
    stats: Answers<(FileStat, Validator)>,
    identities: Answers<FileIdentity>,
    checksums: Answers<Checksum>,
    /// Origins that did not answer, and since when.
    resting: Mutex<BTreeMap<OriginId, Instant>>,
}

type Answers<T> = Arc<SingleFlight<About, Result<T, OriginError>>>;

/// How recent an answer must be: any will do, or only one to a question asked at that time or later.
pub(crate) type Since = Option<Instant>;

pub(crate) const BROKE_OFF: Error = Error::Internal { what: "a question to an origin broke off" };

/// Which file a question is about, and as whom it is asked.
type About = (CacheKey, CredentialsName);

/// How long an origin that did not answer is left alone by questions that need no answer: not every open is to wait for a dead
/// server.
const REST_TIME: Duration = Duration::from_secs(10);

/// Most origins whose rest is remembered; beyond it the memory is cleared, which costs a question each.
const RESTING_MAX: usize = 4096;

/// The stat and the validator of a name at its origin. The stat has the validator, too: clients are shown it.
async fn stat_at(target: &OriginTarget) -> Result<(FileStat, Validator), OriginError> {
    let (stat, validator) = target.origin.stat_with_validator(&target.path).await?;
    Ok((FileStat { validator: Some(Arc::new(validator.clone())), ..stat }, validator))
}

impl OriginMetadata {
    /// The stat and the validator of a name at its origin, at `since` or later. A name that is not there is remembered.
    pub(crate) async fn stat(&self, target: &OriginTarget, since: Since) -> Result<(FileStat, Validator), Error> {
        let Some(key) = &target.key else { return Ok(stat_at(target).await?) };
        let ask = || {
            let target = target.clone();
            let key = key.clone();
            async move {
                stat_at(&target).await.inspect_err(|error| {
                    if !target.is_as_client() {
                        target.decisions.note_answer(&key, error);
                    }
                })
            }
        };
        Ok(self.stats.join(&(key.clone(), target.asked_as()), since, ask).await.ok_or(BROKE_OFF)??)
    }

    /// Which file an open leads to, and at which server, at `since` or later.
    pub(crate) async fn identity(
        &self,
        target: &OriginTarget,
        key: &CacheKey,
        since: Since,
    ) -> Result<FileIdentity, Error> {
        let ask = || {
            let target = target.clone();
            async move { target.origin.open(&target.path).await.map(|file| file.identity()) }
        };
        Ok(self.identities.join(&(key.clone(), target.asked_as()), since, ask).await.ok_or(BROKE_OFF)??)
    }

    /// The origin's checksum of a file at `since` or later, by `algorithm` or the origin's own choice; `None` when it gives
    /// none.
    pub(crate) async fn checksum(
        &self,
        target: &OriginTarget,
        algorithm: Option<&str>,
        since: Since,
    ) -> Result<Option<Checksum>, Error> {
        let Some(key) = &target.key else { return Ok(None) };
        let ask = || {
            let target = target.clone();
            let algorithm = algorithm.map(str::to_owned);
            async move { target.origin.checksum(&target.path, algorithm.as_deref()).await }
        };
        match self.checksums.join(&(key.clone(), target.asked_as()), since, ask).await.ok_or(BROKE_OFF)? {
            Ok(checksum) => Ok(Some(checksum)),
            Err(error) if error.is_retryable() || error.is_not_found() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn is_resting(&self, server: &OriginId) -> bool {
        let since = self.resting.lock().get(server).copied();
        since.is_some_and(|since| forebay_net::clock::monotonic().saturating_duration_since(since) < REST_TIME)
    }

    pub(crate) fn note_answer(&self, server: &OriginId, has_failed: bool) {
        let mut resting = self.resting.lock();
        if !has_failed {
            resting.remove(server);
            return;
        }
        if resting.len() >= RESTING_MAX {
            resting.clear();
        }
        resting.insert(server.clone(), forebay_net::clock::monotonic());
    }
}
