//! Asks an origin whether it would give a file to the client that wants it, before the cache does.
//!
//! Where that is wanted, a copy is given out only to clients whom its origin would give the file, as their own credentials show.
//! Grants of the origin are remembered for minutes, refusals for seconds, and nothing beyond the end of the
//! credentials.

use crate::{
    Error,
    entries::from_origin::{FromOrigin, LastCheck, OriginGrant},
    freshness::origin_metadata::{BROKE_OFF, OriginMetadata},
    namespace::routes::OriginTarget,
};
use forebay_auth::CredentialsName;
use forebay_origin::{Origin, OriginError, OriginPath, SingleFlight};
use forebay_types::{FileStat, Lfn, OriginId};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// The access that a client requests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Want {
    /// To know of it.
    Stat,
    Read,
}

/// Answers of origins about clients.
#[derive(Default)]
pub(crate) struct OriginPermissions {
    known: Arc<Mutex<Known>>,
    under_way: Arc<SingleFlight<Question, Answer>>,
}

/// Whose credentials, at which server, which file, with which opaque data, and what for.
type Question = (CredentialsName, OriginId, Lfn, String, Want);

/// The grant of the origin with what came along, or its refusal.
type Answer = Result<OriginGrant, OriginError>;

type Known = BTreeMap<Question, Remembered>;

#[derive(Clone, Debug)]
struct Remembered {
    until: Instant,
    /// When the credentials end, in seconds of the Unix epoch.
    ends: i64,
    refusal: Option<OriginError>,
}

const GRANT_TIME: Duration = Duration::from_secs(300);

/// How long a refusal is remembered: new rights are to count soon.
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// Most answers remembered. Beyond it those that have ended are forgotten, and all when that is not enough, which costs a question
/// each.
const KNOWN_MAX: usize = 50_000;

/// Characters of a refusal that are remembered.
const TEXT_LEN_MAX: usize = 256;

impl OriginPermissions {
    /// Whether the origin would let the client have the access; returns its answer if it was asked just now. For a
    /// file that `is_here`, the wait is bounded.
    ///
    /// # Errors
    /// The origin's refusal, or why it cannot be asked: then nothing is given out.
    pub(crate) async fn check(
        &self,
        target: &OriginTarget,
        want: Want,
        is_here: bool,
        metadata: &OriginMetadata,
    ) -> Result<Option<OriginGrant>, Error> {
        let Some(as_client) = &target.authorize_as else { return Ok(None) };
        let path = target.path_for_client();
        let credentials = as_client.credentials();
        let name = credentials.as_ref().map(|credentials| *credentials.name()).unwrap_or_default();
        let ends = credentials.and_then(|credentials| credentials.valid_until()).map_or(i64::MAX, |end| end.0);
        let question = (name, target.server.clone(), path.lfn.clone(), path.cgi.clone(), want);
        if let Some(known) = remembered(&self.known.lock(), &question) {
            return known.map(|()| None).map_err(Error::from);
        }
        // A copy that is here must not make every open wait for a dead origin.
        if is_here && metadata.is_resting(&target.server) {
            let reason = "it did not answer a moment ago".to_owned();
            return Err(OriginError::Unreachable { endpoint: target.server.endpoint.clone(), reason }.into());
        }
        let ask = || {
            let origin = Arc::clone(&target.origin);
            let path = path.clone();
            let known = Arc::clone(&self.known);
            let question = question.clone();
            async move {
                let asked = LastCheck::begun_now();
                let answer = match want {
                    Want::Stat => stat(origin.as_ref(), &path).await.map(OriginGrant::Stat),
                    Want::Read => origin.open(&path).await.map(|file| OriginGrant::Open(FromOrigin { file, asked })),
                };
                // Noted by the attempt itself: its callers may have left.
                note(&known, question, ends, answer.as_ref().err());
                answer
            }
        };
        let asking = self.under_way.join(&question, None, ask);
        // Without a copy there is nothing to give out early: the open waits as long as the origin client does.
        if !is_here {
            return Ok(Some(asking.await.ok_or(BROKE_OFF)??));
        }
        let time_max = target.decisions.options.check_time_max;
        let answer = tokio::time::timeout(time_max, asking).await.unwrap_or_else(|_| {
            Some(Err(OriginError::TimedOut {
                endpoint: target.server.endpoint.clone(),
                doing: "authorizing a client",
                seconds: time_max.as_secs(),
            }))
        });
        let answer = answer.ok_or(BROKE_OFF)?;
        // Only failures to answer rest the origin: a refusal is an answer.
        metadata.note_answer(&target.server, answer.as_ref().is_err_and(OriginError::is_retryable));
        Ok(Some(answer?))
    }
}

/// A stat with the validator that reads of the file have: it may be shown to the client.
async fn stat(origin: &dyn Origin, path: &OriginPath) -> Result<FileStat, OriginError> {
    let (stat, validator) = origin.stat_with_validator(path).await?;
    Ok(FileStat { validator: Some(Arc::new(validator)), ..stat })
}

/// The recent answer of the origin. A client that may read a file may also stat it.
fn remembered(known: &Known, question: &Question) -> Option<Result<(), OriginError>> {
    let now = forebay_net::clock::monotonic();
    let now_unix = forebay_net::clock::now_unix();
    let current = |question: &Question| {
        let known = known.get(question).filter(|known| known.until > now && known.ends > now_unix);
        known.map(|known| known.refusal.clone().map_or(Ok(()), Err))
    };
    let (name, server, lfn, cgi, want) = question;
    let may_read = || current(&(*name, server.clone(), lfn.clone(), cgi.clone(), Want::Read)).filter(Result::is_ok);
    current(question).or_else(|| if *want == Want::Stat { may_read() } else { None })
}

/// Remembers an answer, unless asking again may help.
fn note(known: &Mutex<Known>, question: Question, ends: i64, refusal: Option<&OriginError>) {
    let now = forebay_net::clock::monotonic();
    let refusal = match refusal {
        None => None,
        Some(OriginError::Refused { endpoint, kind, text }) if refusal.is_some_and(|error| !error.is_retryable()) => {
            let text = text.chars().take(TEXT_LEN_MAX).collect();
            Some(OriginError::Refused { endpoint: endpoint.clone(), kind: *kind, text })
        }
        Some(error @ OriginError::Authentication { .. }) => Some(error.clone()),
        // The origin did not decide: the next open asks again.
        Some(_) => return,
    };
    let until = now + if refusal.is_some() { REFUSAL_TIME } else { GRANT_TIME };
    let mut known = known.lock();
    let is_full = known.len() >= KNOWN_MAX;
    if is_full {
        known.retain(|_, known| known.until > now);
    }
    // Not one by one from then on: each would look through all of them.
    if known.len() >= KNOWN_MAX / 4 * 3 && is_full {
        known.clear();
    }
    known.insert(question, Remembered { until, ends, refusal });
}
