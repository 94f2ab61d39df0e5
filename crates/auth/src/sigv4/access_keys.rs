//! Files of access keys, in the format of `~/.aws/credentials`.

use super::{AccessKey, AccessKeyError};
use std::{collections::HashMap, fmt};
use zeroize::Zeroizing;

/// Longest file of the access keys of clients that is read, in bytes.
pub const CLIENT_KEYS_LEN_MAX: usize = 1 << 20;

/// The access keys of clients, by their ids. Cleared from memory when it is dropped.
#[derive(Clone, Default)]
pub struct AccessKeys {
    keys: HashMap<String, ClientKey>,
}

/// The access key of a client, and the identity of its owner.
#[derive(Clone)]
pub struct ClientKey {
    /// The user whose key it is: the name of the profile, unless that has a `user`.
    pub user: String,
    /// Groups of the user, the default one first: `groups` of the profile.
    pub groups: Vec<String>,
    secret: Zeroizing<String>,
}

/// Why a file of access keys was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AccessKeysError {
    #[error("it is longer than {CLIENT_KEYS_LEN_MAX} bytes, or not a text")]
    NotText,
    #[error("it has no access key: write profiles with aws_access_key_id and aws_secret_access_key")]
    Empty,
    #[error("profile [{0}] lacks aws_access_key_id or aws_secret_access_key")]
    Incomplete(String),
    #[error("two profiles have the access key {0}")]
    Twice(String),
}

impl AccessKeys {
    /// Reads the keys of all profiles.
    ///
    /// # Errors
    /// When a profile is incomplete, or the file has none.
    pub fn parse(file: &[u8]) -> Result<Self, AccessKeysError> {
        let text = std::str::from_utf8(file).ok().filter(|text| text.len() <= CLIENT_KEYS_LEN_MAX);
        let mut keys = HashMap::new();
        for profile in Profile::all(text.ok_or(AccessKeysError::NotText)?) {
            let (Some(id), Some(secret)) = (profile.id, profile.secret) else {
                return Err(AccessKeysError::Incomplete(profile.name.to_owned()));
            };
            let key = ClientKey {
                user: profile.user.unwrap_or(profile.name).to_owned(),
                groups: profile.groups.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
                secret: Zeroizing::new(secret.to_owned()),
            };
            if keys.insert(id.to_owned(), key).is_some() {
                return Err(AccessKeysError::Twice(id.to_owned()));
            }
        }
        if keys.is_empty() { Err(AccessKeysError::Empty) } else { Ok(Self { keys }) }
    }

    pub fn get(&self, id: &str) -> Option<&ClientKey> {
        self.keys.get(id)
    }
}

impl ClientKey {
    /// The key with the id under which it was found, for a region.
    pub(super) fn of_region(&self, id: &str, region: &str) -> AccessKey {
        AccessKey::new(id, &self.secret, None, Some(region))
    }
}

impl fmt::Debug for AccessKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AccessKeys({})", self.keys.len())
    }
}

/// One profile of a file. Values are never empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Profile<'a> {
    pub(super) name: &'a str,
    pub(super) id: Option<&'a str>,
    pub(super) secret: Option<&'a str>,
    pub(super) session_token: Option<&'a str>,
    pub(super) region: Option<&'a str>,
    user: Option<&'a str>,
    groups: Option<&'a str>,
}

impl<'a> Profile<'a> {
    /// All profiles of a file, in their order. Lines that are not understood do not count.
    pub(super) fn all(text: &'a str) -> Vec<Self> {
        let mut profiles: Vec<Self> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                profiles.push(Self { name: name.trim(), ..Self::default() });
            } else if let (Some(profile), Some((key, value))) = (profiles.last_mut(), line.split_once('=')) {
                profile.set(key.trim(), Some(value.trim()).filter(|value| !value.is_empty()));
            }
        }
        profiles
    }

    fn set(&mut self, key: &str, value: Option<&'a str>) {
        match key {
            "aws_access_key_id" => self.id = value,
            "aws_secret_access_key" => self.secret = value,
            "aws_session_token" => self.session_token = value,
            "region" => self.region = value,
            "user" => self.user = value,
            "groups" => self.groups = value,
            _ => {}
        }
    }
}

impl AccessKey {
    /// Reads the key of `profile` in the format of `~/.aws/credentials`; `region` takes precedence over that of the profile.
    ///
    /// # Errors
    /// When there is no complete key under that name.
    pub fn parse(file: &[u8], profile: &str, region: Option<&str>) -> Result<Self, AccessKeyError> {
        let text = std::str::from_utf8(file).ok().filter(|text| text.len() <= super::ACCESS_KEYS_LEN_MAX);
        let profiles = Profile::all(text.ok_or(AccessKeyError::NotText)?);
        let found = profiles.into_iter().find(|found| found.name == profile);
        let Some(found) = found else { return Err(AccessKeyError::NoProfile(profile.to_owned())) };
        let (Some(id), Some(secret)) = (found.id, found.secret) else {
            return Err(AccessKeyError::Incomplete(profile.to_owned()));
        };
        Ok(Self::new(id, secret, found.session_token, region.or(found.region)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_clients_belong_to_users_and_groups() {
        let file = b"[ann]\naws_access_key_id = A\naws_secret_access_key=S=\n# comment\n[ann-2]\nuser=ann\n\
            groups = /cms /cms/higgs\naws_access_key_id=B\naws_secret_access_key = T\nregion = r\n";
        let keys = AccessKeys::parse(file).unwrap();
        let key = |id| keys.get(id).map(|key| (key.user.as_str(), key.groups.clone()));
        assert_eq!(key("A"), Some(("ann", vec![])));
        assert_eq!(key("B"), Some(("ann", vec!["/cms".to_owned(), "/cms/higgs".to_owned()])));
        assert_eq!(key("C"), None);
        assert_eq!(format!("{keys:?}"), "AccessKeys(2)");
    }

    #[test]
    fn files_without_usable_keys_are_refused() {
        let refused = |text: &[u8]| AccessKeys::parse(text).unwrap_err();
        assert_eq!(refused(b""), AccessKeysError::Empty);
        assert_eq!(refused(b"[a]\naws_access_key_id = A\n"), AccessKeysError::Incomplete("a".to_owned()));
        let twice =
            "[a]\naws_access_key_id=A\naws_secret_access_key=S\n[b]\naws_access_key_id=A\naws_secret_access_key=T\n";
        assert_eq!(refused(twice.as_bytes()), AccessKeysError::Twice("A".to_owned()));
        assert_eq!(refused(&[0xff]), AccessKeysError::NotText);
        assert_eq!(refused(&vec![b'\n'; CLIENT_KEYS_LEN_MAX + 1]), AccessKeysError::NotText);
    }
}
