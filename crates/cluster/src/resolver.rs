//! Names of members, resolved again and again.

use crate::{options::MEMBERS_MAX, peers, peers::PeerSocket, shared::Shared};
use forebay_types::Endpoint;
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::lookup_host,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Interval at which names of members are resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);

/// The same while a name cannot be resolved.
const RESOLVE_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Longest time to resolve a name.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Keeps the addresses of all members current until the task is ended.
pub(crate) async fn resolve(shared: Arc<Shared>) {
    loop {
        let is_complete = resolve_once(&shared).await;
        peers::follow_members(&shared);
        sleep(if is_complete { RESOLVE_INTERVAL } else { RESOLVE_RETRY_INTERVAL }).await;
    }
}

/// Returns whether all names were resolved. Members whose name could not be resolved keep their last addresses.
async fn resolve_once(shared: &Shared) -> bool {
    let Some(socket) = shared.socket() else { return true };
    let mut lookups = JoinSet::new();
    for name in shared.options.members.iter().chain(&shared.options.discover).cloned() {
        lookups.spawn(async move { (addresses_of(&name).await, name) });
    }
    let (mut own, mut others, mut is_complete) = (None, BTreeMap::new(), true);
    while let Some(result) = lookups.join_next().await {
        let Ok((mut addresses, name)) = result else { continue };
        addresses.retain(|&address| socket.can_reach(address));
        let is_discovered = shared.options.discover.as_ref() == Some(&name);
        if addresses.is_empty() && is_discovered {
            // The name of all members at once: all of them are kept.
            return false;
        }
        if is_discovered {
            sort_out_discovered(addresses, socket, &mut own, &mut others);
            continue;
        }
        is_complete &= !addresses.is_empty();
        if addresses.iter().any(|&address| socket.is_own(address)) {
            own = Some(name.to_string());
        } else if !addresses.is_empty() {
            others.insert(name.to_string(), addresses);
        } else if let Some(known) = shared.members.lock().addresses_of(&name.to_string()) {
            others.insert(name.to_string(), known);
        }
    }
    if own.is_none() && is_complete {
        tracing::warn!(
            "no member of the cluster has an address on which this server listens: set cluster.members to the data ports of all members, this server included"
        );
    }
    shared.members.lock().set_list(own, others);
    is_complete
}

/// Each address is a member.
fn sort_out_discovered(
    addresses: Vec<SocketAddr>,
    socket: &PeerSocket,
    own: &mut Option<String>,
    others: &mut BTreeMap<String, Vec<SocketAddr>>,
) {
    for address in addresses {
        if socket.is_own(address) {
            *own = Some(address.to_string());
        } else {
            others.insert(address.to_string(), vec![address]);
        }
    }
}

/// Addresses of a name, in a fixed order; empty if it cannot be resolved.
async fn addresses_of(name: &Endpoint) -> Vec<SocketAddr> {
    let resolved = timeout(RESOLVE_TIME_MAX, lookup_host((name.host(), name.port()))).await;
    let mut addresses: Vec<SocketAddr> = match resolved {
        Ok(Ok(addresses)) => addresses.take(MEMBERS_MAX).collect(),
        Ok(Err(error)) => {
            tracing::warn!(%name, %error, "cannot resolve a member of the cluster");
            return Vec::new();
        }
        Err(_) => {
            tracing::warn!(%name, "cannot resolve a member of the cluster in time");
            return Vec::new();
        }
    };
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
