//! Which members live, from their messages.

use crate::{
    options::Placement,
    standing::{Census, Standing},
    view::{Member, View},
};
use forebay_types::named_enum;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Interval of probes of each member.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A member that has not been heard of for this time is not alive: three probes are lost, and the answers to one more.
pub const EXPIRY: Duration = Duration::from_millis(3500);

/// Members as they are configured or discovered, and what was last heard of each.
#[derive(Debug, Default)]
pub(crate) struct Members {
    id: String,
    own: Standing,
    others: BTreeMap<String, Other>,
    placement: Placement,
}

#[derive(Debug)]
struct Other {
    /// All addresses of its name. It may send from any of them.
    addresses: Vec<SocketAddr>,
    heard: Option<Heard>,
}

/// A member, alive or not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct KnownMember {
    pub(crate) id: String,
    /// Its last report; `None` if it has never been heard of.
    pub(crate) standing: Option<Standing>,
    pub(crate) state: MemberState,
    /// Empty for this node.
    pub(crate) addresses: Vec<SocketAddr>,
}

named_enum! {
    /// Whether a member gets new files.
    pub enum MemberState {
        /// It takes new files.
        Active = "active",
        /// It lives, and takes no new files.
        Inactive = "inactive",
        /// It has not been heard of lately.
        Silent = "silent",
    }
}

/// The last message of a member.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    from: SocketAddr,
    standing: Standing,
}

impl Heard {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < EXPIRY
    }
}

impl Members {
    pub(crate) fn new(placement: Placement, weight: u32, own: String) -> Self {
        Self { id: own, own: Standing { weight, ..Standing::default() }, placement, ..Self::default() }
    }

    /// Replaces the list of members, by id. States of those that stay are kept.
    pub(crate) fn set_list(&mut self, own: Option<String>, others: BTreeMap<String, Vec<SocketAddr>>) {
        if let Some(own) = own {
            self.id = own;
        }
        let mut known = std::mem::take(&mut self.others);
        let with_state = |(id, addresses): (String, Vec<SocketAddr>)| {
            let heard = known.remove(&id).and_then(|known| known.heard);
            let heard = heard.filter(|heard| addresses.contains(&heard.from));
            (id, Other { addresses, heard })
        };
        self.others = others.into_iter().map(with_state).collect();
    }

    /// Whether this node takes new files, and whether clients may be sent to it for those that it has.
    pub(crate) fn set_state(&mut self, is_active: bool, is_serving: bool) {
        self.own.is_active = is_active;
        self.own.is_serving = is_active || is_serving;
    }

    pub(crate) fn set_weight(&mut self, weight: u32) {
        self.own.weight = weight;
    }

    pub(crate) fn set_census(&mut self, census: Census) {
        self.own.census = Some(census);
    }

    /// The report of this node.
    pub(crate) fn own(&self) -> Standing {
        self.own
    }

    /// Notes a message of the member at this address; false if there is none.
    pub(crate) fn hear(&mut self, from: SocketAddr, standing: Standing, now: Instant) -> bool {
        let Some(other) = self.others.values_mut().find(|other| other.addresses.contains(&from)) else { return false };
        other.heard = Some(Heard { at: now, from, standing });
        true
    }

    pub(crate) fn is_member(&self, address: SocketAddr) -> bool {
        self.others.values().any(|other| other.addresses.contains(&address))
    }

    /// Addresses of all other members, alive or not: all of those of a member that is not alive.
    pub(crate) fn addresses(&self, now: Instant) -> Vec<SocketAddr> {
        let of = |other: &Other| match other.heard.filter(|heard| heard.is_recent(now)) {
            Some(heard) => vec![heard.from],
            None => other.addresses.clone(),
        };
        self.others.values().flat_map(of).collect()
    }

