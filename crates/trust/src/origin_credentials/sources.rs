//! Sources of credentials: proxies, certificates, tokens and keytabs in files.

use super::{CredentialRule, OriginProof};
use crate::{
    files::{read, read_secret},
    reloading_file::LoadError,
};
use forebay_auth::{
    AccessKey, Credentials, Keytab, SssKey, Token, UnixTime,
    gsi::GsiClientSettings,
    x509::{Credential, make_proxy},
};
use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Lifetime of created proxies in seconds.
const PROXY_LIFETIME_S: i64 = 12 * 3600;

/// A proxy is renewed this many seconds before it expires.
const RENEW_AHEAD_S: i64 = 6 * 3600;

#[derive(Debug)]
pub(super) enum Made {
    Nothing,
    Proxy(Arc<Credential>),
    /// A created proxy, to be renewed at this time.
    OwnProxy(Arc<Credential>, UnixTime),
    Token(Token),
    Secret(SssKey),
    AccessKey(AccessKey),
}

impl Made {
    /// Reads or creates the credential of a rule.
    pub(super) fn read(rule: &CredentialRule, now: UnixTime) -> Result<Self, LoadError> {
        Ok(match &rule.proof {
            OriginProof::Nothing | OriginProof::OfClient => Self::Nothing,
            OriginProof::Proxy(file) => {
                let file = file.clone().unwrap_or_else(users_proxy);
                let pem = read_secret(&file, false)?;
                let credential = Credential::from_pem(&pem, &pem);
                Self::Proxy(Arc::new(credential.map_err(|error| format!("{}: {error}", file.display()))?))
            }
            OriginProof::Certificate { certificate, key } => {
                let credential = Credential::from_pem(&read(certificate)?, &read_secret(key, true)?);
                let credential = credential.map_err(|error| format!("{}: {error}", certificate.display()))?;
                let proxy = make_proxy(&credential, PROXY_LIFETIME_S, now)?;
                // A certificate that expires soon yields short proxies: do not create one at each refresh.
                let soon = now.plus(60);
                let renewed_at = proxy.valid_until().plus(-RENEW_AHEAD_S).max(soon);
                Self::OwnProxy(Arc::new(proxy), renewed_at)
            }
            OriginProof::Token(file) => Self::Token(read_token(file.as_deref())?),
            OriginProof::AccessKey { file, profile, region } => {
                Self::AccessKey(read_access_key(file.as_deref(), profile.as_deref(), region.as_deref())?)
            }
            OriginProof::Secret { keytab, key } => {
                let secrets = Keytab::parse(&read_secret(keytab, true)?);
                let secrets = secrets.map_err(|error| format!("{}: {error}", keytab.display()))?;
                let missing = || {
                    let name = key.as_deref().map_or_else(String::new, |name| format!(" named {name}"));
                    format!("{} contains no valid key{name}", keytab.display())
                };
                Self::Secret(secrets.current(key.as_deref(), now).cloned().ok_or_else(missing)?)
            }
        })
    }

    /// Whether it must be renewed although no file has changed.
    pub(super) fn is_due(&self, now: UnixTime) -> bool {
        match self {
            Self::OwnProxy(_, renewed_at) => now >= *renewed_at,
            Self::Secret(key) => key.is_expired(now),
            Self::Nothing | Self::Proxy(_) | Self::Token(_) | Self::AccessKey(_) => false,
        }
    }

    pub(super) fn credentials(
        &self,
        rule: &CredentialRule,
        settings: impl Fn(&Arc<Credential>) -> Arc<GsiClientSettings>,
    ) -> Result<Credentials, LoadError> {
        let mut credentials = Credentials::anonymous(&rule.user);
        if rule.allows_plain_tokens {
            credentials = credentials.allowing_plain_tokens_on_loopback();
        }
        Ok(match self {
            Self::Nothing => credentials,
            Self::Proxy(credential) | Self::OwnProxy(credential, _) => {
                credentials.with_certificate(settings(credential))?
            }
            Self::Token(token) => credentials.with_token(token.clone()),
            Self::Secret(key) => credentials.with_secret(key.clone()),
            Self::AccessKey(key) => credentials.with_access_key(key.clone()),
        })
    }
}

