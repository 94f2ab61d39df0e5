//! Texts with stars.

/// Whether `text` matches `pattern`, in which `*` stands for any run of bytes. The work is at most the product of the
/// two lengths.
pub fn glob_matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', after)), _) => {
                retry = Some((after, text));
                pattern = after;
            }
            (Some((p, pattern_rest)), Some((t, text_rest))) if p == t => {
                (pattern, text) = (pattern_rest, text_rest);
            }
            (None, None) => return true,
            _ => {
                let Some((after_star, (_, later))) =
                    retry.and_then(|(after_star, from)| Some((after_star, from.split_first()?)))
                else {
                    return false;
                };
                retry = Some((after_star, later));
                (pattern, text) = (after_star, later);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_run_of_bytes() {
        for (pattern, text) in
            [("", ""), ("*", ""), ("*", "a/b"), ("a*c", "ac"), ("a*c", "abcbc"), ("*.org", "a.b.org")]
        {
            assert!(glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("a*c", "abcb"), ("*.org", "a.org.evil"), ("A", "a")] {
            assert!(!glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
