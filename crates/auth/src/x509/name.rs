//! Distinguished names: their text in slash form, how they compare, and the file names made of their hashes.

use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::nid::Nid;
use openssl::x509::{X509Name, X509NameRef};
use std::cmp::Ordering;
use std::fmt::Write;

/// Longest name that is read, bytes of its text.
pub const NAME_LEN_MAX: usize = 4096;

/// Why a name cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    #[error("a distinguished name of more than {NAME_LEN_MAX} bytes")]
    TooLong,
    #[error("the distinguished name {0:?} has a value that reads as several")]
    Ambiguous(String),
    #[error("an empty distinguished name")]
    Empty,
    #[error("a distinguished name that cannot be read")]
    Library(#[from] ErrorStack),
}

/// The name in slash form, `/DC=ch/DC=cern/CN=Jane Doe`, as OpenSSL and all grid software write it: bytes that are not
/// printable ASCII as `\xHH`.
///
/// # Errors
/// When it is empty or too long, or when its text would read as another name.
pub fn slash_form(name: &X509NameRef) -> Result<String, NameError> {
    let mut text = String::new();
    for entry in name.entries() {
        let object = entry.object();
        let value_start = match object.nid() {
            Nid::UNDEF => write!(text, "/{object}="),
            nid => write!(text, "/{}=", nid.short_name()?),
        };
        value_start.expect("writing to memory does not fail");
        let value_at = text.len();
        for &byte in entry.data().as_slice() {
            if (b' '..=b'~').contains(&byte) {
                text.push(char::from(byte));
            } else {
                write!(text, "\\x{byte:02X}").expect("writing to memory does not fail");
            }
            if text.len() > NAME_LEN_MAX {
                return Err(NameError::TooLong);
            }
        }
        if text.get(value_at..).is_none_or(reads_as_several) {
            return Err(NameError::Ambiguous(text));
        }
    }
    if text.is_empty() { Err(NameError::Empty) } else { Ok(text) }
}

/// Whether two names are the same to X.509: case and spaces of printable text do not count.
#[must_use]
pub fn is_same(one: &X509NameRef, other: &X509NameRef) -> bool {
    one.try_cmp(other).is_ok_and(Ordering::is_eq)
}

/// Whether `subject` is `issuer` followed by exactly one common name, as a proxy's name must be.
pub(crate) fn is_one_common_name_below(subject: &X509NameRef, issuer: &X509NameRef) -> Result<bool, ErrorStack> {
    let Some(last) = subject.entries().last().filter(|entry| entry.object().nid() == Nid::COMMONNAME) else {
        return Ok(false);
    };
    let mut expected = X509Name::builder()?;
    for entry in issuer.entries() {
        expected.append_entry(entry)?;
    }
    expected.append_entry(last)?;
    Ok(is_same(subject, &expected.build()))
}

/// The value of the last common name, if it is the last part of the name.
pub(crate) fn last_common_name(name: &X509NameRef) -> Option<&[u8]> {
    let last = name.entries().last()?;
    (last.object().nid() == Nid::COMMONNAME).then(|| last.data().as_slice())
}

/// The MD5 hash of a name, of which versions of OpenSSL before 1.0 made the names of files. `None` where the library has no MD5.
pub(crate) fn old_hash(name: &X509NameRef) -> Option<u32> {
    let digest = hash(MessageDigest::md5(), &name.to_der().ok()?).ok()?;
    Some(u32::from_le_bytes(*digest.first_chunk()?))
}

/// Text in which the spellings that OpenSSL, Globus and Java give to one attribute are one: for comparing names that
/// people wrote into files.
pub(crate) fn with_one_spelling(text: &str) -> String {
    let mut out = text.trim().to_owned();
    for (spelling, ours) in [("/Email=", "/emailAddress="), ("/E=", "/emailAddress="), ("/USERID=", "/UID=")] {
        out = out.replace(spelling, ours);
    }
    out
}

/// Whether a value holds a slash, a name and an equals sign in this order.
fn reads_as_several(value: &str) -> bool {
    value.split('/').skip(1).any(|part| {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        part.split_once('=').is_some_and(|(name, _)| is_name(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::x509::X509NameBuilder;

    fn name(parts: &[(&str, &str)]) -> X509Name {
        let mut builder = X509NameBuilder::new().unwrap();
        for (field, value) in parts {
            builder.append_entry_by_text(field, value).unwrap();
        }
        builder.build()
    }

    #[test]
    fn slash_form_is_that_of_openssl_and_never_ambiguous() {
        let jane =
            name(&[("DC", "ch"), ("O", "CERN"), ("CN", "host/a.b.ch"), ("emailAddress", "a@b"), ("CN", "J\u{f6}")]);
        assert_eq!(slash_form(&jane).unwrap(), "/DC=ch/O=CERN/CN=host/a.b.ch/emailAddress=a@b/CN=J\\xC3\\xB6");
        assert!(matches!(slash_form(&name(&[("CN", "x/CN=admin")])), Err(NameError::Ambiguous(_))));
        assert!(matches!(slash_form(&name(&[("CN", "x/1.2.3=admin")])), Err(NameError::Ambiguous(_))));
        assert_eq!(slash_form(&name(&[("CN", "a=b/c d=e")])).unwrap(), "/CN=a=b/c d=e");
        assert!(matches!(slash_form(&name(&[])), Err(NameError::Empty)));
    }

    #[test]
    fn names_one_common_name_below_are_recognized() {
        let issuer = name(&[("O", "CERN"), ("CN", "Jane")]);
        let is_below = |parts| is_one_common_name_below(&name(parts), &issuer).unwrap();
        assert!(is_below(&[("O", "CERN"), ("CN", "Jane"), ("CN", "1")]));
        assert!(!is_below(&[("O", "CERN"), ("CN", "Jane")]));
        assert!(!is_below(&[("O", "CERN"), ("CN", "Jane"), ("CN", "1"), ("CN", "2")]));
        assert!(!is_below(&[("O", "CERN"), ("CN", "Jane"), ("OU", "1")]));
        assert!(!is_below(&[("O", "CERN"), ("CN", "Joe"), ("CN", "1")]));
    }

    #[test]
    fn spellings_of_one_attribute_compare_equal() {
        assert_eq!(with_one_spelling("/O=x/Email=a@b/USERID=c"), with_one_spelling(" /O=x/emailAddress=a@b/UID=c\n"));
    }
}
