//! Listings of the keys of a bucket.

use super::{answers::NAMESPACE, operation::S3Error};
use crate::{dates::iso_date, multistatus::escape, target::Target};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Most keys of one answer, as of other servers.
const KEYS_MAX: usize = 1000;

/// Longest key of S3.
const KEY_LEN_MAX: usize = 1024;

/// Bytes that are encoded in keys with `encoding-type=url`.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'*');

/// A request for the keys of a bucket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListRequest {
    /// Of version 2 of the request.
    is_v2: bool,
    pub prefix: String,
    /// Whether keys with a further slash after the prefix are listed as one.
    pub is_by_directory: bool,
    pub keys_max: usize,
    /// Keys up to this one are left out.
    pub after: String,
    encodes: bool,
    /// Parameters that the answer repeats.
    start_after: Option<String>,
    continuation: Option<String>,
}

/// An entry of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Listed {
    Object {
        key: String,
        size: u64,
        mtime: i64,
        etag: Option<String>,
    },
    /// Stands for all keys that begin with it. Ends with a slash.
    Prefix(String),
}

/// A part of a listing, in the order of the keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Page {
    pub entries: Vec<Listed>,
    /// Where the next page begins, unless this is the last one.
    pub next: Option<String>,
}

impl ListRequest {
    pub(crate) fn of(target: &Target<'_>) -> Result<Self, S3Error> {
        let invalid = |text| S3Error::new(400, "InvalidArgument", text);
        let text = |name: &str| target.parameter(name).filter(|value| !value.is_empty());
        let is_v2 = text("list-type").is_some_and(|version| version == "2");
        let is_by_directory = match text("delimiter").as_deref() {
            None => false,
            Some("/") => true,
            Some(_) => return Err(S3Error::new(501, "NotImplemented", "the delimiter must be a slash")),
        };
        let keys_max = match text("max-keys") {
            None => KEYS_MAX,
            Some(number) => number.parse::<usize>().map_err(|_| invalid("max-keys is not a number"))?.min(KEYS_MAX),
        };
        let encodes = match text("encoding-type").as_deref() {
            None => false,
            Some("url") => true,
            Some(_) => return Err(invalid("encoding-type is not url")),
        };
        let prefix = text("prefix").unwrap_or_default();
        let start_after = text(if is_v2 { "start-after" } else { "marker" });
        let continuation = if is_v2 { text("continuation-token") } else { None };
        if [Some(&prefix), start_after.as_ref()].into_iter().flatten().any(|key| key.len() > KEY_LEN_MAX) {
            return Err(S3Error::new(400, "KeyTooLongError", "the prefix or the marker is too long"));
        }
        let after = match &continuation {
            Some(token) => key_of(token).ok_or_else(|| invalid("the continuation token is not from this server"))?,
            None => start_after.clone().unwrap_or_default(),
        };
        Ok(Self { is_v2, prefix, is_by_directory, keys_max, after, encodes, start_after, continuation })
    }
}

impl Listed {
    pub fn key(&self) -> &str {
        match self {
            Self::Object { key, .. } | Self::Prefix(key) => key,
        }
    }
}

/// The answer with a page of the keys of `bucket`.
pub fn list_document(bucket: &str, request: &ListRequest, page: &Page) -> String {
    let key = |key: &str| {
        if request.encodes { utf8_percent_encode(key, ENCODED).to_string() } else { escape(key) }
    };
    let mut out = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"{NAMESPACE}\">");
    append(&mut out, "Name", &escape(bucket));
    append(&mut out, "Prefix", &key(&request.prefix));
    if request.is_by_directory {
        append(&mut out, "Delimiter", "/");
    }
    append(&mut out, "MaxKeys", &request.keys_max.to_string());
    if request.encodes {
        append(&mut out, "EncodingType", "url");
    }
    append(&mut out, "IsTruncated", if page.next.is_some() { "true" } else { "false" });
    let start_after = request.start_after.as_deref().map(key);
    if request.is_v2 {
        append(&mut out, "KeyCount", &page.entries.len().to_string());
        append_some(&mut out, "ContinuationToken", request.continuation.as_deref().map(escape));
        append_some(&mut out, "NextContinuationToken", page.next.as_deref().map(token_of));
        append_some(&mut out, "StartAfter", start_after);
    } else {
        append(&mut out, "Marker", &start_after.unwrap_or_default());
        append_some(&mut out, "NextMarker", page.next.as_deref().map(key));
    }
    for entry in &page.entries {
        match entry {
            Listed::Object { key: name, size, mtime, etag } => {
                out.push_str("<Contents>");
                append(&mut out, "Key", &key(name));
                append(&mut out, "LastModified", &iso_millis(*mtime));
                append_some(&mut out, "ETag", etag.as_deref().map(escape));
                append(&mut out, "Size", &size.to_string());
                out.push_str("<StorageClass>STANDARD</StorageClass></Contents>");
            }
            Listed::Prefix(prefix) => {
                out.push_str("<CommonPrefixes>");
                append(&mut out, "Prefix", &key(prefix));
                out.push_str("</CommonPrefixes>");
            }
        }
    }
    out.push_str("</ListBucketResult>\n");
    out
}

