//! Whitespace that editors disagree about.

use crate::{finding::Finding, sources::Source};

/// Refuses trailing blanks, tabs in code, and files that do not end with one line feed.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let finding =
        |line, problem: &str, remedy| Finding { path: source.path.clone(), line, problem: problem.to_owned(), remedy };
    let mut findings = Vec::new();
    for (line, number) in source.text.split('\n').zip(1..) {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(finding(number, "trailing whitespace", "remove it"));
        }
        if line.contains('\t') && matches!(source.extension(), "rs" | "py") {
            findings.push(finding(number, "a tab", "indent with spaces; write \\t in strings"));
        }
    }
    let line_count = source.text.lines().count();
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        findings.push(finding(line_count, "no line feed at the end of the file", "add one"));
    }
    if source.text.ends_with("\n\n") {
        findings.push(finding(line_count, "blank lines at the end of the file", "remove them"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&source(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn clean_files_pass() {
        for text in ["", "a\n", "a\n\nb\n"] {
            assert!(lines("a.rs", text).is_empty(), "{text:?}");
        }
        assert!(lines("a.md", "a\tb\n").is_empty());
    }

    #[test]
    fn blanks_tabs_and_line_ends_are_refused() {
        assert_eq!(lines("a.rs", "a \nb\nc\r\n"), [1, 3]);
        assert_eq!(lines("a.rs", "a\n\tb\n"), [2]);
        assert_eq!(lines("a.md", "a\nb"), [2]);
        assert_eq!(lines("a.py", "a\n\n"), [2]);
    }
}