    /// All members, alive or not, in the order of their ids.
    pub(crate) fn all(&self, now: Instant) -> Vec<KnownMember> {
        let own = KnownMember {
            id: self.id.clone(),
            standing: Some(self.own),
            state: if self.own.is_active { MemberState::Active } else { MemberState::Inactive },
            addresses: Vec::new(),
        };
        let others = self.others.iter().map(|(id, other)| KnownMember {
            id: id.clone(),
            standing: other.heard.map(|heard| heard.standing),
            state: match other.heard.filter(|heard| heard.is_recent(now)) {
                Some(heard) if heard.standing.is_active => MemberState::Active,
                Some(_) => MemberState::Inactive,
                None => MemberState::Silent,
            },
            addresses: other.heard.map_or_else(|| other.addresses.clone(), |heard| vec![heard.from]),
        });
        let mut all: Vec<KnownMember> = std::iter::once(own).chain(others).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// The addresses that a member had before.
    pub(crate) fn addresses_of(&self, id: &str) -> Option<Vec<SocketAddr>> {
        self.others.get(id).map(|other| other.addresses.clone())
    }

    /// Whether there are other members, and each of them has been heard of.
    pub(crate) fn are_all_known(&self) -> bool {
        !self.others.is_empty() && self.others.values().all(|other| other.heard.is_some())
    }

    /// Whether one of these members has not been heard of, rather than suspending itself.
    pub(crate) fn are_silent(&self, ids: &BTreeSet<String>, now: Instant) -> bool {
        let is_silent = |other: &Other| other.heard.is_none_or(|heard| !heard.is_recent(now));
        ids.iter().any(|id| self.others.get(id).is_none_or(is_silent))
    }

    /// The members that live and take new files, and apart from them those that serve their files only.
    pub(crate) fn view(&self, now: Instant) -> View {
        let own = Member { id: self.id.clone(), weight: self.own.weight, address: None };
        let others = self.others.iter().filter_map(|(id, other)| {
            let heard = other.heard.filter(|heard| heard.is_recent(now))?;
            let member = Member { id: id.clone(), weight: heard.standing.weight, address: Some(heard.from) };
            Some((heard.standing, member))
        });
        let (mut active, mut inactive) = (Vec::new(), Vec::new());
        for (standing, member) in std::iter::once((self.own, own)).chain(others) {
            if standing.is_active {
                active.push(member);
            } else if standing.is_serving {
                inactive.push(member);
            }
        }
        View::new(active, self.placement).with_inactive(inactive)
    }

    /// All members that were ever heard of, as if each of them lived and took new files: the owners of files, also while others stand in for them.
    pub(crate) fn owners(&self) -> View {
        let own = Member { id: self.id.clone(), weight: self.own.weight, address: None };
        let others = self.others.iter().filter_map(|(id, other)| {
            let heard = other.heard?;
            Some(Member { id: id.clone(), weight: heard.standing.weight, address: Some(heard.from) })
        });
        View::new(std::iter::once(own).chain(others).collect(), self.placement)
    }

    /// Whether the member that sends from this address has been heard of lately.
    pub(crate) fn is_alive(&self, address: SocketAddr, now: Instant) -> bool {
        let is_it = |heard: Heard| heard.from == address && heard.is_recent(now);
        self.others.values().any(|other| other.heard.is_some_and(is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn standing(is_active: bool, weight: u32) -> Standing {
        Standing { is_active, is_serving: is_active, weight, census: None }
    }

    fn members(now: Instant) -> Members {
        let mut members = Members::new(Placement::File, 10, "a".to_owned());
        members.set_list(
            None,
            [("b".to_owned(), vec![address(1)]), ("c".to_owned(), vec![address(2), address(5)])].into(),
        );
        members.set_state(true, true);
        assert!(members.hear(address(1), standing(true, 20), now));
        members
    }

    fn ids(view: &View) -> Vec<(&str, u32)> {
        view.members().iter().map(|member| (member.id.as_str(), member.weight)).collect()
    }

    #[test]
    fn members_live_from_their_first_message_until_they_are_silent() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        assert_eq!(ids(&members.view(now)), [("a", 10), ("b", 20)]);
        assert!(!members.are_all_known());
        assert!(members.hear(address(2), standing(true, 30), now + Duration::from_secs(1)));
        assert!(members.are_all_known());
        assert_eq!(ids(&members.view(now + Duration::from_secs(1))), [("a", 10), ("b", 20), ("c", 30)]);
        assert_eq!(ids(&members.view(now + EXPIRY)), [("a", 10), ("c", 30)]);
        assert!(!members.hear(address(3), standing(true, 1), now), "a stranger");
    }

    #[test]
    fn messages_go_where_a_member_was_heard_from() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        assert_eq!(members.addresses(now), [address(1), address(2), address(5)], "one is not known yet");
        assert!(members.is_member(address(2)) && members.hear(address(5), standing(true, 30), now));
        assert_eq!(members.addresses(now), [address(1), address(5)]);
        assert_eq!(members.view(now).others().collect::<Vec<_>>(), [address(1), address(5)]);
        assert_eq!(members.addresses(now + EXPIRY), [address(1), address(2), address(5)]);
        assert_eq!(members.addresses_of("c"), Some(vec![address(2), address(5)]));
    }

    #[test]
    fn all_members_are_known_with_their_states() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        members.hear(address(2), standing(false, 30), now);
        let states = |members: &Members, now| {
            members.all(now).into_iter().map(|member| (member.id, member.state)).collect::<Vec<_>>()
        };
        let named =
            |states: [MemberState; 3]| ["a", "b", "c"].map(str::to_owned).into_iter().zip(states).collect::<Vec<_>>();
        assert_eq!(states(&members, now), named([MemberState::Active, MemberState::Active, MemberState::Inactive]));
        let later = now + EXPIRY;
        assert_eq!(states(&members, later), named([MemberState::Active, MemberState::Silent, MemberState::Silent]));
    }

    #[test]
    fn inactive_members_take_no_files() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        members.hear(address(1), standing(false, 20), now);
        assert_eq!(ids(&members.view(now)), [("a", 10)]);
        members.set_state(false, false);
        assert_eq!(ids(&members.view(now)), []);
    }

