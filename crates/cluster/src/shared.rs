//! State that the tasks of the membership share.

use crate::{
    datagram::Datagram,
    members::Members,
    names::Names,
    options::Options,
    peers::PeerSocket,
    verdict::{Holding, Pace, Verdict, verdict},
    view::View,
};
use forebay_cms::Report;
use forebay_engine::{Engine, OpenRequest, Presence};
use forebay_telemetry::Metrics;
use forebay_types::Lfn;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::timeout,
};

/// Announcements that a manager may be behind; it misses earlier ones, and asks when it needs them.
const ANNOUNCEMENTS_MAX: usize = 8192;

/// Answers to one question: at most one from each of the other members.
const ANSWERS_MAX: usize = crate::options::MEMBERS_MAX;

/// The answer of another member to a question about a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Held {
    /// It has the file, or will fetch it, and clients may be sent there.
    pub(crate) is_held: bool,
    pub(crate) has_data: bool,
}

/// News about a file for all managers.
#[derive(Clone, Debug)]
pub(crate) enum Announcement {
    /// There is data of it here.
    Online(Arc<str>),
    /// It will be fetched here.
    Pending(Arc<str>),
    Gone(Arc<str>),
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) engine: Engine,
    pub(crate) metrics: Metrics,
    pub(crate) members: Mutex<Members>,
    pub(crate) view: watch::Sender<Arc<View>>,
    /// Counts the changes after which managers must ask again.
    pub(crate) resets: watch::Sender<u64>,
    /// The reason for which managers must not select this node.
    pub(crate) suspension: watch::Sender<Option<&'static str>>,
    pub(crate) report: watch::Sender<Report>,
    pub(crate) announcements: broadcast::Sender<Announcement>,
    /// Whether other members are known well enough to answer for this node.
    pub(crate) is_prepared: watch::Sender<bool>,
    pub(crate) data_port: u16,
    /// Managers send clients to the address from which this node connects to them.
    pub(crate) source: Option<IpAddr>,
    names: Mutex<Names>,
    socket: Option<PeerSocket>,
    questions: Mutex<HashMap<u64, mpsc::Sender<Held>>>,
    tokens: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        options: Options,
        (engine, metrics): (Engine, Metrics),
        members: Members,
        (data_address, socket): (Option<SocketAddr>, Option<PeerSocket>),
        token: u64,
    ) -> Self {
        Self {
            options,
            engine,
            metrics,
            members: Mutex::new(members),
            view: watch::Sender::default(),
            resets: watch::Sender::default(),
            // Until the first look at the node's health.
            suspension: watch::Sender::new(Some("starting")),
            report: watch::Sender::default(),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS_MAX),
            is_prepared: watch::Sender::new(false),
            data_port: data_address.map_or(0, |address| address.port()),
            source: data_address.map(|address| address.ip()).filter(|ip| !ip.is_unspecified()),
            names: Mutex::default(),
            socket,
            questions: Mutex::default(),
            tokens: AtomicU64::new(token),
        }
    }

    pub(crate) fn socket(&self) -> Option<&PeerSocket> {
        self.socket.as_ref()
    }

    /// The answer to a manager's question; remembers the name.
    pub(crate) fn decide(&self, lfn: &Lfn, is_refresh: bool, pace: Pace) -> Verdict {
        // A suspended node answers for nothing: clients would wait for it.
        if self.suspension.borrow().is_some() {
            return Verdict::Silent;
        }
        let path = lfn.as_str();
        self.names.lock().note(path);
        let view = self.view.borrow().clone();
        // Without a list of members the manager selects nodes for new files: all nodes would answer otherwise.
        let rank = self.socket.as_ref().and_then(|_| view.own_rank(path));
        let verdict = verdict(self.holding(lfn), rank, !view.has_others(), is_refresh, pace.runner_up_delay);
        match verdict {
            Verdict::Have(forebay_cms::Held::Pending) if !self.promise(path) => Verdict::Silent,
            Verdict::Have(_) => {
                self.names.lock().assign(path);
                verdict
            }
            verdict => verdict,
        }
    }

    /// Whether this node has a file. Answered from memory.
    pub(crate) fn holding(&self, lfn: &Lfn) -> Holding {
        // A node that takes no new files fetches none of those that it has promised, either.
        let keeps_promises = self.members.lock().own().is_active;
        if self.holds_data(lfn) {
            Holding::Data
        } else if keeps_promises && self.names.lock().is_assigned(lfn.as_str()) {
            Holding::Assigned
        } else {
            Holding::Nothing
        }
    }

    pub(crate) fn holds_data(&self, lfn: &Lfn) -> bool {
        matches!(self.engine.has(&OpenRequest::of(lfn.clone())), Ok(Presence::Have))
    }

    /// Notes that this node will fetch a file, unless it takes no new ones. Whether it will.
    pub(crate) fn promise(&self, path: &str) -> bool {
        self.expect(|names| names.assign(path))
    }

    /// Notes that managers will send clients for a file of a lost member here, unless this node takes no new ones. Whether they will.
    pub(crate) fn inherit(&self, path: &str) -> bool {
        self.expect(|names| names.inherit(path))
    }

    /// Under the lock of the members: once this node takes no new files, no promise comes after those that are dropped then.
    fn expect(&self, note: impl FnOnce(&mut Names)) -> bool {
        let members = self.members.lock();
        let is_active = members.own().is_active;
        if is_active {
            note(&mut self.names.lock());
        }
        is_active
    }

    /// Notes that there is data of the file here. True if managers expect that it is still to come.
    pub(crate) fn arrived(&self, path: &str) -> bool {
        self.names.lock().arrived(path)
    }

    pub(crate) fn release(&self, path: &str) {
        self.names.lock().release(path);
    }

    pub(crate) fn release_all(&self) {
        self.names.lock().release_all();
    }

    /// Files of lost members that no client has opened here yet.
    pub(crate) fn inherited_names(&self) -> Vec<Arc<str>> {
        self.names.lock().inherited()
    }

    /// Lets all managers ask again about each file, when a client next wants it.
    pub(crate) fn reset(&self) {
        self.resets.send_modify(|resets| *resets = resets.wrapping_add(1));
    }

    /// Files that managers have asked about lately.
    pub(crate) fn recent_names(&self) -> Vec<Arc<str>> {
        self.names.lock().all()
    }

    pub(crate) fn announce(&self, announcement: Announcement) {
        // An error means that no manager is connected: it will ask.
        let _unheard = self.announcements.send(announcement);
    }

    /// Asks all other live members at once whether one of them has a file, also those that take no new ones. No answer within `time_max` means no.
    pub(crate) async fn is_held_elsewhere(&self, path: &str, time_max: Duration) -> bool {
        let Some(socket) = &self.socket else { return false };
        let others: Vec<SocketAddr> = self.view.borrow().others().collect();
        if others.is_empty() {
            return false;
        }
        let (token, mut answers) = self.ask(socket, path, &others);
        let any_has = async {
            for _ in &others {
                match answers.recv().await {
                    Some(held) if held.is_held => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
            false
        };
        let is_held = timeout(time_max, any_has).await.unwrap_or(false);
        self.questions.lock().remove(&token);
        is_held
    }

    /// Asks the member at one of these addresses whether it has a file; `None` if it does not answer in time.
    pub(crate) async fn ask_one(&self, path: &str, addresses: &[SocketAddr], time_max: Duration) -> Option<Held> {
        let (token, mut answers) = self.ask(self.socket.as_ref()?, path, addresses);
        let answer = timeout(time_max, answers.recv()).await.ok().flatten();
        self.questions.lock().remove(&token);
        answer
    }

    /// Asks the members at these addresses at once whether one of them has data of a file; `None` if not all answer in time, and none has.
    pub(crate) async fn has_data_elsewhere(
        &self,
        path: &str,
        addresses: &[SocketAddr],
        time_max: Duration,
    ) -> Option<bool> {
        let (token, mut answers) = self.ask(self.socket.as_ref()?, path, addresses);
        let any_has = async {
            for _ in addresses {
                if answers.recv().await?.has_data {
                    return Some(true);
                }
            }
            Some(false)
        };
        let has_data = timeout(time_max, any_has).await.ok().flatten();
        self.questions.lock().remove(&token);
        has_data
    }

    /// Sends a question. The caller removes its token from the questions when it has the answers that it waits for.
    fn ask(&self, socket: &PeerSocket, path: &str, addresses: &[SocketAddr]) -> (u64, mpsc::Receiver<Held>) {
        let token = self.next_token();
        let (sender, answers) = mpsc::channel(ANSWERS_MAX);
        self.questions.lock().insert(token, sender);
        let question = Datagram::Question { token, path }.encode();
        for address in addresses {
            socket.send(&question, *address);
        }
        (token, answers)
    }

    /// Passes an answer of another member to the question.
    pub(crate) fn answered(&self, token: u64, held: Held) {
        let question = self.questions.lock().get(&token).cloned();
        // A full queue has more answers than members: duplicates.
        let _surplus = question.map(|question| question.try_send(held));
    }

    pub(crate) fn next_token(&self) -> u64 {
        // Odd, so that the sequence has all values. It begins at a random one, which machines that see no question cannot guess.
        self.tokens.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed)
    }

    /// Brings the view up to date. Returns the view before a change.
    pub(crate) fn update_view(&self) -> Option<Arc<View>> {
        let view = self.members.lock().view(forebay_net::clock::monotonic());
        let mut before = None;
        self.view.send_if_modified(|current| {
            let is_changed = **current != view;
            if is_changed {
                before = Some(std::mem::replace(current, Arc::new(view)));
            }
            is_changed
        });
        before
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::standing::Standing;
    use forebay_cache::AllowList;
    use forebay_engine::Routes;

    /// The state of a node without exports, whose members talk over `socket`.
    pub(crate) fn shared(socket: Option<PeerSocket>) -> Shared {
        let metrics = Metrics::new();
        let routes = Routes::new(Vec::new(), AllowList::default(), Arc::new(|_| unreachable!("no origin"))).unwrap();
        let engine = Engine::start(forebay_engine::Options::default(), None, routes, metrics.clone());
        let options = Options::default();
        let members = Members::new(options.placement, 1, "own:1094".to_owned());
        Shared::new(options, (engine, metrics), members, (None, socket), 1)
    }

    #[tokio::test]
    async fn a_member_that_takes_no_new_files_is_asked_for_those_that_it_has() {
        let socket = PeerSocket::bind(&[([127, 0, 0, 1], 0).into()]).await.unwrap();
        let shared = shared(Some(socket));
        shared.suspension.send_replace(None);
        let other: SocketAddr = ([127, 0, 0, 1], 1).into();
        shared.members.lock().set_list(None, [("other:1".to_owned(), vec![other])].into());
        shared.members.lock().set_state(true, true);
        let decide = |is_serving| {
            let standing = Standing { is_serving, ..Standing::default() };
            assert!(shared.members.lock().hear(other, standing, forebay_net::clock::monotonic()));
            shared.update_view();
            shared.decide(&Lfn::parse("/store/a").unwrap(), false, Pace::within(Duration::ZERO))
        };
        assert_eq!(decide(true), Verdict::Ask { after: Duration::ZERO });
        assert_eq!(decide(false), Verdict::Have(forebay_cms::Held::Pending), "the other one is suspended");
    }
}
