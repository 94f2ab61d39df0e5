//! One entry for a Rucio file that several origins have.
//!
//! The key of such an entry has the size and the checksum that an origin reports for its file, so files of one name with
//! different contents have different entries.

use crate::{Error, freshness::origin_metadata::OriginMetadata, namespace::routes::OriginTarget};
use forebay_cache::{CacheKey, ContentId, RucioName, ValidityCheck};
use forebay_types::{FileKind, Lfn, OriginId};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The keys of Rucio files at origins that have reported their contents.
#[derive(Default)]
pub(crate) struct SharedNames {
    known: Mutex<BTreeMap<(OriginId, Lfn), Known>>,
}

struct Known {
    asked: Instant,
    /// `None` if the origin reports no checksum.
    key: Option<CacheKey>,
}

/// Most names whose keys are remembered, some 40 MiB; beyond it the memory is cleared, which costs two questions each.
const KNOWN_MAX: usize = 1 << 17;

/// How long an origin that has not reported a checksum is not asked for that of the same file again.
const WITHOUT_TIME: Duration = Duration::from_secs(600);

/// The algorithm of Rucio's catalogue.
const ALGORITHM: &str = "adler32";

impl SharedNames {
    /// Gives `target` the key of its content, if that is known and need not be checked again.
    pub(crate) fn apply(&self, target: &mut OriginTarget) {
        if target.rucio.is_none() {
            return;
        }
        let age_max = match target.validity.check {
            ValidityCheck::Never => None,
            ValidityCheck::Every(period) => Some(period),
            ValidityCheck::EachOpen => Some(Duration::ZERO),
        };
        let known = self.known.lock();
        let Some(Known { asked, key }) = known.get(&name_of(target)) else { return };
        let age = forebay_net::clock::monotonic().saturating_duration_since(*asked);
        let age_max = if key.is_some() { age_max } else { Some(WITHOUT_TIME) };
        if age_max.is_none_or(|age_max| age < age_max) {
            target.rucio = None;
            if key.is_some() {
                target.key.clone_from(key);
            }
        }
    }

    /// As [`Self::apply`], after a question to the origin if the content is not known. If it does not answer, `target` has the key that was
    /// known last, whose copy decides how long it is served unchecked, or keeps that of its own name.
    pub(crate) async fn learn(&self, target: &mut OriginTarget, metadata: &OriginMetadata) {
        let Some(name) = target.rucio.take() else { return };
        let asked = forebay_net::clock::monotonic();
        let answer =
            if metadata.is_resting(&target.server) { Answer::Silent } else { ask(target, &name, metadata).await };
        let mut known = self.known.lock();
        let key = match answer {
            Answer::Key(key) => key,
            Answer::NotFound => return,
            Answer::Silent => {
                if let Some(Known { key: key @ Some(_), .. }) = known.get(&name_of(target)) {
                    target.key.clone_from(key);
                }
                return;
            }
        };
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(name_of(target), Known { asked, key: key.clone() });
        drop(known);
        if key.is_some() {
            target.key = key;
        }
    }
}

fn name_of(target: &OriginTarget) -> (OriginId, Lfn) {
    (target.server.clone(), target.path.lfn.clone())
}

/// The answer of an origin to the question for a file's content.
enum Answer {
    /// Without a key if it reports no checksum.
    Key(Option<CacheKey>),
    NotFound,
    /// It did not answer, or could not.
    Silent,
}

/// As [`key_at_origin`], in bounded time.
async fn ask(target: &OriginTarget, name: &RucioName, metadata: &OriginMetadata) -> Answer {
    let time_max = target.decisions.options.check_time_max;
    match tokio::time::timeout(time_max, key_at_origin(target, name, metadata)).await {
        Ok(Ok(key)) => return Answer::Key(key),
        Ok(Err(Error::Origin(error))) if error.is_not_found() => return Answer::NotFound,
        Ok(Err(_)) => return Answer::Silent,
        Err(_) => {}
    }
    // Origins compute the checksum of a large file for minutes: one that gives the stat does answer.
    let stat = tokio::time::timeout(time_max, metadata.stat(target, None)).await;
    metadata.note_answer(&target.server, stat.map_or(true, |stat| stat.is_err_and(|error| error.is_retryable())));
    Answer::Silent
}

/// The key of the file's content; none if the origin reports no checksum.
async fn key_at_origin(
    target: &OriginTarget,
    name: &RucioName,
    metadata: &OriginMetadata,
) -> Result<Option<CacheKey>, Error> {
    // The checksum first: if the file changes in between, the size is that of the later one, and no other file has this key.
    let since = Some(forebay_net::clock::monotonic());
    let Some(checksum) = metadata.checksum(target, Some(ALGORITHM), since).await? else { return Ok(None) };
    let (stat, _) = metadata.stat(target, since).await?;
    if stat.kind != FileKind::File {
        return Ok(None);
    }
    Ok(CacheKey::of_rucio(name, ContentId { size: stat.size, checksum: &checksum }).ok())
}
