//! The status of the server.

use super::Server;
use crate::model::{
    ByteCounts, CertificateEnd, ClusterMember, FailingOrigin, FileResults, Filler, Footprint, Index, IndexState,
    MemberBytes, Memory, Purged, Quota, Role, Space, State, Status, Usage, Volume,
};
use forebay_cluster::{Census, Locator, MemberShare};
use forebay_engine::{Engine, IndexState as EngineIndex};
use forebay_front::Backend;
use forebay_manager::FillerState;
use forebay_telemetry::{FailingServer, FileResult, Metrics};
use forebay_types::{Outcome, PurgeReason};

pub(crate) async fn get(server: &Server) -> Status {
    let metrics = server.backend.metrics();
    let engine = server.engine().ok();
    let client_bytes = ByteCounts {
        hit: metrics.client_bytes(Outcome::Hit),
        missed: metrics.client_bytes(Outcome::Missed),
        coalesced: metrics.client_bytes(Outcome::Coalesced),
        bypassed: metrics.client_bytes(Outcome::Bypassed),
    };
    let (role, filler) = match &server.backend {
        Backend::Manager(manager) => (Role::Manager, Some(filler(manager.filler()))),
        Backend::Cache(engine) if engine.is_filler() => (Role::Filler, None),
        Backend::Cache(_) => (Role::Cache, None),
    };
    let (budget_bytes, used_bytes) = metrics.budget();
    let space = match engine {
        Some(engine) => engine.space().await.ok(),
        None => None,
    };
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: server.started,
        uptime_seconds: forebay_net::clock::now_unix().saturating_sub(server.started).try_into().unwrap_or_default(),
        state: State::from_name(server.readiness.as_str()).unwrap_or(State::Stopping),
        role,
        filler,
        connections: metrics.connections(),
        open_handles: metrics.open_handles(),
        client_bytes,
        origin_bytes: metrics.origin_bytes(),
        hit_ratio: hit_ratio(&client_bytes, metrics.origin_bytes()),
        saved_bytes: client_bytes.total().saturating_sub(metrics.origin_bytes()),
        files_read: FileResults {
            hit: metrics.files_read(FileResult::Hit),
            partial: metrics.files_read(FileResult::Partial),
            missed: metrics.files_read(FileResult::Missed),
            unread: metrics.files_read(FileResult::Unread),
        },
        eviction_age_seconds: metrics.eviction_age().map(|age| age.as_secs()),
        certificates: certificates(metrics),
        failing_origins: failing_origins(metrics),
        members: members(server),
        memory: Memory { budget_bytes, used_bytes },
        space: space.map(|space| Space { total_bytes: space.total_bytes, free_bytes: space.free_bytes }),
        volumes: engine.map(volumes).unwrap_or_default(),
        usage: usage(engine, metrics).await,
        scrub: engine.map(Engine::scrub_state).unwrap_or_default(),
        index: index(engine.map_or(EngineIndex::Off, Engine::index_state)),
        jobs_running: server.jobs.running() as u64,
    }
}

fn certificates(metrics: &Metrics) -> Vec<CertificateEnd> {
    let ends = metrics.certificates().into_iter();
    ends.map(|end| CertificateEnd { file: end.file, is_proxy: end.is_proxy, seconds: end.seconds }).collect()
}

fn failing_origins(metrics: &Metrics) -> Vec<FailingOrigin> {
    let now = (forebay_net::clock::monotonic(), forebay_net::clock::now_unix());
    let failing = metrics.failing_servers(now);
    let shown = |failing: FailingServer| FailingOrigin {
        server: failing.server.to_string(),
        since: failing.since,
        problem: failing.problem,
    };
    failing.into_iter().map(shown).collect()
}

