//! The LRU curve of the cache.

use super::{Server, no_cache};
use crate::{
    model::{CurvePoint, DATASETS_SHOWN_MAX, ReadGroup, ReuseInterval, Sizing, WorkingSet},
    problem::{Problem, ProblemKind},
};
use forebay_sizing::{Group, Reuse};

/// The curve, computed away from the runtime: it looks at each file.
pub(crate) async fn get(server: &Server) -> Result<Sizing, Problem> {
    let popularity = server.popularity.clone().ok_or_else(no_cache)?;
    let now = forebay_net::clock::now_unix();
    let reported = tokio::task::spawn_blocking(move || popularity.report(now)).await;
    let (reuse, lost_accesses) = reported.map_err(|error| Problem::new(ProblemKind::Internal, error))?;
    Ok(sizing(reuse, lost_accesses))
}

fn sizing(reuse: Reuse, lost_accesses: u64) -> Sizing {
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let (accesses, read) = (reuse.accesses, reuse.read);
    let point = |point: forebay_sizing::CurvePoint| CurvePoint {
        size: point.size,
        hits_by_files: share(point.hits, accesses),
        hits_by_bytes: share(point.saved, read),
        eviction_age_seconds: point.eviction_age,
    };
    let working_set =
        |set: forebay_sizing::WorkingSet| WorkingSet { days: set.days, files: set.files, bytes: set.bytes };
    let interval = |interval: forebay_sizing::Interval| ReuseInterval {
        seconds: if interval.seconds == u64::MAX { None } else { Some(interval.seconds) },
        accesses: interval.accesses,
        bytes: interval.bytes,
    };
    let group = |group: Group| ReadGroup {
        name: group.name,
        accesses: group.accesses,
        read_bytes: group.read,
        reread_bytes: group.reread,
    };
    Sizing {
        since: reuse.since,
        days: reuse.days,
        accesses,
        read_bytes: read,
        first_accesses: reuse.first_accesses,
        first_bytes: reuse.first_bytes,
        lost_accesses,
        curve: reuse.curve.into_iter().map(point).collect(),
        size_max: reuse.size_max,
        working_sets: reuse.working_sets.into_iter().map(working_set).collect(),
        intervals: reuse.intervals.into_iter().map(interval).collect(),
        files: reuse.files,
        bytes: reuse.bytes,
        once_files: reuse.once_files,
        once_bytes: reuse.once_bytes,
        tiers: reuse.tiers.into_iter().map(group).collect(),
        datasets: reuse.datasets.into_iter().take(DATASETS_SHOWN_MAX).map(group).collect(),
    }
}
