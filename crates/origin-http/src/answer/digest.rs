//! Checksums in headers: `Digest` (RFC 3230), `Repr-Digest` (RFC 9530) and `Content-MD5`.

use forebay_types::Checksum;
use hyper::HeaderMap;
use openssl::base64;

/// Algorithms with the lengths of their values in bytes; most useful first.
const ALGORITHMS: [(&str, usize); 5] = [("adler32", 4), ("crc32c", 4), ("md5", 16), ("sha-256", 32), ("sha-512", 64)];

/// Longest header that is interpreted, in bytes.
const HEADER_LEN_MAX: usize = 4 << 10;

/// The checksum of `algorithm`, or the most useful one, in the headers of an answer.
pub(crate) fn checksum_in(headers: &HeaderMap, algorithm: Option<&str>) -> Option<Checksum> {
    let found = all_in(headers);
    match algorithm {
        Some(wanted) => found.into_iter().find(|checksum| checksum.algorithm.eq_ignore_ascii_case(wanted)),
        None => found.into_iter().next(),
    }
}

fn all_in(headers: &HeaderMap) -> Vec<Checksum> {
    let mut found: Vec<(usize, Checksum)> = Vec::new();
    for name in ["digest", "repr-digest"] {
        for value in headers.get_all(name).iter().filter_map(|value| value.to_str().ok()) {
            if value.len() <= HEADER_LEN_MAX {
                found.extend(value.split(',').filter_map(|item| one(item.trim())));
            }
        }
    }
    // A checksum of the checksums of an object's parts is of no use.
    let is_composite = headers.get("x-amz-checksum-type").is_some_and(|kind| kind == "COMPOSITE");
    if !is_composite {
        let of_s3 = headers.get("x-amz-checksum-crc32c").and_then(|value| value.to_str().ok());
        found.extend(of_s3.and_then(|value| valued("crc32c", value)));
    }
    let plain = headers.get("content-md5").and_then(|value| value.to_str().ok());
    found.extend(plain.and_then(|value| valued("md5", value)));
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, checksum)| checksum).collect()
}

/// Reads `ALGORITHM=VALUE`, and its rank in [`ALGORITHMS`].
fn one(item: &str) -> Option<(usize, Checksum)> {
    let (name, value) = item.split_once('=')?;
    let name = name.trim().to_ascii_lowercase();
    let name = match name.as_str() {
        // RFC 9530 has renamed it.
        "adler" => "adler32",
        "sha256" => "sha-256",
        other => other,
    };
    valued(name, value.trim())
}

/// Reads the value of a checksum: in hexadecimal digits, perhaps without leading zeros, in base64, or in base64 between colons.
fn valued(name: &str, value: &str) -> Option<(usize, Checksum)> {
    let rank = ALGORITHMS.iter().position(|(known, _)| *known == name)?;
    let (_, len) = *ALGORITHMS.get(rank)?;
    let is_hex = !value.is_empty() && value.len() <= 2 * len && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Some servers leave out zeros at the beginning of the short ones; a long value in base64 may look like digits.
    let is_short = len == 4 || value.len() == 2 * len;
    let digits = if is_hex && is_short {
        format!("{:0>width$}", value.to_ascii_lowercase(), width = 2 * len)
    } else {
        let encoded = value.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).unwrap_or(value);
        let bytes = base64::decode_block(encoded).ok().filter(|bytes| bytes.len() == len)?;
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    Some((rank, Checksum::new(name, digits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn every_spelling_of_servers_is_read() {
        for (name, value, algorithm, expected) in [
            ("digest", "adler32=084b021f", None, "adler32 084b021f"),
            ("digest", "ADLER32=84b021f", None, "adler32 084b021f"),
            ("digest", "md5=rL0Y20zC+Fzt72VPzMSk2A==, adler32=1", None, "adler32 00000001"),
            ("digest", "md5=rL0Y20zC+Fzt72VPzMSk2A==", Some("md5"), "md5 acbd18db4cc2f85cedef654fccc4a4d8"),
            ("digest", "md5=acbd18db4cc2f85cedef654fccc4a4d8", None, "md5 acbd18db4cc2f85cedef654fccc4a4d8"),
            ("digest", "crc32c=iD0inw==", Some("crc32c"), "crc32c 883d229f"),
            ("digest", "crc32c=353dd8be", None, "crc32c 353dd8be"),
            ("repr-digest", "adler=:CEsCHw==:", None, "adler32 084b021f"),
            ("x-amz-checksum-crc32c", "iD0inw==", None, "crc32c 883d229f"),
            ("content-md5", "rL0Y20zC+Fzt72VPzMSk2A==", None, "md5 acbd18db4cc2f85cedef654fccc4a4d8"),
        ] {
            let found = checksum_in(&headers(&[(name, value)]), algorithm);
            assert_eq!(found.map(|checksum| checksum.to_string()).as_deref(), Some(expected), "{value}");
        }
        for value in ["", "adler32", "adler32=", "adler32=xyz", "md5=abcd", "unixsum=30637", "adler32=123456789"] {
            assert_eq!(checksum_in(&headers(&[("digest", value)]), None), None, "{value}");
        }
        assert_eq!(checksum_in(&headers(&[("digest", "adler32=1")]), Some("md5")), None);
    }

    proptest! {
        #[test]
        fn any_header_has_well_formed_checksums_or_none(value in "[ -~]{0,80}") {
            for checksum in all_in(&headers(&[("digest", &value)])) {
                prop_assert!(checksum.value.bytes().all(|byte| byte.is_ascii_hexdigit()));
            }
        }
    }
}
