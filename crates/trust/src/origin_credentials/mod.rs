//! The current credentials of this cache for origins.

mod options;
mod sources;
mod user;

pub use options::{CredentialOptions, CredentialRule, OriginProof};
pub use user::UserCredentials;

use crate::{
    authorities::Authorities,
    files::Fingerprint,
    reloading_file::{LoadError, ReloadingFile},
};
use forebay_auth::{
    CredentialSource, CredentialUse, Credentials, Token, UnixTime,
    gsi::GsiClientSettings,
    x509::{Credential, TrustAnchors, TrustRules},
};
use forebay_types::{OriginId, canonical_host, glob_matches};
use parking_lot::{Mutex, RwLock};
use sources::Made;
use std::sync::Arc;

/// Credentials for origins. A lookup only searches the list of rules; [`OriginCredentials::refresh`] reads the files.
#[derive(Debug)]
pub struct OriginCredentials {
    rules: Vec<Held>,
    no_credentials: Arc<Credentials>,
    authorities: Option<ReloadingFile<Authorities>>,
    trust: TrustRules,
    keeps_those_of_clients: bool,
}

/// A rule, and its current credential.
#[derive(Debug)]
struct Held {
    rule: CredentialRule,
    current: RwLock<Arc<Credentials>>,
    state: Mutex<State>,
}

/// The files at the last refresh.
#[derive(Debug, Default)]
struct State {
    seen: Fingerprint,
    made: Option<Made>,
    /// The last problem, so that it is logged once.
    problem: Option<String>,
}

impl OriginCredentials {
    /// Reads the files in `options`. Unreadable ones are logged, and retried at each refresh. Blocks on the disk, and computes
    /// for a tenth of a second for each proxy.
    ///
    /// # Errors
    /// If certificates are used, but there is no CA directory to verify servers with.
    pub fn open(options: CredentialOptions, now: UnixTime) -> Result<Self, LoadError> {
        let uses_certificates = options.rules.iter().any(|rule| rule.proof.may_be_certificate());
        let has_authorities = options.keeps_those_of_clients && options.ca_dir.is_dir();
        let authorities =
            (uses_certificates || has_authorities).then(|| Authorities::watch(&options.ca_dir)).transpose()?;
        let no_credentials = Arc::new(Credentials::anonymous(&options.user));
        let rules = options.rules.into_iter().map(|mut rule| {
            for pattern in &mut rule.hosts {
                *pattern = if pattern.contains('*') { pattern.to_ascii_lowercase() } else { canonical_host(pattern) };
            }
            Held { current: RwLock::new(Arc::clone(&no_credentials)), rule, state: Mutex::default() }
        });
        let (rules, trust) = (rules.collect(), options.trust);
        let credentials =
            Self { rules, no_credentials, authorities, trust, keeps_those_of_clients: options.keeps_those_of_clients };
        credentials.refresh_with(now, true);
        Ok(credentials)
    }

    /// No credentials for any origin.
    pub fn none(user: &str) -> Self {
        let no_credentials = Arc::new(Credentials::anonymous(user));
        let trust = TrustRules::default();
        Self { rules: Vec::new(), no_credentials, authorities: None, trust, keeps_those_of_clients: false }
    }

    /// Reloads changed files, and renews proxies before they expire. Blocks like [`OriginCredentials::open`].
    pub fn refresh(&self, now: UnixTime) {
        let is_changed = self.authorities.as_ref().is_some_and(ReloadingFile::refresh_and_log);
        self.refresh_with(now, is_changed);
    }

    /// Whether some rule uses the credentials of clients.
    pub fn use_those_of_clients(&self) -> bool {
        self.keeps_those_of_clients || self.rules.iter().any(|held| held.rule.proof == OriginProof::OfClient)
    }

    /// Credentials for origins from a client's token or delegated proxy; `None` without either.
    pub fn of_client(&self, proxy: Option<Arc<Credential>>, token: Option<Token>) -> Option<Arc<Credentials>> {
        if !self.use_those_of_clients() {
            return None;
        }
        // The configuration ensures that all of these rules have the same options.
        let rule = self.rules.iter().map(|held| &held.rule).find(|rule| rule.proof == OriginProof::OfClient);
        let mut credentials = Credentials::of_client();
        if rule.is_some_and(|rule| rule.allows_plain_tokens) {
            credentials = credentials.allowing_plain_tokens_on_loopback();
        }
        if let Some(token) = token {
            credentials = credentials.with_token(token);
        }
        if let Some(proxy) = proxy {
            let settings = self.gsi_settings(&proxy, rule);
            credentials = credentials.with_certificate(settings).ok()?;
        }
        credentials.prove_something().then(|| Arc::new(credentials))
    }