impl CredentialRule {
    /// The files to check for changes.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        match &self.proof {
            OriginProof::Nothing | OriginProof::OfClient => Vec::new(),
            OriginProof::Proxy(file) => vec![file.clone().unwrap_or_else(users_proxy)],
            OriginProof::Certificate { certificate, key } => vec![certificate.clone(), key.clone()],
            OriginProof::Token(Some(file)) => vec![file.clone()],
            OriginProof::Token(None) => token_files(),
            OriginProof::Secret { keytab, .. } => vec![keytab.clone()],
            OriginProof::AccessKey { file, .. } => vec![file.clone().unwrap_or_else(users_access_keys)],
        }
    }
}

/// The user's proxy in the usual place of grid tools.
pub(super) fn users_proxy() -> PathBuf {
    named_by("X509_USER_PROXY").unwrap_or_else(|| PathBuf::from(format!("/tmp/x509up_u{}", user_id())))
}

/// Reads a token from its file, or by WLCG Bearer Token Discovery 1.0: `BEARER_TOKEN`, the file that
/// `BEARER_TOKEN_FILE` names, `$XDG_RUNTIME_DIR/bt_uUID`, `/tmp/bt_uUID`.
pub(super) fn read_token(file: Option<&Path>) -> Result<Token, LoadError> {
    let parse = |path: &Path| {
        let token = Token::parse(&read_secret(path, true)?);
        token.map_err(|error| LoadError::from(format!("{}: {error}", path.display())))
    };
    if let Some(file) = file {
        return parse(file);
    }
    if let Some(token) = env::var("BEARER_TOKEN").ok().filter(|token| !token.trim().is_empty()) {
        return Ok(Token::parse(token.as_bytes()).map_err(|error| format!("BEARER_TOKEN: {error}"))?);
    }
    let files = token_files();
    let found = files.iter().find(|file| file.exists()).ok_or_else(|| {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        format!("no token found: BEARER_TOKEN is not set, and none of these files exists: {}", files.join(", "))
    })?;
    parse(found)
}

/// Reads an access key from `file`, or as clients of S3 do: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the file of the user.
pub(super) fn read_access_key(
    file: Option<&Path>,
    profile: Option<&str>,
    region: Option<&str>,
) -> Result<AccessKey, LoadError> {
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let own_region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.or(own_region.as_deref());
    if file.is_none()
        && profile.is_none()
        && let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
    {
        return Ok(AccessKey::new(&id, &secret, variable("AWS_SESSION_TOKEN").as_deref(), region));
    }
    let file = file.map_or_else(users_access_keys, Path::to_owned);
    let profile = profile.map(str::to_owned).or_else(|| variable("AWS_PROFILE"));
    let key = AccessKey::parse(&read_secret(&file, true)?, profile.as_deref().unwrap_or("default"), region);
    Ok(key.map_err(|error| format!("{}: {error}", file.display()))?)
}

/// The file of access keys in the usual place of clients of S3.
fn users_access_keys() -> PathBuf {
    let home = || named_by("HOME").unwrap_or_default().join(".aws/credentials");
    named_by("AWS_SHARED_CREDENTIALS_FILE").unwrap_or_else(home)
}

/// Whether there is an access key in the usual places of clients of S3.
pub(super) fn access_key_is_there() -> bool {
    named_by("AWS_ACCESS_KEY_ID").is_some() || users_access_keys().exists()
}

/// Whether token discovery finds a token.
pub(super) fn token_is_there() -> bool {
    named_by("BEARER_TOKEN").is_some() || token_files().iter().any(|file| file.exists())
}

fn token_files() -> Vec<PathBuf> {
    if let Some(file) = named_by("BEARER_TOKEN_FILE") {
        return vec![file];
    }
    let name = format!("bt_u{}", user_id());
    named_by("XDG_RUNTIME_DIR")
        .into_iter()
        .chain([PathBuf::from("/tmp")])
        .map(|directory| directory.join(&name))
        .collect()
}

fn named_by(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}
