//! Signing policies: which names an authority may sign, in the EACL form of `*.signing_policy` files.

use crate::x509::name;

/// Longest file that is read, bytes.
pub const SIGNING_POLICY_LEN_MAX: usize = 64 << 10;

/// Most patterns of a file.
pub const SIGNING_POLICY_PATTERNS_MAX: usize = 1024;

/// Why a file was refused as a signing policy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SigningPolicyError {
    #[error("a signing policy of more than {SIGNING_POLICY_LEN_MAX} bytes or {SIGNING_POLICY_PATTERNS_MAX} names")]
    TooLong,
    #[error("the signing policy is not text")]
    NoText,
    #[error("line {line} of the signing policy: {reason}")]
    Line { line: usize, reason: &'static str },
}

/// Subjects that authorities may sign.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SigningPolicy {
    entries: Vec<Entry>,
}

/// Subjects that one authority may sign.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Entry {
    authority: String,
    may_sign: bool,
    patterns: Vec<String>,
}

impl SigningPolicy {
    /// Reads a file: `access_id_CA X509 'NAME'`, `pos_rights globus CA:sign`, `cond_subjects globus '"PATTERN" "PATTERN"'`,
    /// any number of times. `*` in a pattern stands for any text. Rights that are taken away (`neg_rights`) are not known.
    ///
    /// # Errors
    /// When it is too long, or a line is not understood: half a policy could allow too much.
    pub fn parse(bytes: &[u8]) -> Result<Self, SigningPolicyError> {
        if bytes.len() > SIGNING_POLICY_LEN_MAX {
            return Err(SigningPolicyError::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| SigningPolicyError::NoText)?;
        let mut policy = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                policy.take(line).map_err(|reason| SigningPolicyError::Line { line: number, reason })?;
            }
        }
        let patterns: usize = policy.entries.iter().map(|entry| entry.patterns.len()).sum();
        if patterns > SIGNING_POLICY_PATTERNS_MAX { Err(SigningPolicyError::TooLong) } else { Ok(policy) }
    }

    /// Whether the authority of that name may sign the subject; both in slash form. `None` when the policy does not speak of
    /// the authority.
    #[must_use]
    pub fn allows(&self, authority: &str, subject: &str) -> Option<bool> {
        let (authority, subject) = (name::with_one_spelling(authority), name::with_one_spelling(subject));
        let mut entries = self.entries.iter().filter(|entry| entry.authority == authority).peekable();
        entries.peek()?;
        Some(entries.any(|entry| entry.may_sign && entry.patterns.iter().any(|pattern| matches(pattern, &subject))))
    }

    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let (key, rest) = line.split_once(char::is_whitespace).ok_or("a line with one word only")?;
        let (kind, value) = rest.trim_start().split_once(char::is_whitespace).ok_or("a line with two words only")?;
        let value = value.trim();
        if key == "access_id_CA" {
            if !kind.eq_ignore_ascii_case("x509") {
                return Err("access_id_CA knows X509 only");
            }
            self.entries.push(Entry { authority: name::with_one_spelling(unquoted(value)), ..Entry::default() });
            return Ok(());
        }
        let entry = self.entries.last_mut().ok_or("it belongs after an access_id_CA")?;
        match (key, kind) {
            ("pos_rights", "globus") if value == "CA:sign" => entry.may_sign = true,
            ("pos_rights", _) => return Err("pos_rights knows `globus CA:sign` only"),
            ("cond_subjects", "globus") => entry.patterns.extend(patterns(value)?),
            ("cond_subjects", _) => return Err("cond_subjects knows `globus` only"),
            _ => return Err("an unknown word at its start"),
        }
        Ok(())
    }
}

/// The patterns of `'"ONE" "TWO"'`; quotes of one kind, or none at all, are understood too.
fn patterns(value: &str) -> Result<Vec<String>, &'static str> {
    let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(value);
    if !inner.contains('"') {
        return Ok(vec![name::with_one_spelling(inner)]);
    }
    let parts: Vec<_> = inner.split('"').collect();
    let are_between_blank = parts.iter().step_by(2).all(|part| part.trim().is_empty());
    if parts.len().is_multiple_of(2) || !are_between_blank {
        return Err("quotes that do not pair");
    }
    Ok(parts.into_iter().skip(1).step_by(2).map(name::with_one_spelling).collect())
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['\'', '"'])
}

/// Whether text matches a pattern in which `*` stands for any text. Takes time in proportion to the product of the lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERN: &str = "/DC=ch/DC=cern/CN=CERN Grid Certification Authority";

    #[test]
    fn names_must_match_the_patterns_of_an_authority_that_may_sign() {
        let text = "# EACL\n\
             access_id_CA   X509   '/DC=ch/DC=cern/CN=CERN Grid Certification Authority'\n\
             pos_rights     globus CA:sign\n\
             cond_subjects  globus     '\"/DC=ch/DC=cern/*\" \"/C=CH/O=x/Email=*\"'\n\
             \n\
             access_id_CA X509 '/CN=other'\n\
             cond_subjects globus '\"*\"'\n";
        let policy = SigningPolicy::parse(text.as_bytes()).unwrap();
        for (authority, subject, is_allowed) in [
            (CERN, "/DC=ch/DC=cern/CN=jane", Some(true)),
            (CERN, "/C=CH/O=x/emailAddress=a@b", Some(true)),
            (CERN, "/DC=ch/DC=fnal/CN=jane", Some(false)),
            (CERN, "x/DC=ch/DC=cern/CN=jane", Some(false)),
            ("/CN=other", "/CN=jane", Some(false)),
            ("/CN=unknown", "/CN=jane", None),
        ] {
            assert_eq!(policy.allows(authority, subject), is_allowed, "{authority} {subject}");
        }
    }

    #[test]
    fn stars_match_any_text() {
        for (pattern, text, is_match) in [
            ("/A=*/B=*", "/A=x/B=y", true),
            ("/A=*/B=*", "/A=x", false),
            ("*", "", true),
            ("/A", "/A", true),
            ("/A", "/AB", false),
            ("/A*A", "/A", false),
            ("**x**", "axb", true),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
    }

    #[test]
    fn a_policy_that_is_not_understood_is_refused() {
        for text in [
            "pos_rights globus CA:sign",
            "access_id_CA X509 '/CN=a'\npos_rights globus CA:revoke",
            "access_id_CA X509 '/CN=a'\nneg_rights globus CA:sign",
            "access_id_CA X509 '/CN=a'\ncond_subjects globus '\"/CN=a'",
            "access_id_CA kerberos '/CN=a'",
            "word",
        ] {
            assert!(matches!(SigningPolicy::parse(text.as_bytes()), Err(SigningPolicyError::Line { .. })), "{text}");
        }
        assert_eq!(SigningPolicy::parse(&[0xff]), Err(SigningPolicyError::NoText));
        assert_eq!(SigningPolicy::parse(&vec![b' '; SIGNING_POLICY_LEN_MAX + 1]), Err(SigningPolicyError::TooLong));
    }
}
