//! Checksums in fields: `Digest` (RFC 3230) and `Repr-Digest` (RFC 9530).

use crate::{head::Head, token_lists::tokens};
use openssl::base64::encode_block;

/// A checksum that a client asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WantedDigest {
    /// As the engine names it: `adler32`, `crc32c`, `md5`, …
    pub algorithm: &'static str,
    /// As the client wrote it.
    pub name: String,
    pub form: DigestForm,
}

/// The standard that a client follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DigestForm {
    /// The field `Digest` of RFC 3230, obsolete and used by all clients.
    Old,
    /// The field `Repr-Digest` of RFC 9530.
    Structured,
}

/// The checksums that a client asks for, its favourite first. If it asks in both forms, the older one counts, as for XrdHttp.
pub fn wanted_digests(head: &Head<'_>) -> Vec<WantedDigest> {
    let (field, form) = match head.field("want-digest") {
        Some(_) => ("want-digest", DigestForm::Old),
        None => ("want-repr-digest", DigestForm::Structured),
    };
    let mut wanted: Vec<(u32, WantedDigest)> =
        tokens(head.values(field)).filter_map(|item| parse(item, form)).collect();
    // Stable: of equal weights, the first one is preferred.
    wanted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    wanted.into_iter().map(|(_, digest)| digest).collect()
}

/// The field for a checksum in hexadecimal digits; `None` when the digits are malformed.
pub fn digest_field(wanted: &WantedDigest, hex: &str) -> Option<(&'static str, String)> {
    let bytes = decode(hex)?;
    let WantedDigest { algorithm, name, form } = wanted;
    Some(match form {
        // davix and gfal2 compare these two as text.
        DigestForm::Old if matches!(*algorithm, "adler32" | "crc32c") => ("Digest", format!("{name}={hex}")),
        DigestForm::Old => ("Digest", format!("{name}={}", encode_block(&bytes))),
        DigestForm::Structured => ("Repr-Digest", format!("{name}=:{}:", encode_block(&bytes))),
    })
}

fn parse(item: &str, form: DigestForm) -> Option<(u32, WantedDigest)> {
    let (name, weight) = match form {
        DigestForm::Old => {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next()?;
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok())?;
            (name, thousandths(quality)?)
        }
        DigestForm::Structured => {
            let (name, weight) = item.split_once('=')?;
            (name.trim(), weight.trim().parse::<u32>().ok().filter(|weight| *weight <= 10)?)
        }
    };
    let name = name.to_ascii_lowercase();
    let algorithm = algorithm_of(&name)?;
    (weight > 0).then_some((weight, WantedDigest { algorithm, name, form }))
}

/// A quality between 0 and 1 in thousandths.
fn thousandths(quality: f32) -> Option<u32> {
    let is_valid = (0.0..=1.0).contains(&quality);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    is_valid.then_some((quality * 1000.0) as u32)
}

fn algorithm_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "adler32" | "adler" => "adler32",
        "crc32c" => "crc32c",
        "crc32" => "crc32",
        "md5" => "md5",
        "sha" | "sha1" => "sha1",
        "sha-256" | "sha256" => "sha256",
        "sha-512" | "sha512" => "sha512",
        _ => return None,
    })
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    if digits.len().is_multiple_of(2) && !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) {
        pairs.collect()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::with_head;

    fn wanted(fields: &str) -> Vec<WantedDigest> {
        with_head(&format!("HEAD / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"), wanted_digests)
    }

    fn names(fields: &str) -> String {
        wanted(fields).into_iter().map(|digest| digest.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn preferences_and_unknown_names_count_as_in_the_standards() {
        for (fields, expected) in [
            ("Want-Digest: ADLER32", "adler32"),
            ("Want-Digest: NotSupported, adler32", "adler32"),
            ("Want-Digest: md5;q=0.3, crc32c;q=1, sha-256;q=0", "crc32c md5"),
            ("Want-Digest: md5;q=x, md5;q=7, adler", "adler"),
            ("Want-Repr-Digest: adler=3,md5=2, crc32c=10, sha-256=0, sha-512=11", "crc32c adler md5"),
            ("Want-Repr-Digest: adler", ""),
            ("Want-Digest: md5\r\nWant-Repr-Digest: adler=1", "md5"),
            ("X: y", ""),
        ] {
            assert_eq!(names(fields), expected, "{fields}");
        }
    }

    #[test]
    fn checksums_are_written_as_clients_compare_them() {
        let field = |fields: &str, hex| digest_field(&wanted(fields)[0], hex);
        let pair = |name, value: &str| Some((name, value.to_owned()));
        assert_eq!(field("Want-Digest: adler32", "084b021f"), pair("Digest", "adler32=084b021f"));
        assert_eq!(field("Want-Digest: crc32c", "353dd8be"), pair("Digest", "crc32c=353dd8be"));
        assert_eq!(field("Want-Repr-Digest: adler=1", "084b021f"), pair("Repr-Digest", "adler=:CEsCHw==:"));
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(field("Want-Digest: MD5", md5), pair("Digest", "md5=1B2M2Y8AsgTpgAmY7PhCfg=="));
        for hex in ["", "0", "0g", "\u{e9}"] {
            assert_eq!(field("Want-Digest: md5", hex), None);
        }
    }
}