    #[test]
    fn inactive_members_that_serve_their_files_may_have_one() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        members.hear(address(1), Standing { is_serving: true, ..standing(false, 20) }, now);
        let view = members.view(now);
        assert_eq!(ids(&view), [("a", 10)]);
        assert_eq!(view.others().collect::<Vec<_>>(), [address(1)]);
        assert!(view.has_others() && view.other_ids().contains("b") && view.inactive_ids().contains("b"));
        assert_eq!(ids(&view.with_all_ranked()), [("a", 10), ("b", 20)]);
        members.set_state(false, true);
        assert!(!members.view(now).other_ids().contains("a"), "it is this node");
        members.hear(address(1), standing(false, 20), now);
        assert!(!members.view(now).has_others(), "a suspended member has nothing for clients");
        assert!(!members.view(now + EXPIRY).has_others());
    }

    #[test]
    fn owners_are_all_members_that_were_ever_heard_of() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        members.set_state(false, false);
        members.hear(address(1), standing(false, 20), now);
        assert_eq!(ids(&members.owners()), [("a", 10), ("b", 20)], "one was never heard of");
        assert!(members.is_alive(address(1), now) && !members.is_alive(address(2), now));
        assert!(!members.is_alive(address(1), now + EXPIRY));
        assert_eq!(ids(&members.owners()).len(), 2);
    }

    #[test]
    fn a_new_list_keeps_what_is_known() {
        let now = forebay_net::clock::monotonic();
        let mut members = members(now);
        members.set_list(Some("z".to_owned()), [("b".to_owned(), vec![address(1)])].into());
        assert_eq!(ids(&members.view(now)), [("b", 20), ("z", 10)]);
        members.set_list(None, [("b".to_owned(), vec![address(9)])].into());
        assert_eq!(ids(&members.view(now)), [("z", 10)], "another machine has this name now");
    }
}
