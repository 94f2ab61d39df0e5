//! The gate: authentication and authorization of clients.

use crate::{
    attempt::{Attempt, ClientFacts, Proof, Refusal},
    authorities::Authorities,
    files::{read, read_secret},
    issuer_keys::IssuerKeys,
    options::SecurityOptions,
    organizations::Organizations,
    origin_credentials::OriginCredentials,
    reloading_file::{LoadError, ReloadingFile},
};
use forebay_auth::{
    AccessKeys, Credentials, Decision, Identity, Issuers, KeySet, Keytab, Method, Offer, Permitted, Right,
    SecurityProtocol, ShownSignature, SignatureError, SignedRequest, SssParams, SssSeen, Token, TokenError, UnixTime,
    VerifiedTokens, ZtnParams,
    gsi::{GsiServerSettings, SharedHalf},
    write_offers,
    x509::Credential,
};
use forebay_types::Lfn;
use parking_lot::{Mutex, RwLock};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::task::JoinSet;

/// Validity of a message of the protocol `sss` in seconds, as on stock servers.
pub(crate) const SSS_LIFETIME_S: u32 = 13;

/// Files of the gate besides its options.
#[derive(Clone, Debug, Default)]
pub struct GateFiles {
    /// Certificate and key of this host, PEM.
    pub credential: Option<(PathBuf, PathBuf)>,
    /// Directory of the certification authorities.
    pub ca_dir: PathBuf,
    /// Name of this host, for attributes restricted to certain hosts.
    pub host: String,
}

/// Authentication and authorization of clients. Shared by all fronts.
#[derive(Debug)]
pub struct Gate {
    pub(crate) options: SecurityOptions,
    pub(crate) host: String,
    pub(crate) origins: Arc<OriginCredentials>,
    pub(crate) grid: Option<GridFiles>,
    pub(crate) keytab: Option<ReloadingFile<Keytab>>,
    access_keys: Option<ReloadingFile<AccessKeys>>,
    pub(crate) sss_seen: SssSeen,
    issuers: RwLock<Arc<Issuers>>,
    /// Keys of issuers from files.
    key_files: Vec<(String, ReloadingFile<KeySet>)>,
    /// Keys fetched from issuers.
    issuer_keys: Vec<IssuerKeys>,
    /// Recently verified tokens.
    verified: Mutex<VerifiedTokens>,
}

/// Recently verified tokens: one for each job of a large site.
const VERIFIED_MAX: usize = 16_384;

/// The files for client certificates.
#[derive(Debug)]
pub(crate) struct GridFiles {
    credential: ReloadingFile<Arc<Credential>>,
    pub(crate) authorities: ReloadingFile<Authorities>,
    pub(crate) organizations: ReloadingFile<Organizations>,
    half: Arc<SharedHalf>,
}

/// What a client must prove at login.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Demand {
    /// Nothing.
    Nothing,
    /// Its identity, by one of these protocols, as listed on the wire.
    OneOf(String),
}

/// The client's connection allows none of the protocols it may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no authentication method is available on this connection: use TLS (roots://), or ask the administrator")]
pub struct NoWayIn;

