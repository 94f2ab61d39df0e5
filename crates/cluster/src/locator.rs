//! Where a file is, for administration.

use crate::{
    members::{KnownMember, MemberState},
    shared::Shared,
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
                let KnownMember { id, weight, state, addresses } = member;
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

/// The shares of members: by their weights, among those that take new files.
fn shares(members: Vec<KnownMember>) -> Vec<MemberShare> {
    let weight_of = |member: &KnownMember| match member.state {
        MemberState::Active => f64::from(member.weight.unwrap_or(0).max(1)),
        MemberState::Inactive | MemberState::Silent => 0.0,
    };
    let total: f64 = members.iter().map(weight_of).sum();
    let share = |member: KnownMember| {
        let share = if total > 0.0 { weight_of(&member) / total } else { 0.0 };
        let KnownMember { id, state, addresses, .. } = member;
        MemberShare { member: id, is_own: addresses.is_empty(), state, share }
    };
    members.into_iter().map(share).collect()
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

    #[test]
    fn only_members_that_take_new_files_have_a_share() {
        let member = |id: &str, weight, state, addresses| KnownMember { id: id.to_owned(), weight, state, addresses };
        let other = || vec![([127, 0, 0, 1], 1).into()];
        let known = vec![
            member("a:1", Some(300), MemberState::Active, Vec::new()),
            member("b:1", Some(100), MemberState::Active, other()),
            member("c:1", Some(100), MemberState::Inactive, other()),
            member("d:1", None, MemberState::Silent, other()),
        ];
        let shares = |known| shares(known).iter().map(|member| (member.is_own, member.share)).collect::<Vec<_>>();
        assert_eq!(shares(known.clone()), [(true, 0.75), (false, 0.25), (false, 0.0), (false, 0.0)]);
        assert_eq!(shares(known.into_iter().skip(2).collect()), [(false, 0.0), (false, 0.0)]);
    }
}
