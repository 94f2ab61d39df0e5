//! The words of a line.

/// The words of a line, which are separated by blanks. A double quote begins and ends a group, also within a word, and there is no
/// escape. A group without an end lasts to the end of the line.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    // `None` between words: a pair of quotes is a word, a run of blanks is not.
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_ascii_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_group_and_vanish() {
        for (line, expected) in [
            ("", &[][..]),
            ("  a \t b  ", &["a", "b"]),
            (r#"stat "dcap://h/a b" -uid=0"#, &["stat", "dcap://h/a b", "-uid=0"]),
            (r#"-x="a b"c """#, &["-x=a bc", ""]),
            (r#"a "b c"#, &["a", "b c"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }
}
