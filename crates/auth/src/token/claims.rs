//! The claims of a token: those of the WLCG profile (1.x) and of SciTokens (2.0).

use super::Token;
use super::jwt::Jwt;
use crate::{Fqan, Right, Scope, UnixTime};
use forebay_types::{Lfn, named_enum};
use serde::Deserialize;
use serde_json::Number;

/// Most scopes and groups that are read from a token; further ones are ignored.
const SCOPES_MAX: usize = 256;
const GROUPS_MAX: usize = 256;

named_enum! {
    /// Which rules the claims of a token follow.
    pub enum TokenProfile {
        /// WLCG Common JWT Profiles 1.x.
        Wlcg = "wlcg",
        /// SciTokens 2.0, and 1.0 with an audience.
        SciTokens = "scitokens",
    }
}

impl TokenProfile {
    /// The audience that stands for every service.
    pub(super) const fn any_audience(self) -> &'static str {
        match self {
            Self::Wlcg => "https://wlcg.cern.ch/jwt/v1/any",
            Self::SciTokens => "ANY",
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    pub(super) sub: Option<String>,
    pub(super) aud: Option<Audience>,
    pub(super) exp: Option<Seconds>,
    pub(super) nbf: Option<Seconds>,
    pub(super) iat: Option<Seconds>,
    #[serde(default)]
    scope: String,
    ver: Option<String>,
    #[serde(rename = "wlcg.ver")]
    wlcg_ver: Option<String>,
    #[serde(rename = "wlcg.groups", default)]
    wlcg_groups: Vec<String>,
}

/// One audience or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Several(Vec<String>),
}

/// A point in time; fractions of a second are cut off.
#[derive(Deserialize)]
pub(super) struct Seconds(Number);

impl Seconds {
    #[expect(clippy::cast_possible_truncation, reason = "a time beyond the range is as good as its end")]
    pub(super) fn time(&self) -> UnixTime {
        UnixTime(self.0.as_i64().unwrap_or_else(|| self.0.as_f64().unwrap_or_default() as i64))
    }
}

impl Token {
    /// Its expiry according to itself, not verified; `None` if it has none in this form.
    pub fn claimed_end(&self) -> Option<UnixTime> {
        #[derive(Deserialize)]
        struct End {
            exp: Seconds,
        }
        Jwt::parse(self).ok()?.claims::<End>().ok().map(|end| end.exp.time())
    }

    /// Its issuer according to itself, not verified; `None` if it is not a JWT.
    pub fn claimed_issuer(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Origin {
            iss: String,
        }
        Jwt::parse(self).ok()?.claims::<Origin>().ok().map(|origin| origin.iss)
    }
}

impl Audience {
    pub(super) fn any(&self, mut is_wanted: impl FnMut(&str) -> bool) -> bool {
        match self {
            Self::One(audience) => is_wanted(audience),
            Self::Several(audiences) => audiences.iter().any(|audience| is_wanted(audience)),
        }
    }
}

impl Claims {
    /// The profile that the claims declare; `Err` with the version if it is unknown.
    pub(super) fn profile(&self) -> Result<Option<TokenProfile>, &str> {
        match (self.wlcg_ver.as_deref(), self.ver.as_deref()) {
            (Some(version), _) if version == "1" || version.starts_with("1.") => Ok(Some(TokenProfile::Wlcg)),
            (Some(version), _) => Err(version),
            (None, Some("scitoken:1.0" | "scitokens:1.0" | "scitoken:2.0" | "scitokens:2.0")) => {
                Ok(Some(TokenProfile::SciTokens))
            }
            (None, Some(version)) => Err(version),
            (None, None) => Ok(None),
        }
    }

    /// The scopes of the token, below `base`; `None` if it has none: then it only identifies its bearer, and rules decide by subject
    /// and groups. SciTokens always have scopes.
    pub(super) fn scopes(&self, profile: TokenProfile, base: &Lfn) -> Option<Vec<Scope>> {
        let words = || self.scope.split_ascii_whitespace();
        let is_capability = |word: &str| word.starts_with("storage.") || word.starts_with("compute.");
        if profile == TokenProfile::Wlcg && !words().any(is_capability) {
            return None;
        }
        Some(words().filter_map(|word| scope(word, profile, base)).take(SCOPES_MAX).collect())
    }

    /// The groups of the WLCG profile that are of the organization `vo`, and that itself; without one, all groups. What has not
    /// the form of a group is left out.
    pub(super) fn groups(&self, profile: TokenProfile, vo: Option<&str>) -> Vec<String> {
        let is_group = |text: &&String| {
            let group = Fqan::parse(text).ok().filter(|group| group.role().is_none() && group.capability().is_none());
            group.is_some_and(|group| group.group() == text.as_str() && vo.is_none_or(|vo| group.vo() == vo))
        };
        let named = if profile == TokenProfile::Wlcg { self.wlcg_groups.as_slice() } else { &[] };
        let mut groups: Vec<_> = named.iter().filter(is_group).take(GROUPS_MAX).cloned().collect();
        let whole = vo.map(|vo| format!("/{vo}")).filter(|whole| !groups.contains(whole));
        groups.extend(whole);
        groups
    }
}

