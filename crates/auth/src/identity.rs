//! The identity of a client, and its proof.

use crate::{Fqan, Scope, UnixTime};
use forebay_types::named_enum;
use std::fmt;

named_enum! {
    /// How an identity was established, the weakest way first.
    pub enum Method {
        None = "none",
        /// By the address the client comes from.
        Host = "host",
        /// A user name that the client reports, without proof.
        Unix = "unix",
        /// By a secret shared with the client.
        Sss = "sss",
        /// By a certificate in the GSI handshake.
        Gsi = "gsi",
        /// By a certificate in the TLS handshake.
        Tls = "tls",
        /// By a token, given at login or with a request.
        Token = "token",
        /// By the signature of a request of S3.
        AccessKey = "access-key",
    }
}

impl Method {
    /// Whether what the identity says of its user was proven by a secret that others do not have.
    pub const fn is_proof(self) -> bool {
        match self {
            Self::None | Self::Host | Self::Unix => false,
            Self::Sss | Self::Gsi | Self::Tls | Self::Token | Self::AccessKey => true,
        }
    }
}

/// The identity of a client. Holds no secret; `Display` gives the name for logs, on one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// How it was established.
    pub method: Method,
    /// The local user name, from a grid-mapfile, a keytab or the mapping of tokens; with [`Method::Unix`], from the client.
    pub user: Option<String>,
    /// The name that the proof carries: distinguished name of the end-entity certificate in slash form, or a token's `sub`.
    pub subject: Option<String>,
    /// Issuer of the subject: distinguished name of the certification authority, or a token's `iss`.
    pub issuer: Option<String>,
    /// Attributes of virtual organizations, the primary one first.
    pub attributes: Vec<Fqan>,
    /// Groups as the proof names them, the default one first: `wlcg.groups` of a token, groups of a keytab entry.
    pub groups: Vec<String>,
    /// Scopes of a token; nothing else is allowed. `None` if nothing narrows the rules.
    pub scopes: Option<Vec<Scope>>,
    /// Name or address of the client's host.
    pub host: String,
    /// Expiry of the proof.
    pub expires_at: Option<UnixTime>,
}

impl Identity {
    /// A client at `host` without authentication.
    pub fn anonymous(host: &str) -> Self {
        Self::of(Method::None, host)
    }

    /// A client at `host`, authenticated by `method`; all other fields are empty.
    pub fn of(method: Method, host: &str) -> Self {
        Self {
            method,
            user: None,
            subject: None,
            issuer: None,
            attributes: Vec::new(),
            groups: Vec::new(),
            scopes: None,
            host: host.to_owned(),
            expires_at: None,
        }
    }

    /// The virtual organization that it belongs to: that of its primary attribute, else the one that its default group begins
    /// with.
    pub fn organization(&self) -> Option<&str> {
        match self.attributes.first() {
            Some(attribute) => Some(attribute.vo()),
            None => {
                let groups = self.groups.first()?.strip_prefix('/')?;
                groups.split('/').next().filter(|organization| !organization.is_empty())
            }
        }
    }

    /// Whether the proof has ended by `now`.
    #[must_use]
    pub fn is_expired(&self, now: UnixTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

impl fmt::Display for Identity {
    /// `METHOD[:USER] ["SUBJECT"] [of ISSUER] [ATTRIBUTE or GROUP] at HOST`; what peers wrote is escaped.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.method.as_str())?;
        if let Some(user) = &self.user {
            write!(out, ":{}", user.escape_debug())?;
        }
        if let Some(subject) = &self.subject {
            write!(out, " {subject:?}")?;
        }
        if let (Method::Token, Some(issuer)) = (self.method, &self.issuer) {
            write!(out, " of {}", issuer.escape_debug())?;
        }
        if let Some(attribute) = self.attributes.first() {
            write!(out, " {attribute}")?;
        } else if let Some(group) = self.groups.first() {
            write!(out, " {}", group.escape_debug())?;
        }
        write!(out, " at {}", self.host.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_logs_are_one_line_with_user_and_method() {
        let mut jane = Identity::of(Method::Gsi, "wn1.site.org");
        jane.user = Some("jane".to_owned());
        jane.subject = Some("/DC=ch/CN=Jane Doe".to_owned());
        jane.issuer = Some("/DC=ch/CN=CA".to_owned());
        jane.attributes = vec![Fqan::parse("/atlas/Role=production").unwrap(), Fqan::parse("/atlas").unwrap()];
        assert_eq!(jane.to_string(), r#"gsi:jane "/DC=ch/CN=Jane Doe" /atlas/Role=production at wn1.site.org"#);
        assert_eq!(Identity::anonymous("192.0.2.7").to_string(), "none at 192.0.2.7");
        let mut liar = Identity::of(Method::Token, "h\u{1b}[2J");
        liar.user = Some("a\nb".to_owned());
        liar.subject = Some("c\r\"d".to_owned());
        liar.issuer = Some("https://i\n".to_owned());
        liar.groups = vec!["/g\0".to_owned()];
        assert_eq!(liar.to_string(), r#"token:a\nb "c\r\"d" of https://i\n /g\0 at h\u{1b}[2J"#);
    }

    #[test]
    fn the_organization_is_that_of_the_primary_attribute_or_else_of_the_default_group() {
        let mut jane = Identity::anonymous("h");
        for (groups, organization) in
            [(&[][..], None), (&["/cms/higgs", "/atlas"], Some("cms")), (&["staff"], None), (&["/"], None)]
        {
            jane.groups = groups.iter().map(|&group| group.to_owned()).collect();
            assert_eq!(jane.organization(), organization, "{groups:?}");
        }
        jane.attributes = vec![Fqan::parse("/atlas/higgs/Role=production").unwrap()];
        assert_eq!(jane.organization(), Some("atlas"));
    }

    #[test]
    fn proofs_end_at_their_time() {
        let mut identity = Identity::anonymous("h");
        assert!(!identity.is_expired(UnixTime(i64::MAX)));
        identity.expires_at = Some(UnixTime(100));
        assert!(!identity.is_expired(UnixTime(99)));
        assert!(identity.is_expired(UnixTime(100)));
    }
}
