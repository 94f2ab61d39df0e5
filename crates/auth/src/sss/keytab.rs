//! Keytabs as `xrdsssadmin` writes them: a line for each key.

use super::cipher::{KEY_LEN_MAX, KEY_LEN_MIN};
use crate::UnixTime;
use std::fmt;
use zeroize::Zeroizing;

/// Longest keytab that is read, bytes.
pub const KEYTAB_LEN_MAX: usize = 256 << 10;

/// Most keys of a keytab.
pub const SSS_KEYS_MAX: usize = 1024;

/// Longest names in bytes: of keys (with a trailing NUL), users and groups.
pub(super) const NAME_LEN_MAX: usize = 192;
const USER_LEN_MAX: usize = 128;
const GROUP_LEN_MAX: usize = 64;

/// The keys of a keytab, as they stand there. Cleared from memory when it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Keytab {
    keys: Vec<SssKey>,
}

/// A key, and on whose behalf its holders speak.
#[derive(Clone)]
pub struct SssKey {
    /// Number that messages name the key by.
    pub id: i64,
    /// Name; with a `+` at its end, messages may come from any address.
    pub name: String,
    /// The user that all holders are, or `anybody` or `allusers` when they say who they are.
    pub user: String,
    /// The group that all holders are in, `anygroup` when they say, `usrgroup` for that of the user.
    pub group: String,
    /// When it was made.
    pub created_at: UnixTime,
    /// From when on it is not accepted any more.
    pub expires_at: Option<UnixTime>,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

/// Why a keytab was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeytabError {
    #[error("the keytab has {len} bytes, at most {KEYTAB_LEN_MAX} are read")]
    TooLong { len: usize },
    #[error("the keytab holds more than {SSS_KEYS_MAX} keys")]
    TooMany,
    #[error("the keytab holds no key: make one with `xrdsssadmin add`")]
    Empty,
    #[error("line {line} of the keytab: {problem}")]
    Line { line: usize, problem: KeytabProblem },
}

/// The fault of a line of a keytab.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeytabProblem {
    #[error("it is not text")]
    NotText,
    #[error("formats 0 and 1 are known, and it begins with neither")]
    Format,
    #[error("`{0}:` is followed by no number")]
    Number(char),
    #[error("what follows `{0}:` is too long")]
    TooLong(char),
    #[error("it needs `N:` with the key's number and `k:` with the key")]
    Missing,
    #[error("the key must be {KEY_LEN_MIN} to {KEY_LEN_MAX} bytes in hexadecimal (`xrdsssadmin -l 32 add`)")]
    Key,
}

impl Keytab {
    /// Reads a keytab.
    ///
    /// # Errors
    /// The first malformed line, without its content.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeytabError> {
        if bytes.len() > KEYTAB_LEN_MAX {
            return Err(KeytabError::TooLong { len: bytes.len() });
        }
        let mut keys = Vec::new();
        for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            if keys.len() == SSS_KEYS_MAX {
                return Err(KeytabError::TooMany);
            }
            keys.push(SssKey::parse(line).map_err(|problem| KeytabError::Line { line: number, problem })?);
        }
        if keys.is_empty() { Err(KeytabError::Empty) } else { Ok(Self { keys }) }
    }

    /// The keys, in the order of their lines.
    pub fn keys(&self) -> &[SssKey] {
        &self.keys
    }

    /// The key that a client uses at `now`: the newest that has not expired, of the given name if there is one.
    #[must_use]
    pub fn current(&self, name: Option<&str>, now: UnixTime) -> Option<&SssKey> {
        let is_ours = |key: &&SssKey| !key.is_expired(now) && name.is_none_or(|name| key.name == name);
        self.keys.iter().filter(is_ours).max_by_key(|key| key.created_at)
    }

    /// The key that a message names: by number and, when it gives a name and several have the number, by that.
    pub(super) fn named(&self, id: i64, name: Option<&str>, now: UnixTime) -> Option<&SssKey> {
        let candidates = || self.keys.iter().filter(|key| key.id == id && !key.is_expired(now));
        candidates().find(|key| name == Some(key.name.as_str())).or_else(|| candidates().next())
    }
}

impl SssKey {
    fn parse(line: &[u8]) -> Result<Self, KeytabProblem> {
        let line = std::str::from_utf8(line).map_err(|_| KeytabProblem::NotText)?;
        let mut words = line.split_ascii_whitespace();
        if !matches!(words.next(), Some("0" | "1")) {
            return Err(KeytabProblem::Format);
        }
        let mut key = Self {
            id: 0,
            name: "nowhere".to_owned(),
            user: "nobody".to_owned(),
            group: "nogroup".to_owned(),
            created_at: UnixTime(0),
            expires_at: None,
            secret: Zeroizing::default(),
        };
        let mut has_id = false;
        for (tag, value) in words.filter_map(|word| word.split_once(':')) {
            let number = |tag| value.parse::<i64>().map_err(|_| KeytabProblem::Number(tag));
            match tag {
                "n" => key.name = text(value, 'n', NAME_LEN_MAX - 1)?,
                "u" => key.user = text(value, 'u', USER_LEN_MAX)?,
                "g" => key.group = text(value, 'g', GROUP_LEN_MAX)?,
                "N" => (key.id, has_id) = (number('N')?, true),
                "c" => key.created_at = UnixTime(number('c')?),
                "e" => key.expires_at = Some(number('e')?).filter(|&end| end != 0).map(UnixTime),
                "k" => key.secret = secret(value).ok_or(KeytabProblem::Key)?,
                _ => {}
            }
        }
        if !has_id || key.secret.is_empty() {
            return Err(KeytabProblem::Missing);
        }
        Ok(key)
    }