/// One word of a scope; `None` if it is not about files, or malformed.
fn scope(word: &str, profile: TokenProfile, base: &Lfn) -> Option<Scope> {
    let (action, path) = word.split_once(':').map_or((word, None), |(action, path)| (action, Some(path)));
    let (rights, path): (&[Right], _) = match (profile, action) {
        (TokenProfile::Wlcg, "storage.read" | "storage.stage") => (&[Right::Read, Right::List], path?),
        (TokenProfile::Wlcg, "storage.create" | "storage.modify" | "storage.poll") => (&[Right::Stat], path?),
        (TokenProfile::SciTokens, "read") => (&[Right::Read, Right::List], path.unwrap_or("/")),
        (TokenProfile::SciTokens, "write") => (&[Right::Stat], path.unwrap_or("/")),
        _ => return None,
    };
    // The path must be good by itself, so that it leads nowhere but below the base.
    let path = Lfn::parse(path).ok()?;
    let path = Lfn::parse(&format!("{base}/{path}")).ok()?;
    Some(Scope { rights: rights.iter().copied().collect(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(json: &str) -> Claims {
        let rest = json.trim_start_matches('{');
        serde_json::from_str(&format!(r#"{{"iss":"i",{rest}"#)).unwrap()
    }

    fn scopes(profile: TokenProfile, scope: &str) -> Option<Vec<String>> {
        let base = Lfn::parse("/base").unwrap();
        let scopes = claims(&format!(r#"{{"scope":"{scope}"}}"#)).scopes(profile, &base)?;
        Some(scopes.iter().map(|scope| format!("{}: {}", scope.path, scope.rights)).collect())
    }

    #[test]
    fn scopes_are_those_of_the_profile_below_the_base() {
        use TokenProfile::{SciTokens, Wlcg};
        for (profile, scope, expected) in [
            (Wlcg, "storage.read:/", &["/base: read, list, stat"][..]),
            (Wlcg, "storage.stage://a//b/", &["/base/a/b: read, list, stat"]),
            (Wlcg, "storage.create:/a storage.modify:/b", &["/base/a: stat", "/base/b: stat"]),
            (Wlcg, "storage.read", &[]),
            (Wlcg, "storage.read:", &[]),
            (Wlcg, "storage.read:a", &[]),
            (Wlcg, "storage.read:/../a", &[]),
            (Wlcg, "storage.read:/a/../../b", &[]),
            (Wlcg, "storage.write:/", &[]),
            (Wlcg, "compute.read", &[]),
            (Wlcg, "read:/ storage.x:/", &[]),
            (SciTokens, "read write:/a", &["/base: read, list, stat", "/base/a: stat"]),
            (SciTokens, "", &[]),
            (SciTokens, "storage.read:/ read:/a/..", &[]),
        ] {
            let expected = expected.iter().map(|&scope| scope.to_owned()).collect();
            assert_eq!(scopes(profile, scope), Some(expected), "{scope}");
        }
        // Without capabilities, tokens of the WLCG profile narrow nothing.
        assert_eq!(scopes(Wlcg, ""), None);
        assert_eq!(scopes(Wlcg, "openid wlcg.groups"), None);
    }

    #[test]
    fn a_token_names_its_issuer_whatever_else_it_claims() {
        let encode = |text: &str| {
            openssl::base64::encode_block(text.as_bytes()).trim_end_matches('=').replace('+', "-").replace('/', "_")
        };
        let issuer = |claims: &str| {
            let text = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(claims));
            Token::parse(text.as_bytes()).unwrap().claimed_issuer()
        };
        assert_eq!(issuer(r#"{"iss":"https://one","exp":[]}"#).as_deref(), Some("https://one"));
        assert_eq!(issuer(r#"{"iss":1}"#), None);
        assert_eq!(issuer("{}"), None);
        assert_eq!(Token::parse(b"a.b.c").unwrap().claimed_issuer(), None);
    }

    #[test]
    fn groups_are_of_the_organization_that_the_issuer_speaks_for() {
        let claims = claims(
            r#"{"wlcg.groups":["/cms","/cms/prod","/atlas","cms","/cms/","/cms/../atlas","/cms/Role=x","/cmsx",""]}"#,
        );
        assert_eq!(claims.groups(TokenProfile::Wlcg, Some("cms")), ["/cms", "/cms/prod"]);
        assert_eq!(claims.groups(TokenProfile::Wlcg, None), ["/cms", "/cms/prod", "/atlas", "/cmsx"]);
        assert_eq!(claims.groups(TokenProfile::Wlcg, Some("ams")), ["/ams"]);
        assert_eq!(claims.groups(TokenProfile::SciTokens, Some("cms")), ["/cms"]);
        assert!(claims.groups(TokenProfile::SciTokens, None).is_empty());
    }

    #[test]
    fn profiles_follow_from_their_version() {
        for (json, profile) in [
            (r#"{"wlcg.ver":"1.0"}"#, Ok(Some(TokenProfile::Wlcg))),
            (r#"{"wlcg.ver":"1.3","ver":"x"}"#, Ok(Some(TokenProfile::Wlcg))),
            (r#"{"wlcg.ver":"2.0"}"#, Err("2.0")),
            (r#"{"ver":"scitoken:2.0"}"#, Ok(Some(TokenProfile::SciTokens))),
            (r#"{"sub":"s"}"#, Ok(None)),
            (r#"{"ver":"scitoken:9"}"#, Err("scitoken:9")),
        ] {
            assert_eq!(claims(json).profile(), profile, "{json}");
        }
    }

    #[test]
    fn times_may_have_fractions() {
        assert_eq!(claims(r#"{"exp":12.9}"#).exp.unwrap().time(), UnixTime(12));
        assert_eq!(claims(r#"{"exp":1e300}"#).exp.unwrap().time(), UnixTime(i64::MAX));
        assert_eq!(claims(r#"{"exp":-5}"#).exp.unwrap().time(), UnixTime(-5));
    }
}
