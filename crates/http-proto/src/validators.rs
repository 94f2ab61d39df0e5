//! Entity tags.

/// The entity tag of a file without one of its origin: the same on every cache of that origin, and strong. Its form is never that of
/// 32 hexadecimal digits, which davix and tools for S3 take for an MD5.
pub fn etag_of(size: u64, mtime: i64) -> String {
    format!("\"{size:x}-{mtime:x}\"")
}

/// The tags of a list, as `If-Match` has it; `None` for `*`. A tag that is not in quotes ends the list.
pub(crate) fn tags<'a>(list: &'a str) -> impl Iterator<Item = Tag<'a>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (is_weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |tag| (true, tag));
        let end = quoted.strip_prefix('"')?.find('"')? + 2;
        let (text, behind) = quoted.split_at_checked(end)?;
        rest = behind;
        Some(Tag { text, is_weak })
    })
}

/// An entity tag with its quotes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tag<'a> {
    pub(crate) text: &'a str,
    pub(crate) is_weak: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_stable_and_are_not_taken_for_a_checksum() {
        assert_eq!(etag_of(20_000_000, 1_700_000_000), "\"1312d00-6553f100\"");
        let longest = etag_of(u64::MAX, i64::MAX);
        assert!(longest.contains('-'));
    }

    #[test]
    fn lists_of_tags_are_read_to_the_first_fault() {
        let texts = |list| tags(list).map(|tag| (tag.text, tag.is_weak)).collect::<Vec<_>>();
        assert_eq!(texts("\"a\", W/\"b,c\" ,\"\""), [("\"a\"", false), ("\"b,c\"", true), ("\"\"", false)]);
        assert_eq!(texts("\"a\", b, \"c\""), [("\"a\"", false)]);
        assert_eq!(texts("\"a"), []);
        assert_eq!(texts("*"), []);
    }
}
