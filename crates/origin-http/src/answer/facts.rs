//! Size and validator of a file in the head of an answer.

use super::{content_range::ContentRange, digest::checksum_in};
use forebay_types::Validator;
use hyper::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED},
};
use std::time::UNIX_EPOCH;

/// Size of the whole file, if the head of an answer has it.
pub(crate) fn size_in(headers: &HeaderMap) -> Option<u64> {
    match text(headers, &CONTENT_RANGE) {
        Some(range) => ContentRange::parse(range)?.size,
        None => text(headers, &CONTENT_LENGTH)?.parse().ok(),
    }
}

/// The range that an answer contains.
pub(crate) fn range_in(headers: &HeaderMap) -> Option<ContentRange> {
    ContentRange::parse(text(headers, &CONTENT_RANGE)?)
}

/// The parts by which the server distinguishes contents of the file. A malformed one is none.
pub(crate) fn validator_in(headers: &HeaderMap) -> Validator {
    let mtime = text(headers, &LAST_MODIFIED).and_then(unix_time);
    let validator = mtime.map_or_else(Validator::default, Validator::of_mtime);
    let validator = match text(headers, &ETAG).and_then(|etag| etag.parse().ok()) {
        Some(etag) => validator.with_etag(etag),
        None => validator,
    };
    validator.with_checksum(checksum_in(headers, None))
}

/// Whether the bytes are those of the file. Compressed ones were not asked for.
pub(crate) fn is_identity(headers: &HeaderMap) -> bool {
    text(headers, &CONTENT_ENCODING).is_none_or(|coding| coding.eq_ignore_ascii_case("identity"))
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Seconds of the Unix epoch of an HTTP date.
pub(crate) fn unix_time(date: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(date).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn sizes_and_validators_are_found() {
        let whole = headers(&[
            ("content-length", "42"),
            ("etag", "\"abc\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("digest", "adler32=1"),
        ]);
        assert_eq!(size_in(&whole), Some(42));
        assert_eq!(validator_in(&whole).to_string(), "mtime:784111777 etag:\"abc\" checksum:adler32:00000001");
        let part = headers(&[("content-length", "1"), ("content-range", "bytes 0-0/42")]);
        assert_eq!(size_in(&part), Some(42));
        let unknown = headers(&[("content-range", "bytes 0-0/*"), ("etag", "abc"), ("content-encoding", "gzip")]);
        assert_eq!((size_in(&unknown), validator_in(&unknown)), (None, Validator::default()));
        assert!(is_identity(&part) && !is_identity(&unknown));
    }
}