impl Gate {
    /// Reads all files named in `options`. Blocks on the disk.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn open(options: SecurityOptions, files: &GateFiles) -> Result<Self, LoadError> {
        let uses = |protocol| options.methods.contains(&protocol);
        let grid = match (&files.credential, uses(SecurityProtocol::Gsi) || uses(SecurityProtocol::Tls)) {
            (Some(credential), true) => Some(GridFiles::open(credential, &files.ca_dir, &options.voms_dir)?),
            (None, true) => {
                return Err("\"gsi\" and \"tls\" need a certificate: set tls.certificate and tls.key".into());
            }
            (_, false) => None,
        };
        let keytab = options.keytab.as_deref().filter(|_| uses(SecurityProtocol::Sss)).map(watch_keytab).transpose()?;
        let access_keys = options.access_keys.as_deref().map(watch_access_keys).transpose()?;
        let mut key_files = Vec::new();
        for (url, path) in &options.key_files {
            key_files.push((url.clone(), watch_keys(path)?));
        }
        let mut issuers = options.issuers.clone();
        let now = UnixTime(forebay_net::clock::now_unix());
        let mut issuer_keys = Vec::new();
        for discovery in &options.discoveries {
            let (opened, keys) = IssuerKeys::open(discovery, options.keys_dir.as_deref(), now)?;
            if let Some(keys) = keys {
                issuers.set_keys(&discovery.url, keys);
            }
            issuer_keys.push(opened);
        }
        let (host, issuers) = (files.host.clone(), RwLock::new(Arc::new(issuers)));
        let gate =
            Self { options, host, grid, keytab, access_keys, issuers, key_files, issuer_keys, ..Self::wide_open() };
        gate.take_keys();
        Ok(gate)
    }

    /// A gate without authentication and authorization: everything is allowed.
    pub fn wide_open() -> Self {
        Self {
            options: SecurityOptions::default(),
            host: String::new(),
            origins: Arc::new(OriginCredentials::none("")),
            grid: None,
            keytab: None,
            access_keys: None,
            sss_seen: SssSeen::default(),
            issuers: RwLock::default(),
            key_files: Vec::new(),
            issuer_keys: Vec::new(),
            verified: Mutex::new(VerifiedTokens::new(VERIFIED_MAX)),
        }
    }

    /// Lets clients delegate the credentials that `origins` may use in their name.
    pub fn delegating_to(mut self, origins: Arc<OriginCredentials>) -> Self {
        self.origins = origins;
        self
    }

    /// Whether credentials of clients are used towards origins.
    pub fn uses_client_credentials(&self) -> bool {
        self.origins.use_those_of_clients()
    }

    /// Credentials for origins of a client with a token.
    #[must_use]
    pub fn credentials_of_bearer(&self, token: Token) -> Option<Arc<Credentials>> {
        self.origins.of_client(None, Some(token))
    }

    pub const fn options(&self) -> &SecurityOptions {
        &self.options
    }

    /// Reloads changed files, and drops expired GSI keys. Blocks on the disk.
    pub fn refresh(&self) {
        if let Some(grid) = &self.grid {
            grid.credential.refresh_and_log();
            grid.authorities.refresh_and_log();
            grid.organizations.refresh_and_log();
            grid.half.forget_old(UnixTime(forebay_net::clock::now_unix()));
        }
        if let Some(keytab) = &self.keytab {
            keytab.refresh_and_log();
        }
        if let Some(access_keys) = &self.access_keys {
            access_keys.refresh_and_log();
        }
        let mut has_changed = false;
        for (_, keys) in &self.key_files {
            has_changed |= keys.refresh_and_log();
        }
        if has_changed {
            self.take_keys();
        }
    }

    /// Assigns the keys in files to their issuers.
    fn take_keys(&self) {
        for (url, keys) in &self.key_files {
            self.set_keys(url, keys.get().as_ref().clone());
        }
    }

    /// Replaces the keys of an issuer; tokens verified with the old ones are forgotten.
    fn set_keys(&self, url: &str, keys: KeySet) {
        {
            let mut current = self.issuers.write();
            let mut issuers = current.as_ref().clone();
            issuers.set_keys(url, keys);
            *current = Arc::new(issuers);
        }
        self.verified.lock().clear();
    }

    /// Keeps fetched keys of issuers current, as long as it is polled. Runs inside a tokio runtime.
    pub async fn keep_keys_current(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for number in 0..self.issuer_keys.len() {
            let gate = Arc::clone(&self);
            tasks.spawn(async move {
                if let Some(issuer) = gate.issuer_keys.get(number) {
                    issuer.keep_current(|keys| gate.set_keys(&issuer.url, keys)).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "internal error: the keys of a token issuer are no longer fetched");
            }
        }
    }

    pub(crate) fn issuers(&self) -> Arc<Issuers> {
        Arc::clone(&self.issuers.read())
    }

    /// What a client must prove at login.
    ///
    /// # Errors
    /// If no protocol it may use is available on its connection.
    pub fn demand(&self, client: &ClientFacts) -> Result<Demand, NoWayIn> {
        if self.options.methods.is_empty() {
            return Ok(Demand::Nothing);
        }
        let Permitted::Only(protocols) = self.permitted(client) else { return Ok(Demand::Nothing) };
        let offers: Vec<_> = protocols.into_iter().filter_map(|protocol| self.offer(protocol)).collect();
        match write_offers(&offers) {
            Ok(list) if !list.is_empty() => Ok(Demand::OneOf(list)),
            _ => Err(NoWayIn),
        }
    }

    /// Whether tokens in requests of this client count: with rules, if it may log in by them. Without rules they are for the
    /// origin to judge.
    pub fn permits_tokens(&self, client: SocketAddr) -> bool {
        let permitted = || self.options.bindings.permitted(&client.ip().to_string(), None, &self.options.methods, true);
        !self.has_rules()
            || matches!(permitted(), Permitted::Only(protocols) if protocols.contains(&SecurityProtocol::Ztn))
    }

    /// Whether this client may log in by a token on its connection.
    pub fn permits_token_logins(&self, client: &ClientFacts) -> bool {
        matches!(self.permitted(client), Permitted::Only(protocols) if protocols.contains(&SecurityProtocol::Ztn))
    }

    /// The protocols available to the client on its connection.
    pub(crate) fn permitted(&self, client: &ClientFacts) -> Permitted {
        let address = client.address.ip().to_string();
        let is_safe = client.is_tls || self.takes_plain_tokens(client);
        self.options.bindings.permitted(&address, None, &self.options.methods, is_safe)
    }

    fn offer(&self, protocol: SecurityProtocol) -> Option<Offer> {
        let params = match protocol {
            SecurityProtocol::Gsi => self.gsi_settings()?.offer(),
            SecurityProtocol::Ztn => ZtnParams::default().to_text(),
            SecurityProtocol::Sss => {
                SssParams { is_v2: true, lifetime_seconds: SSS_LIFETIME_S, keytab: String::new() }.to_text()
            }
            SecurityProtocol::Unix | SecurityProtocol::Host => String::new(),
            SecurityProtocol::Tls => return None,
        };
        Some(Offer { protocol, params })
    }

    /// The settings for new GSI handshakes.
    pub(crate) fn gsi_settings(&self) -> Option<Arc<GsiServerSettings>> {
        let grid = self.grid.as_ref()?;
        Some(Arc::new(GsiServerSettings {
            credential: Arc::clone(&grid.credential.get()),
            trust: Arc::clone(&grid.authorities.get().anchors),
            rules: self.options.trust,
            allow_unsigned: self.options.allows_unsigned_gsi,
            asks_delegation: self.options.takes_delegations && self.uses_client_credentials(),
            half: Arc::clone(&grid.half),
        }))
    }

    pub(crate) fn takes_plain_tokens(&self, client: &ClientFacts) -> bool {
        self.options.takes_plain_tokens_on_loopback && client.address.ip().is_loopback()
    }

    /// Starts the authentication of a client with `protocol`.
    ///
    /// # Errors
    /// If it may not use that protocol.
    pub fn begin(self: &Arc<Self>, protocol: SecurityProtocol, client: &ClientFacts) -> Result<Attempt, Refusal> {
        let is_permitted = matches!(self.permitted(client), Permitted::Only(these) if these.contains(&protocol));
        if !is_permitted {
            return Err(Refusal::new(protocol, "this client may not use it"));
        }
        Attempt::new(self, protocol, client)
    }

    /// The identity of a client without authentication.
    #[must_use]
    pub fn anonymous_identity(client: &ClientFacts) -> Proof {
        let host = client.address.ip().to_string();
        let user = Some(client.login.clone()).filter(|login| !login.is_empty());
        Proof::of(Identity { user, ..Identity::anonymous(&host) })
    }

    /// The identity of the bearer of `token`, which came with a request.
    ///
    /// # Errors
    /// Why the token is refused.
    pub fn bearer(&self, token: &Token, client: &ClientFacts, now: UnixTime) -> Result<Identity, Refusal> {
        self.require_secure_transport(client)?;
        let verified = self.verify_token(token, client, now).inspect_err(|error| {
            if let Some(keys) = self.missing_keys(token, error) {
                keys.want(now);
            }
        });
        verified.map_err(|error| Refusal::new(SecurityProtocol::Ztn, error))
    }

    /// Like [`Self::bearer`], for a token used as a login: a missing key is awaited for at most some seconds. Blocks.
    ///
    /// # Errors
    /// As for [`Self::bearer`].
    pub fn bearer_at_login(&self, token: &Token, client: &ClientFacts, now: UnixTime) -> Result<Identity, Refusal> {
        self.require_secure_transport(client)?;
        let verified = self.verify_token(token, client, now).or_else(|error| match self.missing_keys(token, &error) {
            Some(keys) => {
                keys.want_and_wait(now);
                self.verify_token(token, client, now)
            }
            None => Err(error),
        });
        verified.map_err(|error| Refusal::new(SecurityProtocol::Ztn, error))
    }

    /// The identity of the client that has signed a request of S3, and the id of its key; `None` if the request is not signed.
    ///
    /// # Errors
    /// If the signature is refused.
    pub fn signer(
        &self,
        request: &SignedRequest<'_>,
        client: &ClientFacts,
        now: UnixTime,
    ) -> Result<Option<(String, Identity)>, SignatureError> {
        let Some(shown) = ShownSignature::of(request)? else { return Ok(None) };
        let keys = self.access_keys.as_ref().ok_or(SignatureError::UnknownKey)?.get();
        let key = keys.get(&shown.key_id).ok_or(SignatureError::UnknownKey)?;
        shown.check(key, request, now)?;
        let host = client.address.ip().to_string();
        let (user, groups) = (Some(key.user.clone()), key.groups.clone());
        Ok(Some((shown.key_id, Identity { user, groups, ..Identity::of(Method::AccessKey, &host) })))
    }

    /// Refuses tokens sent over an insecure connection.
    ///
    /// # Errors
    /// If the connection is insecure.
    pub fn require_secure_transport(&self, client: &ClientFacts) -> Result<(), Refusal> {
        if client.is_tls || self.takes_plain_tokens(client) {
            return Ok(());
        }
        Err(Refusal::new(SecurityProtocol::Ztn, "tokens are accepted over TLS only: use roots://"))
    }

    fn verify_token(&self, token: &Token, client: &ClientFacts, now: UnixTime) -> Result<Identity, TokenError> {
        let host = client.address.ip().to_string();
        let known = self.verified.lock().get(token, now);
        if let Some(identity) = known {
            return Ok(Identity { host, ..identity.as_ref().clone() });
        }
        let identity = self.issuers().verify(token, &host, now)?;
        self.verified.lock().insert(token, Arc::new(identity.clone()), now);
        Ok(identity)
    }

    /// The fetched keys of the issuer, if a token refused with `error` may need a newer key.
    fn missing_keys(&self, token: &Token, error: &TokenError) -> Option<&IssuerKeys> {
        error.asks_for_keys()?;
        let issuers = self.issuers();
        let issuer = issuers.issuer_of(token)?;
        self.issuer_keys.iter().find(|keys| keys.url == issuer.url)
    }

    pub const fn has_rules(&self) -> bool {
        self.options.grants.is_some()
    }

    /// The decision of the rules; `None` without rules: everything is allowed.
    #[must_use]
    pub fn decide(&self, identity: &Identity, path: &Lfn, right: Right, now: UnixTime) -> Option<Decision<'_>> {
        self.options.grants.as_ref().map(|grants| grants.decide(identity, path, right, now))
    }
}

