//! Comparing copies with their origins before they are served.
//!
//! The consequences of a result are decided by `forebay_cache::ValidityPolicy`. A check that fails changes nothing on disk.

use crate::{
    Error,
    entries::{cached_file::CachedFile, loader::ClosedCopy},
    freshness::origin_metadata::{OriginMetadata, Since},
    namespace::routes::{OriginTarget, Writes},
};
use forebay_cache::{CacheKey, CheckOutcome, Likeness, ValidityCheck, Verdict};
use forebay_origin::OriginError;
use forebay_telemetry::{CheckResult, DropReason};
use forebay_types::{Access, FileKind, FileStat};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asking {
    AsNeeded,
    /// Not at all: only what is here is wanted.
    Never,
}

enum Found {
    Unchanged,
    Changed,
    Gone(OriginError),
    Failed(OriginError),
}

struct Due<'a> {
    target: &'a OriginTarget,
    /// When it was last found to be its origin's, and the present time, in seconds of the Unix epoch.
    last_check: i64,
    now: i64,
}

/// Sees to it that a copy may be served to an open that began at `began`: compares it with its origin when that is due.
///
/// A file that has changed is retired when this returns: the caller looks for its new copy.
///
/// # Errors
/// When there is no such file any more, or the copy could not be compared for too long.
pub(crate) async fn admit(
    file: &Arc<CachedFile>,
    target: &OriginTarget,
    began: Instant,
    asking: Asking,
    metadata: &OriginMetadata,
) -> Result<(), Error> {
    if target.validity.check == ValidityCheck::Never {
        return Ok(());
    }
    let due = Due::new(target, file.last_check.lock().unix);
    // A check that began after this open is as fresh as one of its own.
    if !due.must_ask() || file.last_check.lock().is_since(began) {
        return Ok(());
    }
    // Only cached files are wanted: an outdated copy counts as not cached.
    if asking == Asking::Never {
        let not_cached = || Error::NotCached { lfn: file.lfn().clone() };
        return if due.may_be_served_unchecked() { Ok(()) } else { Err(not_cached()) };
    }
    let metrics = &file.context.metrics;
    // Without a key nothing is stored that could be compared.
    let Some(key) = &target.key else { return Ok(()) };
    let has_answered = AtomicBool::new(false);
    let comparison = Comparison { file, target, key, metadata, since: Some(began), has_answered: &has_answered };
    let found = due.ask(metadata, Box::pin(comparison.run()), &has_answered).await?;
    match (due.verdict(&found), found) {
        (Verdict::Serve, _) => {
            metrics.add_check(CheckResult::Unchanged);
            // The time of the question, not of the answer: the file may have changed in between.
            file.note_checked(due.now, began);
            Ok(())
        }
        (Verdict::ServeStale, Found::Failed(error)) => {
            metrics.add_check(CheckResult::FailedServedStale);
            tracing::debug!(lfn = file.lfn().as_str(), %error, "served without a check");
            Ok(())
        }
        (Verdict::Replace, _) => {
            metrics.add_check(CheckResult::Changed);
            file.retire(DropReason::Changed);
            Ok(())
        }
        (Verdict::Drop, Found::Gone(error)) => {
            metrics.add_check(CheckResult::Gone);
            // A redirector also says so while the server that has the file is away: then the copy waits for its return.
            // One client's answer does not show what the others may have.
            let is_its_server = file.mark().is_none_or(|mark| mark.origin.endpoint == *error.endpoint());
            if is_its_server && !target.is_as_client() {
                file.retire(DropReason::Gone);
            }
            Err(error.into())
        }
        (Verdict::Refuse, Found::Failed(error)) => {
            metrics.add_check(CheckResult::FailedRefused);
            Err(due.too_stale(&error))
        }
        (Verdict::Ask | Verdict::ServeStale | Verdict::Drop | Verdict::Refuse, _) => Err(NO_VERDICT),
    }
}