    /// The state of each rule: its hosts, its proof, and its problem, if any.
    pub fn report(&self) -> impl Iterator<Item = (&CredentialRule, Arc<Credentials>, Option<String>)> {
        self.rules.iter().map(|held| (&held.rule, held.current(), held.state().problem.clone()))
    }

    fn refresh_with(&self, now: UnixTime, is_forced: bool) {
        for held in &self.rules {
            held.refresh(now, is_forced, |credential, rule| self.gsi_settings(credential, Some(rule)));
        }
    }

    fn gsi_settings(&self, credential: &Arc<Credential>, rule: Option<&CredentialRule>) -> Arc<GsiClientSettings> {
        let no_credentials = || Arc::new(TrustAnchors::default());
        let anchors =
            self.authorities.as_ref().map_or_else(no_credentials, |watched| Arc::clone(&watched.get().anchors));
        let settings = GsiClientSettings::new(Arc::clone(credential), anchors, self.trust);
        Arc::new(GsiClientSettings {
            allow_weak_groups: rule.is_some_and(|rule| rule.allows_weak_groups),
            allow_unsigned: rule.is_some_and(|rule| rule.allows_unsigned),
            ..settings
        })
    }
}

impl CredentialSource for OriginCredentials {
    fn towards(&self, server: &OriginId) -> CredentialUse {
        // Each open asks, and most caches have no rules: the name of the host is not needed then.
        if self.rules.is_empty() {
            return CredentialUse::Own(Arc::clone(&self.no_credentials));
        }
        let spelled = server.endpoint.host().trim_matches(['[', ']']);
        let host = canonical_host(spelled);
        // A pattern with a wildcard may be for the name as it is spelled.
        match self.rules.iter().find(|held| held.rule.is_for(&host) || held.rule.is_for(spelled)) {
            None => CredentialUse::Own(Arc::clone(&self.no_credentials)),
            Some(held) if held.rule.proof == OriginProof::OfClient => CredentialUse::OfClient,
            Some(held) => CredentialUse::Own(held.current()),
        }
    }
}

impl CredentialRule {
    fn is_for(&self, host: &str) -> bool {
        self.hosts.iter().any(|pattern| glob_matches(pattern.as_bytes(), host.as_bytes()))
    }
}

impl Held {
    fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read())
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Renews the credentials if due.
    fn refresh(
        &self,
        now: UnixTime,
        is_forced: bool,
        settings: impl Fn(&Arc<Credential>, &CredentialRule) -> Arc<GsiClientSettings>,
    ) {
        let mut state = self.state();
        let seen = Fingerprint::of(&self.rule.paths());
        let is_due = state.problem.is_some() || state.made.as_ref().is_none_or(|made| made.is_due(now));
        if !is_forced && !is_due && seen == state.seen {
            return;
        }
        let is_same_source = seen == state.seen && !is_due;
        state.seen = seen;
        let kept = if is_same_source { state.made.take() } else { None };
        let made = kept.map_or_else(|| Made::read(&self.rule, now), Ok);
        let made = made.and_then(|made| {
            let credentials = made.credentials(&self.rule, |credential| settings(credential, &self.rule))?;
            Ok((made, credentials))
        });
        let hosts = self.rule.hosts.join(", ");
        match made {
            Ok((made, credentials)) => {
                if credentials.valid_until().is_some_and(|end| end < now) {
                    tracing::warn!(hosts, "the credential for these origins has expired; they will refuse it");
                }
                state.made = Some(made);
                state.problem = None;
                *self.current.write() = Arc::new(credentials);
            }
            Err(error) => {
                let problem = error.to_string();
                if state.problem.as_ref() != Some(&problem) {
                    tracing::error!(hosts, error = problem, "cannot renew the credential for these origins");
                }
                state.problem = Some(problem);
            }
        }
    }
}

#[cfg(test)]
mod tests;
