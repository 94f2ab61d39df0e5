//! Files stay small.

use crate::{finding::Finding, sources::Source};

/// Lines above which a file must be split by idea.
const LINES_MAX: usize = 600;

/// Lines above which a file is listed, for a second thought.
const LINES_NOTED: usize = 400;

/// Refuses source files that are too long to read top-down.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let line_count = line_count(source);
    if line_count <= LINES_MAX {
        return Vec::new();
    }
    vec![Finding {
        path: source.path.clone(),
        line: LINES_MAX + 1,
        problem: format!("{line_count} lines (at most {LINES_MAX})"),
        remedy: "split the file by idea",
    }]
}

/// A remark on a file that grows long but may still stay.
pub(crate) fn notice(source: &Source) -> Option<String> {
    let line_count = line_count(source);
    (line_count > LINES_NOTED && line_count <= LINES_MAX).then(|| format!("{}: {line_count} lines", source.path))
}

fn line_count(source: &Source) -> usize {
    if matches!(source.extension(), "rs" | "py" | "sh") { source.text.lines().count() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    #[test]
    fn files_are_noted_and_refused_above_each_limit() {
        for (lines, is_noted, is_refused) in
            [(400, false, false), (401, true, false), (600, true, false), (601, false, true)]
        {
            let source = source("a.rs", &"x\n".repeat(lines));
            assert_eq!((notice(&source).is_some(), check(&source).len() == 1), (is_noted, is_refused), "{lines}");
        }
    }

    #[test]
    fn prose_may_be_long() {
        assert!(check(&source("a.md", &"x\n".repeat(5000))).is_empty());
    }
}
