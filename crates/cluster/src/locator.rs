//! Where a file is, for administration.

use crate::{
    members::{KnownMember, MemberState},
    shared::Shared,
    standing::Census,
    verdict::Holding,
};
use forebay_types::{Lfn, named_enum};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// Longest wait for the answer of another member.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Answers where files are. Cheap to clone.
#[derive(Clone)]
pub struct Locator(Arc<Shared>);

/// A member, and its part of new files.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberShare {
    /// Its data port, as all members name it.
    pub member: String,
    pub is_own: bool,
    pub state: MemberState,
    /// The part of new files that placement gives it, from 0 to 1.
    pub share: f64,
    /// Its bytes; `None` before its first census.
    pub census: Option<Census>,
    /// Its part of the bytes that members hold, by its part of their weights: 1 if they are balanced. `None` while that is unknown.
    pub imbalance: Option<f64>,
}

/// A member, and a file on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    /// Its data port, as all members name it.
    pub member: String,
    pub is_own: bool,
    pub state: MemberState,
    /// Its share of new files, relative to others; `None` if it has never been heard of.
    pub weight: Option<u32>,
    /// Position among the active members in the order in which placement tries them for the file, from 0.
    pub rank: Option<usize>,
    pub presence: FilePresence,
}

named_enum! {
    /// Whether a member has a file.
    pub enum FilePresence {
        /// There is data of it in the cache.
        Data = "data",
        /// A manager was answered that it will be fetched there.
        Promised = "promised",
        Absent = "absent",
        /// The member does not answer.
        Unknown = "unknown",
    }
}

impl Locator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// All members by name, as this node knows them now.
    #[must_use]
    pub fn members(&self) -> Vec<MemberShare> {
        shares(self.0.members.lock().all(forebay_net::clock::monotonic()))
    }

    /// Asks all members about a file. Best members for it first, then those that take no new files.
    pub async fn locate(&self, lfn: &Lfn) -> Vec<Location> {
        let members = self.0.members.lock().all(forebay_net::clock::monotonic());
        let view = self.0.view.borrow().clone();
        let ranked: Vec<&str> = view.ranked(lfn.as_str()).into_iter().map(|member| member.id.as_str()).collect();
        let mut questions = JoinSet::new();
        for member in members {
            let rank = ranked.iter().position(|id| *id == member.id);
            let (shared, lfn) = (Arc::clone(&self.0), lfn.clone());
            questions.spawn(async move {
                let presence = presence(&shared, &member, &lfn).await;
                let KnownMember { id, standing, state, addresses } = member;
                let weight = standing.map(|standing| standing.weight);
                Location { member: id, is_own: addresses.is_empty(), state, weight, rank, presence }
            });
        }
        let mut found = questions.join_all().await;
        found.sort_by(|one, other| {
            let key = |location: &Location| (location.rank.unwrap_or(usize::MAX), location.member.clone());
            key(one).cmp(&key(other))
        });
        found
    }
}

/// The shares of members: of new files by their weights among those that take such files, and of the bytes among those that have counted.
fn shares(members: Vec<KnownMember>) -> Vec<MemberShare> {
    let weight_of = |member: &KnownMember| f64::from(member.standing.map_or(0, |standing| standing.weight).max(1));
    let new_weight_of = |member: &KnownMember| match member.state {
        MemberState::Active => weight_of(member),
        MemberState::Inactive | MemberState::Silent => 0.0,
    };
    let census_of = |member: &KnownMember| member.standing.and_then(|standing| standing.census);
    let new_total: f64 = members.iter().map(new_weight_of).sum();
    let counted =
        || members.iter().filter_map(|member| Some((weight_of(member), census_of(member)?.held_bytes as f64)));
    let (weights, bytes) =
        counted().fold((0.0, 0.0), |(weights, bytes), (weight, held)| (weights + weight, bytes + held));
    let share = |member: &KnownMember| MemberShare {
        member: member.id.clone(),
        is_own: member.addresses.is_empty(),
        state: member.state,
        share: if new_total > 0.0 { new_weight_of(member) / new_total } else { 0.0 },
        census: census_of(member),
        imbalance: match census_of(member) {
            Some(census) if bytes > 0.0 => Some(census.held_bytes as f64 / bytes / (weight_of(member) / weights)),
            Some(_) | None => None,
        },
    };
    members.iter().map(share).collect()
}

async fn presence(shared: &Shared, member: &KnownMember, lfn: &Lfn) -> FilePresence {
    if member.addresses.is_empty() {
        return match shared.holding(lfn) {
            Holding::Data => FilePresence::Data,
            Holding::Assigned => FilePresence::Promised,
            Holding::Nothing => FilePresence::Absent,
        };
    }
    match shared.ask_one(lfn.as_str(), &member.addresses, ANSWER_TIME_MAX).await {
        Some(held) if held.has_data => FilePresence::Data,
        Some(held) if held.is_held => FilePresence::Promised,
        Some(_) => FilePresence::Absent,
        None => FilePresence::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::Standing;

    fn member(id: &str, standing: Option<Standing>, state: MemberState) -> KnownMember {
        let addresses = if id == "a:1" { Vec::new() } else { vec![([127, 0, 0, 1], 1).into()] };
        KnownMember { id: id.to_owned(), standing, state, addresses }
    }

    fn standing(weight: u32, held_bytes: Option<u64>) -> Option<Standing> {
        let census = held_bytes.map(|held_bytes| Census { held_bytes, ..Census::default() });
        Some(Standing { weight, census, ..Standing::default() })
    }

    #[test]
    fn a_member_with_more_bytes_than_its_share_of_the_weights_is_above_1() {
        let imbalance = |known| shares(known).iter().map(|member| member.imbalance).collect::<Vec<_>>();
        let known = vec![
            member("a:1", standing(300, Some(300)), MemberState::Active),
            member("b:1", standing(100, Some(100)), MemberState::Silent),
            member("c:1", standing(100, None), MemberState::Active),
        ];
        assert_eq!(imbalance(known), [Some(1.0), Some(1.0), None], "one has not counted yet");
        let known = vec![
            member("a:1", standing(100, Some(300)), MemberState::Active),
            member("b:1", standing(100, Some(100)), MemberState::Active),
        ];
        assert_eq!(imbalance(known), [Some(1.5), Some(0.5)]);
        assert_eq!(imbalance(vec![member("a:1", standing(1, Some(0)), MemberState::Active)]), [None]);
    }

    #[test]
    fn only_members_that_take_new_files_have_a_share() {
        let known = vec![
            member("a:1", standing(300, None), MemberState::Active),
            member("b:1", standing(100, None), MemberState::Active),
            member("c:1", standing(100, None), MemberState::Inactive),
            member("d:1", None, MemberState::Silent),
        ];
        let shares = |known| shares(known).iter().map(|member| (member.is_own, member.share)).collect::<Vec<_>>();
        assert_eq!(shares(known.clone()), [(true, 0.75), (false, 0.25), (false, 0.0), (false, 0.0)]);
        assert_eq!(shares(known.into_iter().skip(2).collect()), [(false, 0.0), (false, 0.0)]);
    }
}
