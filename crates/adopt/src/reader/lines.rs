//! Cutting a file into lines of words: comments, blank lines, continuation.

use super::{Place, Problem};
use std::sync::Arc;

/// Longest line of a file in bytes. xrootd refuses those of more than 2047.
pub(super) const LINE_LEN_MAX: usize = 4096;

/// A directive as it is written, over all the lines it goes on for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    pub(super) place: Place,
    /// One word at least.
    pub(super) words: Vec<String>,
}

/// The lines of a file that hold words. Variables are not yet replaced.
pub(super) fn lines(file: &Arc<str>, bytes: &[u8], problems: &mut Vec<Problem>) -> Vec<Line> {
    let mut lines = Vec::<Line>::new();
    let mut is_continued = false;
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let place = Place { file: Arc::clone(file), line: index + 1 };
        if line.len() > LINE_LEN_MAX {
            problems.push(Problem::new(&place, format!("the line is longer than {LINE_LEN_MAX} bytes")));
            continue;
        }
        if line.ends_with(b"\r") {
            problems.push(Problem::new(&place, "the line ends in a carriage return, which xrootd takes for a letter"));
        }
        let Some((mut words, goes_on)) = words(&String::from_utf8_lossy(line)) else { continue };
        match lines.last_mut() {
            Some(begun) if is_continued => begun.words.append(&mut words),
            _ => lines.push(Line { place, words }),
        }
        is_continued = goes_on;
    }
    lines
}

/// The words of one line, and whether the next line goes on. `None` for blank lines and comments; those between a line
/// and its continuation are passed over.
fn words(text: &str) -> Option<(Vec<String>, bool)> {
    let trimmed = text.trim_matches([' ', '\t', '\r']);
    if trimmed.starts_with('#') {
        return None;
    }
    let before = trimmed.strip_suffix('\\');
    let words = before.unwrap_or(trimmed).split([' ', '\t']).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(str::to_owned).collect();
    (!words.is_empty()).then_some((words, before.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(usize, String)>, usize) {
        let mut problems = Vec::new();
        let lines = lines(&"a.cfg".into(), text.as_bytes(), &mut problems);
        (lines.into_iter().map(|line| (line.place.line, line.words.join(" "))).collect(), problems.len())
    }

    #[test]
    fn comments_and_blank_lines_are_passed_over() {
        let (lines, problems) = read("# one\n\n\t all.role\tserver  \n  # two \\\nxrd.port 1094 # three\n");
        assert_eq!(lines, [(3, "all.role server".to_owned()), (5, "xrd.port 1094 # three".to_owned())]);
        assert_eq!(problems, 0);
    }

    #[test]
    fn a_line_goes_on_behind_comments_and_blank_lines() {
        let (lines, _) = read("all.export /a \\\n# comment\n\n r/o\\\n  nocheck\nxrd.port 1\n");
        assert_eq!(lines, [(1, "all.export /a r/o nocheck".to_owned()), (6, "xrd.port 1".to_owned())]);
    }

    #[test]
    fn a_backslash_at_the_end_of_the_file_and_one_alone_do_no_harm() {
        assert_eq!(read("all.export /a \\").0, [(1, "all.export /a".to_owned())]);
        assert_eq!(read("\\\nall.export /a\n").0, [(2, "all.export /a".to_owned())]);
        assert_eq!(read("\\\n").0, []);
    }

    #[test]
    fn what_xrootd_stumbles_over_is_told() {
        assert_eq!(read("xrd.port 1\r\nall.role server\r\n").1, 2);
        assert_eq!(read(&"x".repeat(LINE_LEN_MAX)).1, 0);
        assert_eq!(read(&"x".repeat(LINE_LEN_MAX + 1)), (vec![], 1));
    }
}
