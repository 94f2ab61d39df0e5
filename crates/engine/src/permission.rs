//! Asks an origin whether it would give a file to the client that wants it, before the cache does.
//!
//! Where that is wanted, a copy is given out only to clients whom its origin would give the file, as their own credentials show.
//! What the origin has said is remembered for minutes, refusals for seconds, and nothing beyond the end of the credentials.

use crate::{
    Error,
    flights::Flights,
    identity::{FromOrigin, LastCheck},
    routes::OriginTarget,
};
use forebay_auth::{Credentials, CredentialsName};
use forebay_origin::{OnBehalf, OriginError, OriginFile};
use forebay_types::{Endpoint, Lfn};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// For whom the engine is asked to do something.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asker {
    /// For whoever operates this server: nobody is asked for leave.
    #[default]
    Operator,
    /// For a client, with what it has to show origins.
    Client(Option<Arc<Credentials>>),
}

/// What a client wants of a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Want {
    /// To know of it.
    Stat,
    /// Its contents.
    Read,
}

/// What origins have said to whom.
#[derive(Default)]
pub(crate) struct Permissions {
    known: Mutex<BTreeMap<Question, Known>>,
    under_way: Arc<Flights<Question, Answer>>,
}

type Question = (CredentialsName, Endpoint, Lfn, Want);

/// A file that was opened to see whether it may be, or what the origin says against it.
type Answer = Result<Option<Leave>, OriginError>;

#[derive(Clone, Debug)]
struct Known {
    /// In seconds of the Unix epoch.
    until: i64,
    refusal: Option<OriginError>,
}

/// A file that its origin has opened for a client just now.
#[derive(Clone)]
pub(crate) struct Leave {
    file: Arc<dyn OriginFile>,
    asked: Arc<LastCheck>,
}

impl Leave {
    /// The file, and since when it is known to be its origin's.
    pub(crate) fn into_file(self) -> FromOrigin {
        FromOrigin { file: self.file, asked: self.asked.as_ref().clone() }
    }
}

/// How long an origin's leave is remembered, seconds.
const LEAVE_S: i64 = 300;

/// How long a refusal is remembered, seconds: new rights are to count soon.
const REFUSAL_S: i64 = 10;

/// Most answers remembered; beyond it those that have ended are forgotten, and if that is not enough all, which costs a question
/// each.
const KNOWN_MAX: usize = 100_000;

impl Asker {
    /// The credentials that origins are shown for it, in a cell of their own: what one file uses must not become another's.
    pub(crate) fn on_behalf(&self) -> OnBehalf {
        match self {
            Self::Client(Some(credentials)) => OnBehalf::of(Arc::clone(credentials)),
            Self::Client(None) | Self::Operator => OnBehalf::default(),
        }
    }
}

impl Permissions {
    /// Whether the origin would let the client have what it wants; gives the file if it was opened to find that out.
    ///
    /// # Errors
    /// The origin's refusal, or why it cannot be asked: then nothing is given out.
    pub(crate) async fn check(&self, target: &OriginTarget, want: Want) -> Result<Option<Leave>, Error> {
        let Some(as_client) = &target.leave_for else { return Ok(None) };
        let path = target.path_for_client();
        let (name, ends) = as_client.credentials().map_or_else(Default::default, |credentials| {
            (*credentials.name(), credentials.valid_until().map(|end| end.0))
        });
        let question = (name, target.server.clone(), target.path.lfn.clone(), want);
        let now = forebay_net::clock::now_unix();
        if let Some(known) = self.remembered(&question, now) {
            return known.map(|()| None).map_err(Error::from);
        }
        let ask = || {
            let (origin, path) = (Arc::clone(&target.origin), path.clone());
            async move {
                let asked = Arc::new(LastCheck::begun_now());
                match want {
                    Want::Stat => origin.stat(&path).await.map(|_| None),
                    Want::Read => origin.open(&path).await.map(|file| Some(Leave { file, asked })),
                }
            }
        };
        let answer = self.under_way.join(&question, None, ask).await?;
        let kept_for = match &answer {
            Ok(_) => Some(LEAVE_S),
            Err(error) if error.is_retryable() => None,
            Err(_) => Some(REFUSAL_S),
        };
        if let Some(seconds) = kept_for {
            let until = ends.unwrap_or(i64::MAX).min(now.saturating_add(seconds));
            self.note(question, Known { until, refusal: answer.as_ref().err().cloned() }, now);
        }
        Ok(answer?)
    }

    /// What the origin has said not long ago. Whoever may read may also know.
    fn remembered(&self, question: &Question, now: i64) -> Option<Result<(), OriginError>> {
        let known = self.known();
        let current = |question: &Question| known.get(question).filter(|known| known.until > now);
        if let Some(Known { refusal, .. }) = current(question) {
            return Some(refusal.clone().map_or(Ok(()), Err));
        }
        let (name, server, lfn, want) = question;
        let may_read = || (*name, server.clone(), lfn.clone(), Want::Read);
        let is_included = *want == Want::Stat && current(&may_read()).is_some_and(|known| known.refusal.is_none());
        is_included.then_some(Ok(()))
    }

    fn note(&self, question: Question, answer: Known, now: i64) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, known| known.until > now);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(question, answer);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Question, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
