//! Entity tags.

use forebay_types::{ETag, Validator};

/// The strong entity tag of a file, the same on every cache of its origin: the origin's own, if that is strong, else one made of the size and
/// of what distinguishes contents there. `None` if nothing does: two contents of one size must not share a tag.
pub fn etag_of(size: u64, validator: &Validator) -> Option<String> {
    let (etag, mtime) = (validator.etag(), validator.mtime());
    match (etag, mtime, validator.checksum()) {
        (Some(etag), _, _) if !etag.is_weak() => Some(passed_on(size, etag)),
        // A weak tag may stand for several contents, but with an equal time of change the origin's files are taken for equal.
        (Some(etag), Some(mtime), _) => Some(format!("\"{size:x}-{mtime:x}-{}\"", etag.opaque())),
        (None, Some(mtime), _) => Some(format!("\"{size:x}-{mtime:x}\"")),
        (_, None, Some(checksum)) => {
            Some(format!("\"{size:x}-{}-{}\"", checksum.algorithm, checksum.value.replace('"', "")))
        }
        (_, None, None) => None,
    }
}

/// The origin's tag. davix and tools for S3 take 32 hexadecimal digits for an MD5, which no tag promises to be.
fn passed_on(size: u64, etag: &ETag) -> String {
    let opaque = etag.opaque();
    let looks_like_md5 = opaque.len() == 32 && opaque.bytes().all(|byte| byte.is_ascii_hexdigit());
    if looks_like_md5 { format!("\"{size:x}-{opaque}\"") } else { etag.as_str().to_owned() }
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
        let md5 = "0123456789abcdef0123456789ABCDEF";
        for (size, validator, tag) in [
            (20_000_000, "mtime:1700000000".to_owned(), Some("\"1312d00-6553f100\"".to_owned())),
            (5, "mtime:16 etag:\"a-b:c\"".to_owned(), Some("\"a-b:c\"".to_owned())),
            (5, format!("etag:\"{md5}\""), Some(format!("\"5-{md5}\""))),
            (5, format!("etag:\"{md5}-1\""), Some(format!("\"{md5}-1\""))),
            (5, "mtime:16 etag:W/\"x\"".to_owned(), Some("\"5-10-x\"".to_owned())),
            // Caches that compare checksums and those that do not show the same tag.
            (5, "mtime:16 checksum:md5:aa".to_owned(), Some("\"5-10\"".to_owned())),
            (5, "checksum:md5:aa".to_owned(), Some("\"5-md5-aa\"".to_owned())),
            (5, "etag:W/\"x\" checksum:md5:aa".to_owned(), Some("\"5-md5-aa\"".to_owned())),
            (5, "etag:W/\"x\"".to_owned(), None),
            (5, String::new(), None),
        ] {
            assert_eq!(etag_of(size, &validator.parse().unwrap()), tag, "{validator}");
        }
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
