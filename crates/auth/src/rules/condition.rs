//! Conditions of a rule on the client.

use super::template::Names;
use crate::{Fqan, Identity, Method};
use forebay_types::{glob_matches, named_enum};

/// Conditions on the client: all that are given must hold; without any, the rule is for all clients.
///
/// A claim of the client without proof (methods `none`, `host` and `unix`) meets a condition on user, subject, group or
/// issuer, and stands in for a name in the path, only when `methods` names that method. In texts, `*` stands for any run of
/// characters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Conditions {
    /// How the identity was established: one of these; empty for any way.
    pub methods: Vec<Method>,
    /// The local name of the user.
    pub user: Option<String>,
    /// The distinguished name, or a token's `sub`.
    pub subject: Option<String>,
    /// Issuer of the subject: the certification authority, or a token's `iss`.
    pub issuer: Option<String>,
    pub vo: Option<String>,
    /// The group with its slashes, as in `/atlas/higgs`.
    pub group: Option<String>,
    /// The role in that organization and group.
    pub role: Option<String>,
    /// Name or address of the client's host; capitals do not count.
    pub host: Option<String>,
}

named_enum! {
    /// A condition that did not hold, as it is named in the configuration.
    pub enum Unmet {
        /// The identity was established in another way.
        Method = "method",
        /// The rule requires a proof, and does not name the method.
        Proof = "proof",
        /// The user has another name, or none.
        User = "user",
        /// The subject has another name, or none.
        Subject = "subject",
        Issuer = "issuer",
        /// No attribute or group has this organization, group and role.
        Group = "vo, group or role",
        /// The client comes from another host.
        Host = "host",
    }
}

/// One membership of a client, from an attribute of an organization or from a plain group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership<'a> {
    group: &'a str,
    role: Option<&'a str>,
}

impl<'a> Membership<'a> {
    /// All memberships of `identity`.
    pub(super) fn all(identity: &'a Identity) -> impl Iterator<Item = Self> {
        let of_attribute = |fqan: &'a Fqan| Self { group: fqan.group(), role: fqan.role() };
        let of_group = |group: &'a String| Self { group, role: None };
        identity.attributes.iter().map(of_attribute).chain(identity.groups.iter().map(of_group))
    }

    /// The organization: the first component of a group that begins with a slash.
    fn vo(&self) -> Option<&'a str> {
        self.group.strip_prefix('/')?.split('/').next()
    }

    /// The names that the membership gives to a path: of the group, the part after its organization.
    pub(super) fn names(&self, of_user: Names<'a>) -> Names<'a> {
        let group = match self.group.strip_prefix('/') {
            Some(path) => path.split_once('/').map(|(_, group)| group),
            None => Some(self.group),
        };
        Names { vo: self.vo(), group, role: self.role, ..of_user }
    }
}

impl Conditions {
    /// The first condition that does not hold for `identity`, those on its memberships apart. `uses_names` when the rule's
    /// path holds names of the client.
    pub(super) fn unmet(&self, identity: &Identity, uses_names: bool) -> Option<Unmet> {
        if !self.methods.is_empty() && !self.methods.contains(&identity.method) {
            return Some(Unmet::Method);
        }
        let wants_proof = self.methods.is_empty() && (uses_names || self.asks_who());
        if wants_proof && !identity.method.is_proof() {
            return Some(Unmet::Proof);
        }
        if !matches(self.user.as_deref(), identity.user.as_deref()) {
            return Some(Unmet::User);
        }
        if !matches(self.subject.as_deref(), identity.subject.as_deref()) {
            return Some(Unmet::Subject);
        }
        if !matches(self.issuer.as_deref(), identity.issuer.as_deref()) {
            return Some(Unmet::Issuer);
        }
        let is_host = self.host.as_ref().is_none_or(|pattern| {
            let (pattern, host) = (pattern.to_ascii_lowercase(), identity.host.to_ascii_lowercase());
            glob_matches(pattern.as_bytes(), host.as_bytes())
        });
        (!is_host).then_some(Unmet::Host)
    }

    /// Whether there are conditions on memberships.
    pub(super) const fn asks_for_group(&self) -> bool {
        self.vo.is_some() || self.group.is_some() || self.role.is_some()
    }

    /// Whether `membership` meets the conditions on memberships.
    pub(super) fn is_met_by(&self, membership: &Membership<'_>) -> bool {
        matches(self.vo.as_deref(), membership.vo())
            && matches(self.group.as_deref(), Some(membership.group))
            && matches(self.role.as_deref(), membership.role)
    }

    /// Whether there are conditions on who the client is.
    pub const fn asks_who(&self) -> bool {
        self.user.is_some() || self.subject.is_some() || self.issuer.is_some() || self.asks_for_group()
    }
}

fn matches(pattern: Option<&str>, text: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| text.is_some_and(|text| glob_matches(pattern.as_bytes(), text.as_bytes())))
}
