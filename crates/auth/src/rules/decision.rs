//! Decisions of the rules, and their reasons.

use super::condition::Unmet;
use super::template::PathTemplate;
use std::fmt;

/// The decision on one right on one path; `Display` gives the reason, for logs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision<'r> {
    /// Whether it is allowed.
    pub is_allowed: bool,
    pub why: Why<'r>,
}

/// The reason of a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why<'r> {
    /// The rights of this rule: of those that match, it has the longest path.
    Rule(RuleName<'r>),
    /// The path leads to that of this rule, which gives rights: so one may learn that it exists.
    LeadsTo(RuleName<'r>),
    /// This rule would allow it, but the token was not issued for it.
    Scopes(RuleName<'r>),
    /// The proof of the identity has expired.
    Expired,
    NoRule,
}

/// A rule, as logs name it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleName<'r> {
    /// Its place in the list, from 1.
    pub number: usize,
    /// The name that it was given; may be empty.
    pub name: &'r str,
    pub path: &'r PathTemplate,
}

/// How a decision came about, rule by rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation<'r> {
    pub decision: Decision<'r>,
    /// The verdict of each rule, in order.
    pub verdicts: Vec<(RuleName<'r>, Verdict)>,
}

/// The verdict of one rule on an identity and a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The path is not below that of the rule, whatever names stand in it.
    Elsewhere,
    /// The rule is for others.
    NotFor(Unmet),
    /// The rule is for tokens with scopes, and there are none.
    NoScopes,
    /// The rule matches with so many bytes of the path.
    Matches { prefix_len: usize },
}

impl<'r> Decision<'r> {
    pub(super) const fn allowed(why: Why<'r>) -> Self {
        Self { is_allowed: true, why }
    }

    pub(super) const fn denied(why: Why<'r>) -> Self {
        Self { is_allowed: false, why }
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.is_allowed { "allowed" } else { "denied" };
        match self.why {
            Why::Rule(rule) => write!(out, "{outcome} by {rule}"),
            Why::LeadsTo(rule) => write!(out, "{outcome}: leads to the path of {rule}"),
            Why::Scopes(rule) => write!(out, "{outcome}: the token's scopes do not cover what {rule} allows"),
            Why::Expired => write!(out, "{outcome}: the credentials have expired"),
            Why::NoRule => write!(out, "{outcome}: no rule matches"),
        }
    }
}

impl fmt::Display for RuleName<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rule {}", self.number)?;
        if !self.name.is_empty() {
            write!(out, " {:?}", self.name)?;
        }
        write!(out, " ({})", self.path)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere => out.write_str("for another path"),
            Self::NotFor(unmet) => write!(out, "for others: {unmet}"),
            Self::NoScopes => out.write_str("for tokens with scopes"),
            Self::Matches { prefix_len } => write!(out, "matches, with {prefix_len} bytes of the path"),
        }
    }
}
