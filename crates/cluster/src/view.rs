//! Live members, ranked by file.

use crate::options::Placement;
use forebay_cache::{Candidate, placement_hash, placement_order};
use std::{collections::BTreeSet, net::SocketAddr};

/// A member that lives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// The same in the views of all members.
    pub id: String,
    /// Its share of new files, relative to others: the size of its store in GiB.
    pub weight: u32,
    /// `None` for this node.
    pub address: Option<SocketAddr>,
}

/// The live members at one moment. All members with equal views rank them equally.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    members: Vec<Member>,
    /// Those of `members`, in their order.
    candidates: Vec<Candidate>,
    placement: Placement,
    /// Members that live and serve their files, but take no new ones.
    inactive: Vec<Member>,
}

impl View {
    #[must_use]
    pub fn new(mut members: Vec<Member>, placement: Placement) -> Self {
        // The order must not decide: each node knows its own position only.
        members.sort_by(|one, other| one.id.cmp(&other.id));
        let candidate = |member: &Member| Candidate {
            seed: placement_hash(member.id.as_bytes()),
            weight: f64::from(member.weight.max(1)),
        };
        let candidates = members.iter().map(candidate).collect();
        Self { members, candidates, placement, inactive: Vec::new() }
    }

    /// The same with members that serve their files, but take no new ones.
    pub(crate) fn with_inactive(self, inactive: Vec<Member>) -> Self {
        Self { inactive, ..self }
    }

    /// A view in which inactive members are ranked, too: an order of those that may have a file.
    pub(crate) fn with_all_ranked(&self) -> Self {
        Self::new(self.members.iter().chain(&self.inactive).cloned().collect(), self.placement)
    }

    /// In the order of their ids.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// All members, the best one for the file first.
    #[must_use]
    pub fn ranked(&self, path: &str) -> Vec<&Member> {
        let key = match self.placement {
            Placement::File => path,
            Placement::Directory => path.rsplit_once('/').map_or(path, |(directory, _)| directory),
        };
        let order = placement_order(placement_hash(key.as_bytes()), &self.candidates);
        order.into_iter().filter_map(|position| self.members.get(position)).collect()
    }

    /// Position of this node among the ranked members; `None` if it is not one.
    #[must_use]
    pub fn own_rank(&self, path: &str) -> Option<usize> {
        self.ranked(path).iter().position(|member| member.address.is_none())
    }

    /// Addresses of the other members, inactive ones included: each of them may have files.
    pub(crate) fn others(&self) -> impl Iterator<Item = SocketAddr> {
        self.members.iter().chain(&self.inactive).filter_map(|member| member.address)
    }

    pub(crate) fn has_others(&self) -> bool {
        self.others().next().is_some()
    }

    /// Whether another member takes new files.
    pub(crate) fn has_active_others(&self) -> bool {
        self.members.iter().any(|member| member.address.is_some())
    }

    /// Ids of the other members, inactive ones included.
    pub(crate) fn other_ids(&self) -> BTreeSet<&str> {
        let all = self.members.iter().chain(&self.inactive);
        all.filter(|member| member.address.is_some()).map(|member| member.id.as_str()).collect()
    }

    /// Ids of the other members that take no new files.
    pub(crate) fn inactive_ids(&self) -> BTreeSet<&str> {
        let others = self.inactive.iter().filter(|member| member.address.is_some());
        others.map(|member| member.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, weight: u32) -> Member {
        Member { id: id.to_owned(), weight, address: Some(([127, 0, 0, 1], 1).into()) }
    }

    fn view(ids: &[&str]) -> View {
        View::new(ids.iter().map(|id| member(id, 100)).collect(), Placement::File)
    }

    fn names() -> impl Iterator<Item = String> {
        (0..10_000).map(|number| format!("/store/d{}/f{number}.root", number % 97))
    }

    fn winner<'v>(view: &'v View, name: &str) -> &'v str {
        view.ranked(name).first().unwrap().id.as_str()
    }

    #[test]
    fn nodes_agree_whatever_the_order_of_their_lists() {
        let (one, other) = (view(&["a:1094", "b:1094", "c:1094"]), view(&["c:1094", "a:1094", "b:1094"]));
        assert!(names().all(|name| winner(&one, &name) == winner(&other, &name)));
        // Nodes of different versions must agree, too.
        let pinned = ["/store/a", "/store/mc/1.root", "/store/mc/2.root", "/x", "/y", "/data/run3/raw.root"];
        assert_eq!(pinned.map(|name| winner(&one, name)), ["c:1094", "c:1094", "c:1094", "c:1094", "c:1094", "b:1094"]);
    }

    #[test]
    fn a_new_member_takes_its_share_and_moves_nothing_else() {
        let (two, three) = (view(&["a:1", "b:1"]), view(&["a:1", "b:1", "c:1"]));
        let moved: Vec<String> = names().filter(|name| winner(&two, name) != winner(&three, name)).collect();
        assert!(moved.iter().all(|name| winner(&three, name) == "c:1"));
        assert!((3_100..3_567).contains(&moved.len()), "{}", moved.len());
        // A loss moves the same names, each to the one that was second.
        assert!(names().all(|name| {
            let ranked = three.ranked(&name);
            let left = ranked.iter().find(|member| member.id != "c:1").unwrap();
            winner(&two, &name) == left.id
        }));
    }

    #[test]
    fn larger_stores_get_more() {
        let view = View::new(vec![member("a:1", 100), member("b:1", 300)], Placement::File);
        let large = names().filter(|name| winner(&view, name) == "b:1").count();
        assert!((7_300..7_700).contains(&large), "{large}");
    }

    #[test]
    fn directories_stay_together_if_wanted() {
        let view = View { placement: Placement::Directory, ..view(&["a:1", "b:1", "c:1"]) };
        assert!(names().all(|name| winner(&view, &name) == winner(&view, &format!("{name}x"))));
        assert_eq!(winner(&view, "/top"), winner(&view, "/other"));
    }

    #[test]
    fn the_own_rank_is_that_of_the_member_without_an_address() {
        let mut members = vec![member("a:1", 1), member("b:1", 1)];
        members[0].address = None;
        let view = View::new(members, Placement::File);
        assert!(names().all(|name| view.own_rank(&name) == Some(usize::from(winner(&view, &name) != "a:1"))));
        assert_eq!(self::view(&["a:1"]).own_rank("/a"), None);
    }
}
