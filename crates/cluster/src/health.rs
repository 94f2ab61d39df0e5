//! The health of this node: whether managers may select it, and whether it takes new files.

use crate::{cluster::NodeParts, damper::Damper, peers, shared::Shared};
use forebay_cms::{Load, Report, Space};
use forebay_engine::Engine;
use forebay_telemetry::Metrics;
use forebay_types::Endpoint;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

/// Interval at which the health of this node is examined.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which failing origins are looked at.
const ORIGINS_INTERVAL: Duration = Duration::from_secs(1);

/// Longest time to connect to an origin that fails.
const ORIGIN_CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Examines this node until the task is ended.
pub(crate) async fn watch(shared: Arc<Shared>, parts: NodeParts) {
    let NodeParts { engine, readiness, origins, budget_bytes, .. } = parts;
    let are_down = watch::Sender::new(false);
    let are_origins_down = are_down.subscribe();
    // A task of its own: a connection to an origin takes longer than the rest.
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_origins(engine.metrics().clone(), origins, are_down));
    let mut ticks = interval(HEALTH_INTERVAL);
    let (mut reads, mut fills) = (Damper::new("reads of the disks"), Damper::new("fills of new files"));
    loop {
        ticks.tick().await;
        let (volumes, now) = (engine.volumes(), Instant::now());
        let has_others = shared.view.borrow().has_active_others();
        let is_online = volumes.is_empty() || volumes.iter().any(|volume| volume.health.is_online());
        let reason = match (readiness.is_ready(), reads.is_usable(is_online, has_others, now)) {
            (false, _) => Some(readiness.as_str()),
            (true, false) if is_online => Some("its disks have failed again and again"),
            (true, false) => Some("no disk of the cache can be used"),
            (true, true) => None,
        };
        let can_keep = volumes.is_empty() || volumes.iter().any(|volume| volume.health.is_writable());
        let can_fill = fills.is_usable(can_keep && !*are_origins_down.borrow(), has_others, now);
        let takes_new = reason.is_none() && can_fill;
        let weight = weight(&engine, budget_bytes);
        shared.members.lock().set_weight(weight);
        shared.metrics.set_cluster_weight(weight);
        publish(&shared, report(&engine, takes_new));
        set_state(&shared, takes_new, reason.is_none());
        suspend(&shared, reason);
    }
}

/// Weight among the members: the size of the store in GiB.
pub(crate) fn weight(engine: &Engine, budget_bytes: Option<u64>) -> u32 {
    let (total, _) = disk_bytes(engine);
    let bytes = budget_bytes.map_or(total, |budget| if total == 0 { budget } else { budget.min(total) });
    u32::try_from(bytes / GIB).unwrap_or(u32::MAX).max(1)
}

/// Stops or allows the selection of this node by managers; `reason` is why it stops.
pub(crate) fn suspend(shared: &Arc<Shared>, reason: Option<&'static str>) {
    if reason.is_some() {
        set_state(shared, false, false);
    }
    let is_changed = shared.suspension.send_if_modified(|current| {
        let is_changed = *current != reason;
        *current = reason;
        is_changed
    });
    match reason {
        Some(reason) if is_changed => tracing::info!(reason, "this node takes no clients from the cluster"),
        None if is_changed => tracing::info!("this node takes clients from the cluster"),
        _ => {}
    }
}

/// Notes whether this node takes new files, and whether it serves those that it has.
fn set_state(shared: &Arc<Shared>, is_active: bool, is_serving: bool) {
    let (before, after) = {
        let mut members = shared.members.lock();
        let before = members.own();
        members.set_state(is_active, is_serving);
        (before, members.own())
    };
    if (before.is_active, before.is_serving) != (after.is_active, after.is_serving) {
        // At once, so that the others take new files from now on, or leave them to this node.
        peers::send_probes(shared);
        peers::follow_members(shared);
    }
    if before.is_active != after.is_active {
        if !after.is_active {
            shared.release_all();
        }
        // Managers remember promises, and for which files no node has answered.
        shared.reset();
    }
}

/// Notifies managers at once if they must select differently. They get other changes with the next periodic report.
fn publish(shared: &Shared, report: Report) {
    shared.report.send_if_modified(|current| {
        let is_urgent = (current.space.free_mib == 0) != (report.space.free_mib == 0);
        *current = report;
        is_urgent
    });
}

