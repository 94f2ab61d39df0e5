//! Issuers whose tokens are accepted, and the verification of a token.

use super::claims::{Claims, Seconds, TokenProfile};
use super::jwt::{Jwt, JwtError, shown};
use super::{KeySet, Token};
use crate::{Identity, Method, UnixTime};
use forebay_types::Lfn;

/// Most issuers of a list.
pub const ISSUERS_MAX: usize = 256;

/// Longest time that clocks may be apart, seconds.
pub const LEEWAY_SECONDS_MAX: i64 = 300;

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// Its name, exactly as `iss` of its tokens has it; keys are found from there.
    pub url: String,
    /// The names under which its tokens may address this server, besides that which stands for every service.
    pub audiences: Vec<String>,
    /// Where its paths begin: scopes are relative to this.
    pub base_path: Lfn,
    /// The rules that its tokens must follow; `None` for those that each token names.
    pub profile: Option<TokenProfile>,
    /// The organization that its bearers belong to: groups of others are left out. `None` to believe all groups.
    pub vo: Option<String>,
    /// The local name of its users.
    pub user: TokenUser,
    /// How far its clock may be from ours, seconds; at most [`LEEWAY_SECONDS_MAX`].
    pub leeway_seconds: i64,
}

/// The local name of a token's user.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum TokenUser {
    #[default]
    None,
    Subject,
    /// This one, for all.
    Named(String),
}

/// The accepted issuers with their known keys.
#[derive(Clone, Debug, Default)]
pub struct Issuers {
    issuers: Vec<(Issuer, KeySet)>,
}

/// Why a list of issuers was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IssuersError {
    #[error("{count} token issuers are more than {ISSUERS_MAX}")]
    TooMany { count: usize },
    #[error("the token issuer {url} is listed twice")]
    Twice { url: String },
    #[error("the token issuer {url} has a leeway of {seconds} s: 0 to {LEEWAY_SECONDS_MAX} are possible")]
    Leeway { url: String, seconds: i64 },
}

/// Why a token was refused. Holds nothing of the token that is secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Jwt(#[from] JwtError),
    #[error("tokens of the issuer `{issuer}` are not accepted")]
    UnknownIssuer { issuer: String },
    #[error("the keys of the issuer {issuer} are not known yet")]
    NoKeys { issuer: String },
    #[error("the token is for another service: its audience is none of {expected}")]
    Audience { expected: String },
    #[error("the token follows another profile or version ({version}) than this server accepts of its issuer")]
    Profile { version: String },
    #[error(
        "the token names no profile (neither `wlcg.ver` nor `ver`): such tokens are accepted of issuers of SciTokens only"
    )]
    Untyped,
    #[error("the token never expires (no `exp`): such tokens are not accepted")]
    NoExpiry,
    #[error("the token expired {seconds} s ago")]
    Expired { seconds: i64 },
    #[error("the token is valid in {seconds} s only: are both clocks right?")]
    NotYet { seconds: i64 },
}

impl TokenError {
    /// Whether newer keys of the issuer may help: `Some` with what is missing.
    #[must_use]
    pub const fn asks_for_keys(&self) -> Option<MissingKeys> {
        match self {
            Self::NoKeys { .. } => Some(MissingKeys::All),
            Self::Jwt(JwtError::UnknownKey { .. }) => Some(MissingKeys::One),
            _ => None,
        }
    }
}

/// Which keys of an issuer a token lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MissingKeys {
    All,
    /// The one that the token names.
    One,
}

