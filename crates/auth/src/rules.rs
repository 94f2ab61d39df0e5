//! Access rules: from identities to paths and rights.
//!
//! Nothing is allowed that no rule allows. Of the rules that match identity and path, the one with the longest path decides
//! alone; of several as long, the first. A rule without rights denies. The scopes of a token narrow what any rule allows.

mod condition;
mod decision;
mod template;

pub use condition::{Conditions, Unmet};
pub use decision::{Decision, Explanation, RuleName, Verdict, Why};
pub use template::{PathTemplate, PathTemplateError};

use crate::{Identity, Right, Rights, UnixTime};
use condition::Membership;
use forebay_types::{Lfn, named_enum};
use std::collections::HashSet;
use template::Names;

/// Most rules of a list: each open walks it.
pub const GRANTS_MAX: usize = 1024;

/// A list of rules. Without any, everything is denied.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    rules: Vec<Grant>,
}

/// Grants rights below a path to some clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// A name for logs; may be empty.
    pub name: String,
    pub who: Conditions,
    /// The path, with everything below it.
    pub path: PathTemplate,
    /// Empty to deny access.
    pub rights: Rights,
    pub scopes: ScopeUse,
}

named_enum! {
    /// The use of token scopes by a rule.
    #[derive(Default)]
    pub enum ScopeUse {
        /// Those who bring scopes may do what rule and scopes both allow; those who bring none, what the rule allows.
        #[default]
        Narrow = "narrow",
        /// The rule is only for those who bring scopes: it allows what both allow.
        Grant = "grant",
    }
}

/// More rules than [`GRANTS_MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{count} rules are more than {GRANTS_MAX}: join some with `*`, or with {{user}} and the like in their paths")]
pub struct TooManyGrants {
    pub count: usize,
}

impl Grants {
    /// A list of rules.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(rules: Vec<Grant>) -> Result<Self, TooManyGrants> {
        if rules.len() > GRANTS_MAX {
            return Err(TooManyGrants { count: rules.len() });
        }
        Ok(Self { rules })
    }

    /// In their order.
    pub fn rules(&self) -> &[Grant] {
        &self.rules
    }

    /// Decides whether `identity` may do `right` with `path` at the time `now`. Takes no memory unless it denies.
    #[must_use]
    pub fn decide(&self, identity: &Identity, path: &Lfn, right: Right, now: UnixTime) -> Decision<'_> {
        if identity.is_expired(now) {
            return Decision::denied(Why::Expired);
        }
        let is_in_scope = identity.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|s| s.covers(right, path)));
        let decisive = self.decisive(identity, path);
        if let Some((number, rule)) = decisive
            && rule.rights.has(right)
        {
            let name = rule.called(number);
            return if is_in_scope { Decision::allowed(Why::Rule(name)) } else { Decision::denied(Why::Scopes(name)) };
        }
        if right == Right::Stat
            && is_in_scope
            && let Some(name) = self.led_to(identity, path)
        {
            return Decision::allowed(Why::LeadsTo(name));
        }
        Decision::denied(decisive.map_or(Why::NoRule, |(number, rule)| Why::Rule(rule.called(number))))
    }

    /// Decides as [`Grants::decide`] does, and says what became of each rule.
    #[must_use]
    pub fn explain(&self, identity: &Identity, path: &Lfn, right: Right, now: UnixTime) -> Explanation<'_> {
        let verdicts = self.numbered().map(|(number, rule)| (rule.called(number), rule.verdict(identity, path)));
        Explanation { decision: self.decide(identity, path, right, now), verdicts: verdicts.collect() }
    }

    /// Of the rules that match, the first of those with the longest path.
    fn decisive(&self, identity: &Identity, path: &Lfn) -> Option<(usize, &Grant)> {
        let mut best: Option<(usize, (usize, &Grant))> = None;
        for (number, rule) in self.numbered() {
            if let Verdict::Matches { prefix_len } = rule.verdict(identity, path)
                && best.is_none_or(|(longest, _)| prefix_len > longest)
            {
                best = Some((prefix_len, (number, rule)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// A rule that gives `identity` rights somewhere below `path`, and that no rule before it on the same path denies.
    fn led_to(&self, identity: &Identity, path: &Lfn) -> Option<RuleName<'_>> {
        let mut decided = HashSet::new();
        for (number, rule) in self.numbered() {
            if rule.who.unmet(identity, rule.path.uses_names()).is_some() || rule.wants_scopes(identity) {
                continue;
            }
            for below in rule.names(identity).filter_map(|names| rule.path.expanded_below(path, &names)) {
                if decided.insert(below) && !rule.rights.is_empty() {
                    return Some(rule.called(number));
                }
            }
        }
        None
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Grant)> {
        (1..).zip(&self.rules)
    }
}

impl Grant {
    fn verdict(&self, identity: &Identity, path: &Lfn) -> Verdict {
        if !self.path.begins(path) {
            return Verdict::Elsewhere;
        }
        if let Some(unmet) = self.who.unmet(identity, self.path.uses_names()) {
            return Verdict::NotFor(unmet);
        }
        if self.wants_scopes(identity) {
            return Verdict::NoScopes;
        }
        if self.who.asks_for_group() && self.names(identity).next().is_none() {
            return Verdict::NotFor(Unmet::Group);
        }
        let longest = self.names(identity).filter_map(|names| self.path.prefix_len(path, &names)).max();
        longest.map_or(Verdict::Elsewhere, |prefix_len| Verdict::Matches { prefix_len })
    }

    /// The values for names in the path: for each membership that the rule is for, where memberships matter.
    fn names<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = Names<'a>> {
        let of_user =
            Names { user: identity.user.as_deref(), subject: identity.subject.as_deref(), ..Names::default() };
        let is_by_membership = self.who.asks_for_group() || self.path.names_groups();
        let is_for = move |membership: &Membership<'a>| is_by_membership && self.who.is_met_by(membership);
        let of_memberships = Membership::all(identity).filter(is_for).map(move |found| found.names(of_user));
        (!is_by_membership).then_some(of_user).into_iter().chain(of_memberships)
    }

    fn wants_scopes(&self, identity: &Identity) -> bool {
        self.scopes == ScopeUse::Grant && identity.scopes.is_none()
    }

    const fn called(&self, number: usize) -> RuleName<'_> {
        RuleName { number, name: self.name.as_str(), path: &self.path }
    }
}
