//! Accesses that are not in the sums yet, so that closes on different threads rarely wait for each other.

use crate::groups::Sum;
use forebay_types::OriginId;

/// The groups to which an access is added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Names<'a> {
    pub(super) user: &'a str,
    pub(super) host: &'a str,
    pub(super) organization: Option<&'a str>,
    pub(super) origin: Option<&'a OriginId>,
    pub(super) export: &'a str,
    pub(super) tier: &'a str,
    pub(super) dataset: &'a str,
}

/// The sum of the last accesses that have all names in common.
#[derive(Debug)]
pub(super) struct Recent {
    user: String,
    host: String,
    organization: Option<String>,
    origin: Option<OriginId>,
    export: String,
    tier: String,
    dataset: String,
    pub(super) sum: Sum,
}

/// The last accesses of some threads. A client's accesses often differ in nothing but the file.
#[derive(Debug, Default)]
pub(super) struct RecentAccesses(Vec<Recent>);

/// Sums that are kept here; one more, and they are counted.
const RECENT_MAX: usize = 8;

impl RecentAccesses {
    /// Adds an access. Returns those before it, to be counted, when they are too many.
    pub(super) fn add(&mut self, names: &Names<'_>, sum: &Sum) -> Vec<Recent> {
        // From the last one: a client that opens one file after the other is found at once.
        if let Some(recent) = self.0.iter_mut().rev().find(|recent| recent.names() == *names) {
            recent.sum.add(sum);
            return Vec::new();
        }
        let full = if self.0.len() >= RECENT_MAX { self.take() } else { Vec::new() };
        self.0.push(Recent::new(names, *sum));
        full
    }

    /// Takes all of them, to be counted.
    pub(super) fn take(&mut self) -> Vec<Recent> {
        std::mem::take(&mut self.0)
    }
}

impl Recent {
    fn new(names: &Names<'_>, sum: Sum) -> Self {
        Self {
            user: names.user.to_owned(),
            host: names.host.to_owned(),
            organization: names.organization.map(str::to_owned),
            origin: names.origin.cloned(),
            export: names.export.to_owned(),
            tier: names.tier.to_owned(),
            dataset: names.dataset.to_owned(),
            sum,
        }
    }

    pub(super) fn names(&self) -> Names<'_> {
        let Self { user, host, organization, origin, export, tier, dataset, .. } = self;
        Names { user, host, organization: organization.as_deref(), origin: origin.as_ref(), export, tier, dataset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_the_same_names_are_one_sum_and_few_are_kept() {
        let mut recent = RecentAccesses::default();
        let one = Sum { accesses: 1, ..Sum::default() };
        let (host, export, tier, dataset) = ("h", "/", "unknown", "/d");
        let mut add = |user: &str| {
            recent.add(&Names { user, host, organization: None, origin: None, export, tier, dataset }, &one)
        };
        let users: Vec<String> = (0..RECENT_MAX).map(|user| user.to_string()).collect();
        for user in users.iter().chain(&users) {
            assert!(add(user).is_empty());
        }
        let full: Vec<_> = add("x").iter().map(|it| (it.names().user.to_owned(), it.sum.accesses)).collect();
        assert_eq!(full, users.into_iter().map(|user| (user, 2)).collect::<Vec<_>>());
        assert_eq!(recent.take().len(), 1);
    }
}
