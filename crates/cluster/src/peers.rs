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
                && shared.promise(lfn.as_str())
            {
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

/// Changes of other members from one view to the next.
#[derive(Debug, Default, Eq, PartialEq)]
struct Changes {
    /// Clients may be sent to them again.
    come: BTreeSet<String>,
    /// They are not alive, or serve no clients.
    lost: BTreeSet<String>,
    /// They take no new files any more. They still serve those that they have.
    inactive: BTreeSet<String>,
    /// They take new files again.
    active: BTreeSet<String>,
}

impl Changes {
    fn between(before: &View, after: &View) -> Self {
        let (old, new) = (before.other_ids(), after.other_ids());
        let (was_inactive, is_inactive) = (before.inactive_ids(), after.inactive_ids());
        let without = |all: &BTreeSet<&str>, some: &BTreeSet<&str>| {
            all.difference(some).map(|&id| id.to_owned()).collect::<BTreeSet<_>>()
        };
        let (mut active, mut inactive) = (without(&was_inactive, &is_inactive), without(&is_inactive, &was_inactive));
        active.retain(|id| new.contains(id.as_str()));
        // A member that comes has promised nothing.
        inactive.retain(|id| old.contains(id.as_str()));
        Self { come: without(&new, &old), lost: without(&old, &new), inactive, active }
    }

    fn log(&self) {
        for member in &self.come {
            tracing::info!(member, "a member of the cluster is alive");
        }
        for member in &self.lost {
            tracing::info!(member, "a member of the cluster is not alive, or serves no clients");
        }
        for member in &self.inactive {
            tracing::info!(member, "a member of the cluster takes no new files");
        }
        for member in &self.active {
            tracing::info!(member, "a member of the cluster takes new files again");
        }
    }
}

/// Notifies managers, and takes over files, when the live members have changed.
pub(crate) fn follow_members(shared: &Arc<Shared>) {
    let Some(before) = shared.update_view() else { return };
    let after = shared.view.borrow().clone();
    shared.metrics.set_cluster_members(after.members().len() as u64);
    // Managers are notified of changes of this node itself when it suspends or resumes, or takes no new files.
    let changes = Changes::between(&before, &after);
    changes.log();
    let Changes { come, lost, inactive, .. } = changes;
    if !come.is_empty() {
        tokio::spawn(give_back(Arc::clone(shared), Arc::clone(&after), come));
    }
    if !inactive.is_empty() {
        // Files that such a member has promised and does not have are for other members now.
        shared.reset();
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
    let before = before.with_all_ranked();
    // Members that come before this node for the file may have it: one of them is lost.
    let is_inherited = |path: &str| {
        after.own_rank(path) == Some(0)
            && before
                .ranked(path)
                .iter()
                .take_while(|member| member.address.is_some())
                .any(|member| lost.contains(&member.id))
    };
    let names = select(shared.recent_names(), is_inherited).await;
    let inherited = names.len();
    let mut questions = JoinSet::new();
    for path in names {
        if questions.len() >= QUESTIONS_AT_ONCE_MAX {
            questions.join_next().await;
        }
        let shared = Arc::clone(&shared);
        questions.spawn(async move {
            if !shared.is_held_elsewhere(&path, TAKE_OVER_QUESTION_TIME_MAX).await && shared.inherit(&path) {
                shared.announce(Announcement::Pending(path));
            }
        });
    }
    while questions.join_next().await.is_some() {}
    tracing::info!(files = inherited, "announced the files of lost members that are this node's now");
}

/// The paths for which `is_wanted`. Pauses for other tasks.
async fn select(paths: Vec<Arc<str>>, is_wanted: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
    let mut selected = Vec::new();
    for paths in paths.chunks(FILES_AT_ONCE) {
        selected.extend(paths.iter().filter(|path| is_wanted(path)).cloned());
        yield_now().await;
    }
    selected
}

/// Drops promises to fetch files of members that have `come` back, which have them: clients would be sent to both nodes in turn.
async fn give_back(shared: Arc<Shared>, view: Arc<View>, come: BTreeSet<String>) {
    let view = view.with_all_ranked();
    let is_returned = |path: &str| {
        let ranked = view.ranked(path);
        let mut before = ranked.iter().take_while(|member| member.address.is_some());
        before.any(|member| come.contains(&member.id))
    };
    let mut released = 0_u32;
    for (number, path) in shared.inherited_names().into_iter().enumerate() {
        if number % FILES_AT_ONCE == FILES_AT_ONCE - 1 {
            yield_now().await;
        }
        let is_here = Lfn::parse(&path).is_ok_and(|lfn| shared.holds_data(&lfn));
        if !is_here && is_returned(&path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options::Placement, view::Member};

    fn members(ids: &[&str]) -> Vec<Member> {
        let address = |id: &str| -> Option<SocketAddr> { (id != "own").then(|| ([127, 0, 0, 1], 1).into()) };
        ids.iter().map(|&id| Member { id: id.to_owned(), weight: 1, address: address(id) }).collect()
    }

    fn view(active: &[&str], inactive: &[&str]) -> View {
        View::new(members(active), Placement::File).with_inactive(members(inactive))
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|&id| id.to_owned()).collect()
    }

    #[test]
    fn a_member_that_takes_no_new_files_is_not_lost() {
        let (both, one_rests) = (view(&["own", "b"], &[]), view(&["own"], &["b"]));
        let changes = Changes::between(&both, &one_rests);
        assert_eq!(changes, Changes { inactive: ids(&["b"]), ..Changes::default() });
        assert_eq!(
            Changes::between(&one_rests, &both),
            Changes { active: ids(&["b"]), ..Changes::default() },
            "it has not been away"
        );
        let alone = view(&["own"], &[]);
        for before in [&both, &one_rests] {
            assert_eq!(Changes::between(before, &alone), Changes { lost: ids(&["b"]), ..Changes::default() });
        }
        for after in [&both, &one_rests] {
            assert_eq!(Changes::between(&alone, after), Changes { come: ids(&["b"]), ..Changes::default() });
        }
    }

    #[test]
    fn changes_of_this_node_are_not_those_of_others() {
        let (active, inactive) = (view(&["own", "b"], &[]), view(&["b"], &["own"]));
        assert_eq!(Changes::between(&active, &inactive), Changes::default());
        assert_eq!(Changes::between(&inactive, &view(&["b"], &[])), Changes::default());
    }

    #[tokio::test]
    async fn many_names_are_selected_in_turns_with_other_tasks() {
        let names: Vec<Arc<str>> = (0..=FILES_AT_ONCE).map(|number| number.to_string().into()).collect();
        let last = names.len() - 1;
        let mut selecting = std::pin::pin!(select(names, |name| name.parse::<usize>() == Ok(last)));
        let is_ready =
            std::future::poll_fn(|context| std::task::Poll::Ready(selecting.as_mut().poll(context).is_ready()));
        assert!(!is_ready.await, "other tasks get a turn");
        assert_eq!(selecting.await, [Arc::<str>::from(last.to_string())]);
    }
}