/// The attributes of a file that is on disk but not open: from the disk as long as that may be served, else from the
/// origin.
///
/// # Errors
/// As for [`admit`].
pub(crate) async fn stat_closed(
    metadata: &OriginMetadata,
    target: &OriginTarget,
    copy: ClosedCopy,
    began: Instant,
) -> Result<FileStat, Error> {
    let due = Due::new(target, copy.last_check);
    // The common case: the copy on disk answers without the origin.
    if !due.must_ask() {
        return Ok(FileStat { access: access_at_origin(metadata, target).await, ..copy.stat });
    }
    let mut told = None;
    let question = async {
        let (stat, validator) = metadata.stat(target, Some(began)).await?;
        // A directory under the name is a change, whatever its size.
        let is_same = stat.kind == FileKind::File && copy.remembered.compare(stat.size, &validator) == Likeness::Same;
        told = Some(stat);
        Ok(if is_same { Found::Unchanged } else { Found::Changed })
    };
    let found = due.ask(metadata, Box::pin(question), &AtomicBool::new(false)).await?;
    match (due.verdict(&found), found, told) {
        (Verdict::Serve | Verdict::ServeStale, _, told) => {
            Ok(FileStat { access: told.and_then(|stat| stat.access), ..copy.stat })
        }
        (Verdict::Replace, _, Some(told)) => Ok(told),
        (Verdict::Drop, Found::Gone(error), _) => Err(error.into()),
        (Verdict::Refuse, Found::Failed(error), _) => Err(due.too_stale(&error)),
        (Verdict::Ask | Verdict::Replace | Verdict::Drop | Verdict::Refuse, _, _) => Err(NO_VERDICT),
    }
}

/// The attributes of a file that concern writers, which no copy has, as its origin gives them. `None` if writers are not
/// redirected there, or if it does not answer in time: a file in the cache has a stat all the same.
pub(crate) async fn access_at_origin(metadata: &OriginMetadata, target: &OriginTarget) -> Option<Arc<Access>> {
    if target.writes == Writes::Refuse || metadata.is_resting(&target.server) {
        return None;
    }
    let asked = Box::pin(metadata.stat(target, None));
    let asked = tokio::time::timeout(target.decisions.options.check_time_max, asked).await;
    let has_failed = asked.as_ref().map_or(true, |asked| asked.as_ref().is_err_and(Error::is_retryable));
    metadata.note_answer(&target.server, has_failed);
    asked.ok()?.ok()?.0.access
}

/// No answer leads here.
const NO_VERDICT: Error = Error::Internal { what: "a check without a verdict" };

impl<'a> Due<'a> {
    fn new(target: &'a OriginTarget, last_check: i64) -> Self {
        Self { target, last_check, now: forebay_net::clock::now_unix() }
    }

    fn decide(&self, outcome: Option<CheckOutcome>) -> Verdict {
        self.target.validity.decide(self.last_check, self.now, outcome)
    }

    fn must_ask(&self) -> bool {
        self.decide(None) == Verdict::Ask
    }

    fn may_be_served_unchecked(&self) -> bool {
        self.decide(Some(CheckOutcome::Failed)) == Verdict::ServeStale
    }

    fn verdict(&self, found: &Found) -> Verdict {
        self.decide(Some(found.outcome()))
    }

    /// The answer to `question`, in bounded time. It is not asked when the origin did not answer a moment ago and the copy
    /// may be served unchecked. An origin that `has_answered` a part of it is not taken for one that does not answer.
    async fn ask(
        &self,
        metadata: &OriginMetadata,
        question: impl Future<Output = Result<Found, Error>>,
        has_answered: &AtomicBool,
    ) -> Result<Found, Error> {
        let server = &self.target.server;
        // Served unchecked rather than after another timeout; once per rest time the origin is asked again.
        if self.may_be_served_unchecked() && metadata.is_resting(server) {
            let reason = "it did not answer a moment ago".to_owned();
            return Ok(Found::Failed(OriginError::Unreachable { endpoint: server.endpoint.clone(), reason }));
        }
        let time_max = self.target.decisions.options.check_time_max;
        let found = match tokio::time::timeout(time_max, question).await {
            Ok(Ok(found)) => found,
            Ok(Err(Error::Origin(error))) if error.is_not_found() => Found::Gone(error),
            Ok(Err(Error::Origin(error))) => Found::Failed(error),
            // Faults of this server are not failures of the origin: they must not count as a failed check.
            Ok(Err(error)) => return Err(error),
            Err(_) => Found::Failed(OriginError::TimedOut {
                endpoint: server.endpoint.clone(),
                doing: "comparing a file with its copy",
                seconds: time_max.as_secs(),
            }),
        };
        let has_failed = matches!(&found, Found::Failed(error) if error.is_retryable());
        metadata.note_answer(server, has_failed && !has_answered.load(Relaxed));
        Ok(found)
    }