impl Issuer {
    /// An issuer named `url`, with its paths below `/`; its tokens must be for every service until audiences are added.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            audiences: Vec::new(),
            base_path: Lfn::parse("/").expect("the root is a path"),
            profile: None,
            vo: None,
            user: TokenUser::None,
            leeway_seconds: 30,
        }
    }

    fn check_times(&self, claims: &Claims, now: UnixTime) -> Result<UnixTime, TokenError> {
        let end = claims.exp.as_ref().ok_or(TokenError::NoExpiry)?.time();
        if end.plus(self.leeway_seconds) <= now {
            return Err(TokenError::Expired { seconds: now.seconds_since(end) });
        }
        for begin in [&claims.nbf, &claims.iat].into_iter().flatten().map(Seconds::time) {
            if now.plus(self.leeway_seconds) < begin {
                return Err(TokenError::NotYet { seconds: begin.seconds_since(now) });
            }
        }
        Ok(end.plus(self.leeway_seconds))
    }

    /// The profile that a token is read by. One that names none may be anything that the issuer signs, a proof of identity for another
    /// service among it: it is a SciToken only where those are all that is expected.
    fn check_profile(&self, claims: &Claims) -> Result<TokenProfile, TokenError> {
        let error = |version: &str| TokenError::Profile { version: shown(version) };
        match (claims.profile().map_err(error)?, self.profile) {
            (Some(named), Some(only)) if named != only => Err(error(named.as_str())),
            (Some(named), _) => Ok(named),
            (None, Some(TokenProfile::SciTokens)) => Ok(TokenProfile::SciTokens),
            (None, Some(TokenProfile::Wlcg) | None) => Err(TokenError::Untyped),
        }
    }

    fn check_audience(&self, claims: &Claims, profile: TokenProfile) -> Result<(), TokenError> {
        let any = profile.any_audience();
        let is_ours = |audience: &str| audience == any || self.audiences.iter().any(|ours| ours == audience);
        if claims.aud.as_ref().is_some_and(|audience| audience.any(is_ours)) {
            return Ok(());
        }
        let expected: Vec<_> = self.audiences.iter().map(String::as_str).chain([any]).collect();
        Err(TokenError::Audience { expected: expected.join(", ") })
    }
}

impl Issuers {
    /// A list of issuers, without keys yet.
    ///
    /// # Errors
    /// When there are too many, or one of them cannot be.
    pub fn new(issuers: Vec<Issuer>) -> Result<Self, IssuersError> {
        if issuers.len() > ISSUERS_MAX {
            return Err(IssuersError::TooMany { count: issuers.len() });
        }
        let mut list = Self::default();
        for issuer in issuers {
            let url = issuer.url.clone();
            if list.known(&url).is_some() {
                return Err(IssuersError::Twice { url });
            }
            if !(0..=LEEWAY_SECONDS_MAX).contains(&issuer.leeway_seconds) {
                return Err(IssuersError::Leeway { url, seconds: issuer.leeway_seconds });
            }
            list.issuers.push((issuer, KeySet::default()));
        }
        Ok(list)
    }

    /// The issuers, and how many of their keys are known.
    pub fn iter(&self) -> impl Iterator<Item = (&Issuer, usize)> {
        self.issuers.iter().map(|(issuer, keys)| (issuer, keys.len()))
    }

    /// Takes the keys of the issuer `url`, in place of those it had; false when it is not in the list.
    pub fn set_keys(&mut self, url: &str, keys: KeySet) -> bool {
        let found = self.issuers.iter_mut().find(|(issuer, _)| issuer.url == url);
        found.map(|(_, known)| *known = keys).is_some()
    }

    /// Verifies `token`, which a client at `host` gave, at the time `now`.
    ///
    /// # Errors
    /// Says why it was refused. Callers fetch keys when [`TokenError::asks_for_keys`], and not too often.
    pub fn verify(&self, token: &Token, host: &str, now: UnixTime) -> Result<Identity, TokenError> {
        let jwt = Jwt::parse(token)?;
        let claims: Claims = jwt.claims()?;
        let (issuer, keys) =
            self.known(&claims.iss).ok_or_else(|| TokenError::UnknownIssuer { issuer: shown(&claims.iss) })?;
        if keys.is_empty() {
            return Err(TokenError::NoKeys { issuer: issuer.url.clone() });
        }
        jwt.verify(keys)?;
        let expires_at = issuer.check_times(&claims, now)?;
        let profile = issuer.check_profile(&claims)?;
        issuer.check_audience(&claims, profile)?;
        let user = match &issuer.user {
            TokenUser::None => None,
            TokenUser::Subject => claims.sub.clone(),
            TokenUser::Named(name) => Some(name.clone()),
        };
        Ok(Identity {
            user,
            scopes: claims.scopes(profile, &issuer.base_path),
            groups: claims.groups(profile, issuer.vo.as_deref()),
            subject: claims.sub,
            issuer: Some(claims.iss),
            expires_at: Some(expires_at),
            ..Identity::of(Method::Token, host)
        })
    }

    /// The issuer that a token says it is of, when its tokens are accepted: whose keys to fetch. Proves nothing.
    #[must_use]
    pub fn issuer_of(&self, token: &Token) -> Option<&Issuer> {
        let claims: Claims = Jwt::parse(token).ok()?.claims().ok()?;
        self.known(&claims.iss).map(|(issuer, _)| issuer)
    }

    fn known(&self, url: &str) -> Option<&(Issuer, KeySet)> {
        self.issuers.iter().find(|(issuer, _)| issuer.url == url)
    }
}