/// A time as clients of S3 read it.
pub(super) fn iso_millis(unix_time: i64) -> String {
    format!("{}.000Z", iso_date(unix_time).trim_end_matches('Z'))
}

pub(super) fn append(out: &mut String, name: &str, value: &str) {
    for part in ["<", name, ">", value, "</", name, ">"] {
        out.push_str(part);
    }
}

fn append_some(out: &mut String, name: &str, value: Option<String>) {
    if let Some(value) = value {
        append(out, name, &value);
    }
}

/// The key as a token: in hexadecimal digits, which need no encoding anywhere.
fn token_of(key: &str) -> String {
    key.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn key_of(token: &str) -> Option<String> {
    let digits = token.as_bytes();
    if digits.len() > 2 * KEY_LEN_MAX || !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(query: &str) -> Result<ListRequest, &'static str> {
        ListRequest::of(&Target::parse(&format!("/b?{query}")).unwrap()).map_err(|error| error.code)
    }

    #[test]
    fn both_versions_of_the_request_are_read() {
        let v2 = request("list-type=2&prefix=a%2F&delimiter=%2F&max-keys=5&start-after=a%2Fb").unwrap();
        assert_eq!((v2.is_v2, v2.prefix.as_str(), v2.is_by_directory, v2.keys_max), (true, "a/", true, 5));
        assert_eq!((v2.after.as_str(), v2.encodes), ("a/b", false));
        // As rclone sends it.
        let v1 = request("delimiter=&max-keys=5000&prefix=&marker=c&encoding-type=url").unwrap();
        assert_eq!((v1.is_v2, v1.is_by_directory, v1.keys_max, v1.after.as_str()), (false, false, KEYS_MAX, "c"));
        assert!(v1.encodes);
        for (query, code) in [
            ("max-keys=x", "InvalidArgument"),
            ("encoding-type=x", "InvalidArgument"),
            ("delimiter=-", "NotImplemented"),
            ("list-type=2&continuation-token=xy", "InvalidArgument"),
            (&format!("prefix={}", "a".repeat(KEY_LEN_MAX + 1)), "KeyTooLongError"),
        ] {
            assert_eq!(request(query), Err(code), "{query}");
        }
        assert!(request(&format!("prefix={}", "a".repeat(KEY_LEN_MAX))).is_ok());
    }

    #[test]
    fn pages_have_objects_and_prefixes_and_lead_to_the_next_one() {
        let object =
            Listed::Object { key: "a/<&>".to_owned(), size: 5, mtime: 784_111_777, etag: Some("\"5-a\"".to_owned()) };
        let page = Page { entries: vec![object, Listed::Prefix("a/d e/".to_owned())], next: Some("a/d e/".to_owned()) };
        let text = list_document("b", &request("list-type=2&prefix=a/&delimiter=/").unwrap(), &page);
        assert!(text.contains(
            "<Contents><Key>a/&lt;&amp;&gt;</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><ETag>&quot;5-a&quot;</ETag>\
             <Size>5</Size><StorageClass>STANDARD</StorageClass></Contents>"
        ));
        assert!(text.contains("<CommonPrefixes><Prefix>a/d e/</Prefix></CommonPrefixes>"));
        assert!(text.contains("<IsTruncated>true</IsTruncated><KeyCount>2</KeyCount>"));
        let token = text.split("NextContinuationToken>").nth(1).unwrap().trim_end_matches("</");
        assert_eq!(request(&format!("list-type=2&continuation-token={token}")).unwrap().after, "a/d e/");
        let text = list_document("b", &request("encoding-type=url&marker=c").unwrap(), &page);
        assert!(text.contains("<Key>a/%3C%26%3E</Key>") && text.contains("<Prefix>a/d%20e/</Prefix>"));
        assert!(text.contains("<Marker>c</Marker><NextMarker>a/d%20e/</NextMarker>") && !text.contains("KeyCount"));
    }

    proptest! {
        #[test]
        fn tokens_are_keys(key in ".{0,200}") {
            prop_assert_eq!(key_of(&token_of(&key)), Some(key));
        }

        #[test]
        fn no_token_panics(token in ".{0,20}") {
            key_of(&token);
        }
    }
}
