//! How the server is.

use super::scrub;
use crate::{
    api::Shared,
    model::{
        ByteCounts, Filler, Footprint, Index, IndexState, Memory, Purged, Quota, Role, Space, State, Status, Usage,
        Volume,
    },
};
use forebay_engine::FillerState;
use forebay_types::{Outcome, PurgeReason};

/// How the server is now.
pub(crate) async fn get(shared: &Shared) -> Status {
    let metrics = shared.engine.metrics();
    let client_bytes = ByteCounts {
        hit: metrics.client_bytes(Outcome::Hit),
        missed: metrics.client_bytes(Outcome::Missed),
        coalesced: metrics.client_bytes(Outcome::Coalesced),
        bypassed: metrics.client_bytes(Outcome::Bypassed),
    };
    let (budget_bytes, used_bytes) = metrics.budget();
    let space = shared.engine.space().await.ok();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: shared.started,
        uptime_seconds: forebay_net::clock::now_unix().saturating_sub(shared.started).try_into().unwrap_or_default(),
        state: State::named(shared.readiness.as_str()),
        role: role(shared),
        filler: shared.engine.filler().map(filler),
        connections: metrics.connections(),
        open_handles: metrics.open_handles(),
        client_bytes,
        hit_ratio: hit_ratio(&client_bytes),
        memory: Memory { budget_bytes, used_bytes },
        space: space.map(|space| Space { total_bytes: space.total_bytes, free_bytes: space.free_bytes }),
        volumes: volumes(shared),
        usage: usage(shared).await,
        scrub: scrub::get(shared),
        index: index(shared),
        jobs_running: shared.jobs.running() as u64,
    }
}

fn role(shared: &Shared) -> Role {
    match &shared.engine {
        engine if engine.is_manager() => Role::Manager,
        engine if engine.is_filler() => Role::Filler,
        _ => Role::Cache,
    }
}

fn filler(state: FillerState) -> Filler {
    let FillerState { endpoint, is_alive, node, renewed } = state;
    Filler { address: endpoint.map(|endpoint| endpoint.to_string()), is_alive, node, renewed }
}

async fn usage(shared: &Shared) -> Usage {
    let usage = shared.engine.usage().await;
    let told = |footprint: forebay_cache::Footprint| {
        // The largest number stands for no limit.
        let limited = |count: u64| Some(count).filter(|&count| count != u64::MAX);
        Footprint { bytes: limited(footprint.bytes), inodes: limited(footprint.inodes) }
    };
    let quota = |quota: forebay_engine::QuotaUse| Quota {
        path: quota.path,
        used: told(quota.used),
        min_bytes: quota.min_bytes,
        max_bytes: quota.max_bytes,
    };
    let metrics = shared.engine.metrics();
    let purged = |reason: PurgeReason| Purged {
        reason: reason.as_str().to_owned(),
        files: metrics.purged_files(reason),
        bytes: metrics.purged_bytes(reason),
    };
    Usage {
        used: told(usage.used),
        files: usage.files,
        pinned: usage.pinned,
        until_purge: told(usage.headroom.until_purge),
        until_full: told(usage.headroom.until_full),
        quotas: usage.quotas.into_iter().map(quota).collect(),
        purged: PurgeReason::ALL.map(purged).to_vec(),
    }
}

fn volumes(shared: &Shared) -> Vec<Volume> {
    let told = |volume: forebay_engine::VolumeInfo| Volume {
        id: volume.id.0,
        path: volume.path.display().to_string(),
        weight: volume.weight,
        space: volume.space.map(|space| Space { total_bytes: space.total_bytes, free_bytes: space.free_bytes }),
        health: volume.health.as_str().to_owned(),
        errors: volume.errors,
        latency_seconds: volume.latency.as_secs_f64(),
    };
    shared.engine.volumes().into_iter().map(told).collect()
}

fn index(shared: &Shared) -> Index {
    use forebay_engine::IndexState as Told;
    match shared.engine.index_state() {
        Told::Off => Index { state: IndexState::Off, files: None, bytes: None },
        Told::Loading => Index { state: IndexState::Loading, files: None, bytes: None },
        Told::Rebuilding { files } => Index { state: IndexState::Rebuilding, files: Some(files), bytes: None },
        Told::Ready { files, bytes } => Index { state: IndexState::Ready, files: Some(files), bytes: Some(bytes) },
    }
}

/// Share of the bytes that came from the cache.
fn hit_ratio(bytes: &ByteCounts) -> Option<f64> {
    let ByteCounts { hit, missed, coalesced, bypassed } = *bytes;
    let total = hit.saturating_add(missed).saturating_add(coalesced).saturating_add(bypassed);
    #[expect(clippy::cast_precision_loss, reason = "a ratio is told with a few digits")]
    let ratio = hit as f64 / total as f64;
    (total > 0).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_ratio_counts_all_bytes_and_needs_one() {
        assert_eq!(hit_ratio(&ByteCounts::default()), None);
        let bytes = ByteCounts { hit: 6, missed: 1, coalesced: 2, bypassed: 3 };
        assert_eq!(hit_ratio(&bytes), Some(0.5));
    }
}
