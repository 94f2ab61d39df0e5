//! Messages to and from other members: probes, and questions about files.

use crate::{
    datagram::{DATAGRAM_LEN_MAX, Datagram},
    members::PROBE_INTERVAL,
    resolver,
    shared::{Announcement, Held, Shared},
    standing::Standing,
    verdict::Holding,
    view::View,
};
use forebay_types::Lfn;
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::UdpSocket,
    task::{JoinSet, yield_now},
    time::{interval, sleep},
};

/// Time in which other members make themselves known to a node that starts. It then serves without those that are down.
const ACQUAINTANCE_TIME_MAX: Duration = Duration::from_millis(1500);

/// Interval of probes in that time.
const ACQUAINTANCE_INTERVAL: Duration = Duration::from_millis(100);

/// Time after the end of a member at which managers are to ask the others about all of its files again. They make each client that
/// wants one wait for a second (`cms.delay service`), so files whose names are remembered are announced before; this is for the rest.
const RESET_DELAY: Duration = Duration::from_secs(5);

/// Longest wait for answers to such questions. No client waits for them.
const TAKE_OVER_QUESTION_TIME_MAX: Duration = Duration::from_secs(2);

/// Files that are looked up without a pause for other tasks.
const FILES_AT_ONCE: usize = 256;

/// Questions about files of a lost member that wait for answers at the same time.
const QUESTIONS_AT_ONCE_MAX: usize = 64;

/// The socket for messages between members, at the data port.
pub(crate) struct PeerSocket {
    socket: UdpSocket,
    /// Addresses on which this node serves clients.
    own: Vec<SocketAddr>,
}

impl PeerSocket {
    /// # Errors
    /// If the port is taken.
    pub(crate) async fn bind(own: &[SocketAddr]) -> io::Result<Self> {
        let first = own.first().copied().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { socket: UdpSocket::bind(first).await?, own: own.to_vec() })
    }

    /// Sends a datagram, or drops it: every message is repeated or can be missed.
    pub(crate) fn send(&self, datagram: &[u8], to: SocketAddr) {
        let is_mapped = self.own.first().is_some_and(SocketAddr::is_ipv6);
        let to = match to.ip() {
            IpAddr::V4(ip) if is_mapped => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            _ => to,
        };
        if let Err(error) = self.socket.try_send_to(datagram, to) {
            tracing::debug!(%to, %error, "a message to another member is lost");
        }
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (len, from) = self.socket.recv_from(buffer).await?;
        Ok((len, SocketAddr::new(from.ip().to_canonical(), from.port())))
    }

    /// Whether this node serves clients at the address.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        forebay_net::listens_at(&self.own, address)
    }

    pub(crate) fn can_reach(&self, address: SocketAddr) -> bool {
        self.own.first().is_some_and(|own| own.is_ipv6() || address.is_ipv4())
    }
}

/// Receives messages, probes the others and resolves their names, until the task is ended.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(resolver::resolve(Arc::clone(&shared)));
    tasks.spawn(probe(Arc::clone(&shared)));
    let Some(socket) = shared.socket() else { return };
    let mut buffer = vec![0; DATAGRAM_LEN_MAX.saturating_add(1)];
    loop {
        match socket.receive(&mut buffer).await {
            Ok((len, from)) => {
                if let Some(datagram) = buffer.get(..len).and_then(Datagram::parse)
                    && shared.members.lock().is_member(from)
                {
                    take(&shared, socket, &datagram, from);
                }
            }
            // Reported for an earlier datagram, such as one to a member that is down.
            Err(error) => tracing::debug!(%error, "receiving from other members"),
        }
    }
}

fn take(shared: &Arc<Shared>, socket: &PeerSocket, datagram: &Datagram<'_>, from: SocketAddr) {
    match *datagram {
        Datagram::Probe { token, standing } => {
            hear(shared, from, standing);
            let alive = Datagram::Alive { token, standing: shared.members.lock().own() };
            socket.send(&alive.encode(), from);
        }
        Datagram::Alive { standing, .. } => hear(shared, from, standing),
        Datagram::Question { token, path } => {
            let is_suspended = shared.suspension.borrow().is_some();
            let holding = Lfn::parse(path).map_or(Holding::Nothing, |lfn| shared.holding(&lfn));
            let is_held = !is_suspended && holding != Holding::Nothing;
            let has_data = holding == Holding::Data;
            socket.send(&Datagram::Answer { token, is_held, has_data }.encode(), from);
        }
        Datagram::Answer { token, is_held, has_data } => shared.answered(token, Held { is_held, has_data }),
        Datagram::Share { path } => {
            if let Ok(lfn) = Lfn::parse(path)
                && shared.suspension.borrow().is_none()
            {
                shared.assign(lfn.as_str());
                shared.announce(Announcement::Pending(lfn.as_str().into()));
            }
        }
    }
}