    /// Whether the key is not accepted any more at `now`.
    #[must_use]
    pub fn is_expired(&self, now: UnixTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether its holders say themselves who they are.
    pub(super) fn lets_name_users(&self) -> bool {
        matches!(self.user.as_str(), "anybody" | "allusers")
    }

    /// Whether messages may come from any address.
    pub(super) fn lets_come_from_anywhere(&self) -> bool {
        self.name.ends_with('+')
    }
}

impl fmt::Debug for SssKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SssKey({} {:?} for {:?} in {:?})", self.id, self.name, self.user, self.group)
    }
}

fn text(value: &str, tag: char, len_max: usize) -> Result<String, KeytabProblem> {
    if value.len() > len_max { Err(KeytabProblem::TooLong(tag)) } else { Ok(value.to_owned()) }
}

fn secret(hex: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = hex.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    if !digits.len().is_multiple_of(2) || !(KEY_LEN_MIN..=KEY_LEN_MAX).contains(&(digits.len() / 2)) {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_LEN_MAX));
    for pair in digits.chunks_exact(2) {
        let [high, low] = pair else { return None };
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that `xrdsssadmin -k testkey -u jane -g atlas add` of XRootD 5.5.3 wrote.
    const LINE: &str = "0 u:jane g:atlas n:testkey N:7710874753535311873 c:1795327932 e:0 f:0 \
                        k:c5b9564a2286e34f85c2b678535902e36605827aadd540f3491157f1dfb3c58f";

    fn problem(line: &str) -> KeytabProblem {
        match Keytab::parse(format!("\n{line}\n").as_bytes()).unwrap_err() {
            KeytabError::Line { line: 2, problem } => problem,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn lines_of_the_stock_tool_are_read_and_missing_names_have_its_defaults() {
        let keytab = Keytab::parse(LINE.as_bytes()).unwrap();
        let key = &keytab.keys()[0];
        assert_eq!((key.id, key.name.as_str()), (7_710_874_753_535_311_873, "testkey"));
        assert_eq!((key.user.as_str(), key.group.as_str(), key.expires_at), ("jane", "atlas", None));
        assert_eq!((key.secret.len(), key.secret[0], key.secret[31]), (32, 0xc5, 0x8f));
        assert_eq!(format!("{keytab:?}").matches("c5b9").count(), 0);
        let key = &Keytab::parse(b"1 N:1 k:00112233").unwrap().keys()[0].clone();
        assert_eq!((key.user.as_str(), key.group.as_str(), key.name.as_str()), ("nobody", "nogroup", "nowhere"));
    }

    #[test]
    fn clients_use_the_newest_key_that_is_valid() {
        let keytab = Keytab::parse(
            b"0 n:a N:1 c:10 e:0 k:00112233\n0 n:a N:2 c:30 e:100 k:00112233\n0 n:b N:3 c:20 e:0 k:00112233\n",
        )
        .unwrap();
        let id = |name, now| keytab.current(name, UnixTime(now)).map(|key| key.id);
        assert_eq!((id(None, 99), id(None, 100)), (Some(2), Some(3)));
        assert_eq!((id(Some("a"), 100), id(Some("c"), 0)), (Some(1), None));
    }

    #[test]
    fn lines_that_cannot_be_understood_are_named() {
        assert_eq!(problem("2 N:1 k:00112233"), KeytabProblem::Format);
        assert_eq!(problem("0 N:x k:00112233"), KeytabProblem::Number('N'));
        assert_eq!(problem("0 N:1 e:x k:00112233"), KeytabProblem::Number('e'));
        assert_eq!(problem("0 N:1"), KeytabProblem::Missing);
        assert_eq!(problem("0 k:00112233"), KeytabProblem::Missing);
        for key in ["001122", "0011223", "0011223g", &"00".repeat(KEY_LEN_MAX + 1)] {
            assert_eq!(problem(&format!("0 N:1 k:{key}")), KeytabProblem::Key);
        }
        assert_eq!(problem(&format!("0 N:1 u:{} k:00112233", "u".repeat(129))), KeytabProblem::TooLong('u'));
        assert_eq!(Keytab::parse(b"\n \n").unwrap_err(), KeytabError::Empty);
        let too_many = "0 N:1 k:00112233\n".repeat(SSS_KEYS_MAX + 1);
        assert_eq!(Keytab::parse(too_many.as_bytes()).unwrap_err(), KeytabError::TooMany);
        let too_long = vec![b'\n'; KEYTAB_LEN_MAX + 1];
        assert_eq!(Keytab::parse(&too_long).unwrap_err(), KeytabError::TooLong { len: KEYTAB_LEN_MAX + 1 });
    }
}
