//! Conditions of requests, in the order of RFC 9110, section 13.2.2.

use crate::{
    dates::unix_time,
    head::Head,
    validators::{Tag, tags},
};

/// The validators of the file that a request names.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// Its entity tag, with quotes, if it has one. It is strong.
    pub etag: Option<&'a str>,
    /// Time of its last change in seconds of the Unix epoch, if it is known. Conditions on an unknown one do not count.
    pub mtime: Option<i64>,
    /// The time of the answer.
    pub now: i64,
}

/// The effect of the conditions of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is answered. Its ranges count if `uses_ranges`.
    Proceed {
        uses_ranges: bool,
    },
    NotModified,
    Failed,
}

impl Conditions<'_> {
    /// Evaluates the conditions of a GET or HEAD.
    pub fn judge(&self, head: &Head<'_>) -> Verdict {
        let has_if_match = head.field("if-match").is_some();
        if has_if_match {
            if !self.any_tag(head, "if-match", |tag| !tag.is_weak) {
                return Verdict::Failed;
            }
        } else if self.time_of(head, "if-unmodified-since").is_some_and(|(mtime, date)| mtime > date) {
            return Verdict::Failed;
        }
        if head.field("if-none-match").is_some() {
            if self.any_tag(head, "if-none-match", |_| true) {
                return Verdict::NotModified;
            }
        } else if self.time_of(head, "if-modified-since").is_some_and(|(mtime, date)| mtime <= date) {
            return Verdict::NotModified;
        }
        Verdict::Proceed { uses_ranges: head.field("if-range").is_none_or(|validator| self.is_same(validator)) }
    }

    /// The time of change, and the one that a condition names.
    fn time_of(&self, head: &Head<'_>, name: &str) -> Option<(i64, i64)> {
        Some((self.mtime?, head.field(name).and_then(unix_time)?))
    }

    /// Whether one of the listed tags that `counts` is that of the file, or any file will do.
    fn any_tag(&self, head: &Head<'_>, name: &str, counts: impl Fn(Tag<'_>) -> bool) -> bool {
        head.values(name)
            .any(|list| list.trim() == "*" || tags(list).any(|tag| counts(tag) && Some(tag.text) == self.etag))
    }

    /// Whether the validator of `If-Range` is exactly that of the file.
    fn is_same(&self, validator: &str) -> bool {
        match unix_time(validator) {
            // A date is strong only if the file can not have changed again within its second.
            Some(date) => Some(date) == self.mtime && date + 1 < self.now,
            None => Some(validator.trim()) == self.etag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dates::http_date, session::tests::with_head};

    const MTIME: i64 = 1_000_000;
    const NOW: i64 = 2_000_000;
    const RANGES: Verdict = Verdict::Proceed { uses_ranges: true };
    const WHOLE: Verdict = Verdict::Proceed { uses_ranges: false };

    fn judged(fields: &str) -> Verdict {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        with_head(&request, |head| Conditions { etag: Some("\"e\""), mtime: Some(MTIME), now: NOW }.judge(head))
    }

    #[test]
    fn each_condition_has_the_effect_of_the_standard() {
        let [before, at, after] = [MTIME - 1, MTIME, MTIME + 1].map(http_date);
        for (fields, verdict) in [
            (String::new(), RANGES),
            ("If-Match: \"e\"\r\n".into(), RANGES),
            ("If-Match: \"x\", \"e\"\r\n".into(), RANGES),
            ("If-Match: *\r\n".into(), RANGES),
            // A weak tag never matches strongly.
            ("If-Match: W/\"e\"\r\n".into(), Verdict::Failed),
            ("If-Match: \"x\"\r\n".into(), Verdict::Failed),
            ("If-None-Match: \"e\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: W/\"e\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: \"x\"\r\nIf-None-Match: \"e\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: *\r\n".into(), Verdict::NotModified),
            ("If-None-Match: \"x\"\r\n".into(), RANGES),
            (format!("If-Modified-Since: {at}\r\n"), Verdict::NotModified),
            (format!("If-Modified-Since: {before}\r\n"), RANGES),
            ("If-Modified-Since: never\r\n".into(), RANGES),
            // The tag takes precedence over the date.
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {after}\r\n"), RANGES),
            (format!("If-Unmodified-Since: {before}\r\n"), Verdict::Failed),
            (format!("If-Unmodified-Since: {at}\r\n"), RANGES),
            (format!("If-Match: \"e\"\r\nIf-Unmodified-Since: {before}\r\n"), RANGES),
            ("If-Match: \"x\"\r\nIf-None-Match: \"e\"\r\n".into(), Verdict::Failed),
            ("If-Range: \"e\"\r\n".into(), RANGES),
            ("If-Range: W/\"e\"\r\n".into(), WHOLE),
            ("If-Range: \"x\"\r\n".into(), WHOLE),
            (format!("If-Range: {at}\r\n"), RANGES),
            (format!("If-Range: {after}\r\n"), WHOLE),
        ] {
            assert_eq!(judged(&fields), verdict, "{fields}");
        }
    }

    #[test]
    fn a_file_without_validators_matches_no_tag_and_no_date() {
        let date = http_date(MTIME);
        for (fields, verdict) in [
            ("If-Match: *\r\n".into(), RANGES),
            ("If-Match: \"e\"\r\n".into(), Verdict::Failed),
            ("If-None-Match: \"e\"\r\n".into(), RANGES),
            ("If-Range: \"e\"\r\n".into(), WHOLE),
            (format!("If-Range: {date}\r\n"), WHOLE),
            (format!("If-Modified-Since: {date}\r\n"), RANGES),
            (format!("If-Unmodified-Since: {date}\r\n"), RANGES),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let judge = |head: &Head<'_>| Conditions { etag: None, mtime: None, now: NOW }.judge(head);
            assert_eq!(with_head(&request, judge), verdict, "{fields}");
        }
    }

    #[test]
    fn a_date_of_this_second_is_no_strong_validator() {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nIf-Range: {}\r\n\r\n", http_date(MTIME));
        let judge =
            |now| with_head(&request, |head| Conditions { etag: Some("\"e\""), mtime: Some(MTIME), now }.judge(head));
        assert_eq!(judge(MTIME + 1), WHOLE);
        assert_eq!(judge(MTIME + 2), RANGES);
    }
}