fn hear(shared: &Arc<Shared>, from: SocketAddr, standing: Standing) {
    let now = forebay_net::clock::monotonic();
    if shared.members.lock().hear(from, standing, now) {
        follow_members(shared);
    }
}

/// Notifies managers, and takes over files, when the live members have changed.
pub(crate) fn follow_members(shared: &Arc<Shared>) {
    let Some(before) = shared.update_view() else { return };
    let after = shared.view.borrow().clone();
    shared.metrics.set_cluster_members(after.members().len() as u64);
    // Managers are notified of changes of this node itself when it suspends or resumes.
    let others = |view: &View| {
        let others = view.members().iter().filter(|member| member.address.is_some());
        others.map(|member| member.id.clone()).collect::<BTreeSet<_>>()
    };
    let (old, new) = (others(&before), others(&after));
    let (come, lost): (Vec<_>, BTreeSet<_>) = (new.difference(&old).collect(), old.difference(&new).cloned().collect());
    for member in &come {
        tracing::info!(member, "a member of the cluster is alive");
    }
    for member in &lost {
        tracing::info!(member, "a member of the cluster is not alive, or takes no files");
    }
    if !come.is_empty() {
        tokio::spawn(give_back(Arc::clone(shared), Arc::clone(&after)));
    }
    if lost.is_empty() {
        return;
    }
    let is_silent = shared.members.lock().are_silent(&lost, forebay_net::clock::monotonic());
    tokio::spawn(take_over(Arc::clone(shared), before, after, lost));
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        if is_silent {
            sleep(RESET_DELAY).await;
        }
        shared.reset();
    });
}

/// Announces the files that this node has for lost members. Otherwise clients would wait for these members.
async fn take_over(shared: Arc<Shared>, before: Arc<View>, after: Arc<View>, lost: BTreeSet<String>) {
    let is_inherited = |path: &str| {
        after.own_rank(path) == Some(0) && before.ranked(path).first().is_some_and(|first| lost.contains(&first.id))
    };
    let mut names: Vec<Arc<str>> = shared.recent_names();
    names.retain(|path| is_inherited(path));
    let inherited = names.len();
    let mut questions = JoinSet::new();
    for path in names {
        if questions.len() >= QUESTIONS_AT_ONCE_MAX {
            questions.join_next().await;
        }
        let shared = Arc::clone(&shared);
        questions.spawn(async move {
            if !shared.is_held_elsewhere(&path, TAKE_OVER_QUESTION_TIME_MAX).await {
                shared.inherit(&path);
                shared.announce(Announcement::Pending(path));
            }
        });
    }
    while questions.join_next().await.is_some() {}
    tracing::info!(files = inherited, "announced the files of lost members that are this node's now");
}

/// Drops promises to fetch files of a member that has returned, which has them: clients would be sent to both nodes in turn.
async fn give_back(shared: Arc<Shared>, view: Arc<View>) {
    let mut released = 0_u32;
    for (number, path) in shared.inherited_names().into_iter().enumerate() {
        if number % FILES_AT_ONCE == FILES_AT_ONCE - 1 {
            yield_now().await;
        }
        let is_here = Lfn::parse(&path).is_ok_and(|lfn| shared.holds_data(&lfn));
        if !is_here && view.own_rank(&path) != Some(0) {
            shared.release(&path);
            released = released.saturating_add(1);
        }
    }
    if released > 0 {
        // A retraction would be wrong until the member has logged in: managers would report that no node has the file.
        shared.reset();
        tracing::info!(files = released, "gave back the files of a member that has returned");
    }
}

async fn probe(shared: Arc<Shared>) {
    let start = forebay_net::clock::monotonic();
    loop {
        send_probes(&shared);
        let waited = forebay_net::clock::monotonic().saturating_duration_since(start);
        let are_all_known = shared.members.lock().are_all_known();
        if are_all_known || waited >= ACQUAINTANCE_TIME_MAX {
            break;
        }
        sleep(ACQUAINTANCE_INTERVAL).await;
    }
    shared.is_prepared.send_replace(true);
    let mut ticks = interval(PROBE_INTERVAL);
    loop {
        ticks.tick().await;
        send_probes(&shared);
        follow_members(&shared);
    }
}

/// Lets the other members know that this node lives.
pub(crate) fn send_probes(shared: &Shared) {
    let Some(socket) = shared.socket() else { return };
    let (addresses, standing) = {
        let members = shared.members.lock();
        (members.addresses(forebay_net::clock::monotonic()), members.own())
    };
    let probe = Datagram::Probe { token: shared.next_token(), standing }.encode();
    for address in addresses {
        socket.send(&probe, address);
    }
}