fn members(server: &Server) -> Vec<ClusterMember> {
    let bytes = |Census { held_bytes, foreign_bytes, duplicate_bytes }| MemberBytes {
        held: held_bytes,
        foreign: foreign_bytes,
        duplicate: duplicate_bytes,
    };
    let member = |MemberShare { member, is_own, state, share, census, imbalance }| {
        let (state, bytes) = (state.as_str().to_owned(), census.map(bytes));
        ClusterMember { member, is_this_server: is_own, state, share, bytes, imbalance }
    };
    server.locator.iter().flat_map(Locator::members).map(member).collect()
}

fn filler(state: FillerState) -> Filler {
    let FillerState { endpoint, is_alive, node, renewed } = state;
    Filler { address: endpoint.map(|endpoint| endpoint.to_string()), is_alive, node, renewed }
}

async fn usage(engine: Option<&Engine>, metrics: &Metrics) -> Usage {
    let usage = match engine {
        Some(engine) => engine.usage().await,
        None => forebay_engine::Usage::default(),
    };
    let footprint = |footprint: forebay_cache::Footprint| {
        // The largest number means no limit.
        let limited = |count: u64| Some(count).filter(|&count| count != u64::MAX);
        Footprint { bytes: limited(footprint.bytes), inodes: limited(footprint.inodes) }
    };
    let quota = |quota: forebay_engine::QuotaUse| Quota {
        path: quota.path,
        used: footprint(quota.used),
        min_bytes: quota.min_bytes,
        max_bytes: quota.max_bytes,
    };
    let purged = |reason: PurgeReason| Purged {
        reason: reason.as_str().to_owned(),
        files: metrics.purged_files(reason),
        bytes: metrics.purged_bytes(reason),
    };
    Usage {
        used: footprint(usage.used),
        files: usage.files,
        pinned: usage.pinned,
        until_purge: footprint(usage.headroom.until_purge),
        until_full: footprint(usage.headroom.until_full),
        quotas: usage.quotas.into_iter().map(quota).collect(),
        purged: PurgeReason::ALL.map(purged).to_vec(),
    }
}

fn volumes(engine: &Engine) -> Vec<Volume> {
    let volume = |volume: forebay_engine::VolumeInfo| Volume {
        id: volume.id.0,
        path: volume.path.display().to_string(),
        weight: volume.weight,
        space: volume.space.map(|space| Space { total_bytes: space.total_bytes, free_bytes: space.free_bytes }),
        health: volume.health.as_str().to_owned(),
        errors: volume.errors,
        latency_seconds: volume.latency.as_secs_f64(),
    };
    engine.volumes().into_iter().map(volume).collect()
}

fn index(state: EngineIndex) -> Index {
    match state {
        EngineIndex::Off => Index { state: IndexState::Off, files: None, bytes: None },
        EngineIndex::Loading => Index { state: IndexState::Loading, files: None, bytes: None },
        EngineIndex::Rebuilding { files } => Index { state: IndexState::Rebuilding, files: Some(files), bytes: None },
        EngineIndex::Ready { files, bytes } => {
            Index { state: IndexState::Ready, files: Some(files), bytes: Some(bytes) }
        }
    }
}

/// Share of the bytes that the origins did not have to send; 0 if they sent more than the clients got.
fn hit_ratio(bytes: &ByteCounts, origin_bytes: u64) -> Option<f64> {
    let total = bytes.total();
    #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with a few digits")]
    let ratio = total.saturating_sub(origin_bytes) as f64 / total as f64;
    (total > 0).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_ratio_is_the_share_that_origins_did_not_send() {
        assert_eq!(hit_ratio(&ByteCounts::default(), 5), None);
        let bytes = ByteCounts { hit: 6, missed: 1, coalesced: 2, bypassed: 3 };
        assert_eq!(hit_ratio(&bytes, 6), Some(0.5));
        assert_eq!(hit_ratio(&bytes, 0), Some(1.0));
        assert_eq!(hit_ratio(&bytes, 100), Some(0.0), "read-ahead and whole blocks");
    }
}