/// Size and free bytes of all disks.
fn disk_bytes(engine: &Engine) -> (u64, u64) {
    let spaces = engine.volumes().into_iter().filter_map(|volume| volume.space);
    spaces.fold((0, 0), |(total, free), space| {
        (space.total_bytes.saturating_add(total), space.free_bytes.saturating_add(free))
    })
}

/// Keeps `are_down` current: whether every server of the origins fails and none of them accepts a connection.
async fn watch_origins(metrics: Metrics, origins: Vec<Endpoint>, are_down: watch::Sender<bool>) {
    let mut ticks = interval(ORIGINS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let were_down = *are_down.borrow();
        are_down.send_replace(fail_all(&metrics, &origins, were_down).await);
    }
}

async fn fail_all(metrics: &Metrics, origins: &[Endpoint], were_down: bool) -> bool {
    let failing = metrics.failing_servers((forebay_net::clock::monotonic(), forebay_net::clock::now_unix()));
    let is_failing = |origin: &Endpoint| failing.iter().any(|it| it.server == *origin);
    // Failures of servers that get no requests are forgotten after some time: only a connection shows that an origin is back.
    let may_be_down = were_down || origins.iter().all(is_failing);
    if origins.is_empty() || !may_be_down {
        return false;
    }
    for origin in origins {
        if forebay_net::connect(origin, ORIGIN_CONNECT_TIME_MAX).await.is_ok() {
            return false;
        }
    }
    true
}

fn report(engine: &Engine, takes_new: bool) -> Report {
    let (total, free) = disk_bytes(engine);
    let used_percent = total.saturating_sub(free).saturating_mul(100).checked_div(total).unwrap_or(0);
    let used_percent = u8::try_from(used_percent).unwrap_or(100);
    // Purges make room for every new file, so all of the store is free to managers, which compare it with a minimum. Without free space
    // they do not select this node for files that no node has.
    let free_mib = if takes_new { u32::try_from(total / MIB).unwrap_or(u32::MAX).max(1) } else { 0 };
    Report {
        load: Load { cpu: cpu_percent(), network: 0, disk_used: used_percent },
        space: Space { free_mib, used_percent },
    }
}

/// Load of the last minute by the number of processors.
fn cpu_percent() -> u8 {
    let [minute, ..] = rustix::system::sysinfo().loads;
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let percent = (minute.saturating_mul(100) >> LOAD_SHIFT) / processors;
    u8::try_from(percent.min(100)).unwrap_or(100)
}

/// Bits after the point in loads of `sysinfo`.
const LOAD_SHIFT: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{shared::tests::shared, verdict::Holding};
    use forebay_types::Lfn;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_node_that_takes_no_new_files_drops_its_promises() {
        let (shared, lfn) = (Arc::new(shared(None)), Lfn::parse("/store/a").unwrap());
        let resets = shared.resets.subscribe();
        set_state(&shared, true, true);
        assert!(shared.promise(lfn.as_str()));
        assert_eq!(shared.holding(&lfn), Holding::Assigned);
        let before = *resets.borrow();
        set_state(&shared, false, true);
        assert_eq!(shared.holding(&lfn), Holding::Nothing);
        assert_ne!(*resets.borrow(), before, "managers remember the promise");
        assert!(!shared.promise(lfn.as_str()) && !shared.inherit(lfn.as_str()), "it makes no new ones");
        set_state(&shared, true, true);
        assert_eq!(shared.holding(&lfn), Holding::Nothing);
        set_state(&shared, false, true);
        let before = *resets.borrow();
        set_state(&shared, false, true);
        assert_eq!(*resets.borrow(), before, "nothing has changed");
    }

    #[tokio::test]
    async fn origins_that_are_down_are_back_when_one_accepts_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origins = [Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port())];
        let metrics = Metrics::new();
        assert!(!fail_all(&metrics, &origins, true).await);
        drop(listener);
        assert!(fail_all(&metrics, &origins, true).await, "its failures have been forgotten");
        assert!(!fail_all(&metrics, &origins, false).await, "no request has failed");
        assert!(!fail_all(&metrics, &[], true).await);
    }
}