impl GridFiles {
    fn open(credential: &(PathBuf, PathBuf), ca_dir: &Path, voms_dir: &Path) -> Result<Self, LoadError> {
        let (certificate, key) = credential.clone();
        let credential = ReloadingFile::read(vec![certificate.clone(), key.clone()], move || {
            Ok(Arc::new(Credential::from_pem(&read(&certificate)?, &read_secret(&key, true)?)?))
        })?;
        let authorities = Authorities::watch(ca_dir)?;
        let organizations = Organizations::watch(voms_dir)?;
        Ok(Self { credential, authorities, organizations, half: Arc::default() })
    }
}

fn watch_keytab(path: &Path) -> Result<ReloadingFile<Keytab>, LoadError> {
    let file = path.to_owned();
    ReloadingFile::read(vec![path.to_owned()], move || Ok(Keytab::parse(&read_secret(&file, true)?)?))
}

fn watch_access_keys(path: &Path) -> Result<ReloadingFile<AccessKeys>, LoadError> {
    let file = path.to_owned();
    ReloadingFile::read(vec![path.to_owned()], move || {
        let named = |error| format!("{}: {error}", file.display());
        Ok(AccessKeys::parse(&read_secret(&file, true)?).map_err(named)?)
    })
}

fn watch_keys(path: &Path) -> Result<ReloadingFile<KeySet>, LoadError> {
    let file = path.to_owned();
    ReloadingFile::read(vec![path.to_owned()], move || Ok(KeySet::parse(&read(&file)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_auth::{Binding, Bindings, Grants};

    #[test]
    fn tokens_of_requests_count_where_clients_may_log_in_by_them() {
        let (unix, ztn) = (SecurityProtocol::Unix, SecurityProtocol::Ztn);
        for (methods, bound, is_permitted) in [
            (vec![ztn], None, true),
            (vec![unix, ztn], None, true),
            (vec![unix], None, false),
            (vec![], None, false),
            (vec![unix, ztn], Some(vec![ztn]), true),
            (vec![unix, ztn], Some(vec![unix]), false),
            (vec![unix, ztn], Some(vec![]), false),
        ] {
            let case = format!("{methods:?} {bound:?}");
            let bound = bound.map(|protocols| Binding { hosts: "10.*".to_owned(), protocols });
            let options = SecurityOptions {
                methods,
                bindings: Bindings::new(bound.into_iter().collect()).unwrap(),
                grants: Some(Grants::new(Vec::new()).unwrap()),
                ..SecurityOptions::default()
            };
            let gate = Gate { options, ..Gate::wide_open() };
            assert_eq!(gate.permits_tokens("10.1.2.3:4".parse().unwrap()), is_permitted, "{case}");
        }
        assert!(Gate::wide_open().permits_tokens("10.1.2.3:4".parse().unwrap()), "they are for the origin");
    }
}