    fn too_stale(&self, error: &OriginError) -> Error {
        Error::Stale {
            lfn: self.target.path.lfn.clone(),
            origin: self.target.server.clone(),
            seconds: u64::try_from(self.now.saturating_sub(self.last_check)).unwrap_or(0),
            reason: error.to_string(),
        }
    }
}

impl Found {
    const fn outcome(&self) -> CheckOutcome {
        match self {
            Self::Unchanged => CheckOutcome::Unchanged,
            Self::Changed => CheckOutcome::Changed,
            Self::Gone(_) => CheckOutcome::Gone,
            Self::Failed(_) => CheckOutcome::Failed,
        }
    }

    const fn unchanged_if(is_unchanged: bool) -> Self {
        if is_unchanged { Self::Unchanged } else { Self::Changed }
    }
}

/// A copy that is compared with the file that its origin has at `since` or later.
struct Comparison<'a> {
    file: &'a Arc<CachedFile>,
    target: &'a OriginTarget,
    key: &'a CacheKey,
    metadata: &'a OriginMetadata,
    since: Since,
    has_answered: &'a AtomicBool,
}

impl Comparison<'_> {
    async fn run(&self) -> Result<Found, Error> {
        let Self { file, target, key, metadata, since, .. } = *self;
        let likeness = self.likeness_by_stat(since).await?;
        // The checksum of a large file may come next, which an origin computes for minutes.
        self.has_answered.store(true, Relaxed);
        if likeness == Likeness::Same && file.mark().is_none() {
            // The entry has no mark of its origin yet. Without one, a later change would be taken for another replica.
            file.note_identity(&metadata.identity(target, key, since).await?);
        }
        match likeness {
            Likeness::Different => Ok(Found::Changed),
            _ if target.validity.compares_checksum => self.compare_checksums(likeness).await,
            Likeness::Same => Ok(Found::Unchanged),
            Likeness::TooYoung => Ok(Found::Changed),
            Likeness::OtherTime => {
                // The open decides, not the stat: an xrootd answers a stat with the time of the file that a client already
                // has open under the name.
                let identity = metadata.identity(target, key, since).await?;
                Ok(Found::unchanged_if(file.is_replica(&identity)))
            }
        }
    }

    async fn likeness_by_stat(&self, since: Since) -> Result<Likeness, Error> {
        let (stat, validator) = self.metadata.stat(self.target, since).await?;
        let is_file = stat.kind == FileKind::File;
        // A name that is a directory now has another content.
        Ok(if is_file { self.file.remembered().compare(stat.size, &validator) } else { Likeness::Different })
    }

    /// Compares by checksum if size and time of change do not decide.
    ///
    /// The checksum is requested before or after the identity of the file, whichever makes the two disagree at the next check
    /// if the file changes in between.
    async fn compare_checksums(&self, likeness: Likeness) -> Result<Found, Error> {
        let Self { file, target, key, metadata, since, .. } = *self;
        let identity = match likeness {
            Likeness::OtherTime => Some(metadata.identity(target, key, since).await?),
            Likeness::Same | Likeness::TooYoung | Likeness::Different => None,
        };
        let known = file.mark().and_then(|mark| mark.validator.checksum().cloned());
        let told = metadata.checksum(target, known.as_ref().map(|known| known.algorithm.as_str()), since).await?;
        match (known, told) {
            (Some(known), Some(told)) if known.algorithm == told.algorithm => {
                let is_unchanged = known.value == told.value;
                // The time of change differs although the content is the same: noted, so that the next check need not compare
                // checksums again.
                if is_unchanged && let Some(identity) = &identity {
                    file.note_identity(identity);
                }
                Ok(Found::unchanged_if(is_unchanged))
            }
            (None, Some(told)) if likeness == Likeness::Same => {
                // The checksum belongs to this copy only if the file was still the same after it had been computed.
                let after_it = Some(forebay_net::clock::monotonic());
                let is_unchanged = self.likeness_by_stat(after_it).await? == Likeness::Same;
                if is_unchanged {
                    file.note_checksum(&told);
                }
                Ok(Found::unchanged_if(is_unchanged))
            }
            _ => Ok(Found::unchanged_if(match likeness {
                Likeness::Same => true,
                Likeness::OtherTime => identity.is_some_and(|identity| file.is_replica(&identity)),
                Likeness::Different | Likeness::TooYoung => false,
            })),
        }
    }
}
