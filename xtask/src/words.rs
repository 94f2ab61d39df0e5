//! Words of unfinished work.

use crate::{finding::Finding, python_text, rust_text, rust_text::Line, sources::Source};

/// Macros that stand for code that is not there, or that should be gone.
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Words that mark open ends in comments.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Refuses placeholder macros, tests that are switched off, and marks in comments without a reason.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let lines = match source.extension() {
        "rs" => rust_text::split(&source.text),
        "py" => python_text::split(&source.text),
        _ => return Vec::new(),
    };
    lines.iter().zip(1..).flat_map(|(line, number)| check_line(source, line, number)).collect()
}

fn check_line(source: &Source, line: &Line, number: usize) -> Vec<Finding> {
    let finding = |problem, remedy| Finding { path: source.path.clone(), line: number, problem, remedy };
    let mut findings = Vec::new();
    for name in MACROS.iter().filter(|name| has_word(&line.code, name)) {
        findings.push(finding(format!("`{name}` in the code"), "finish the work or leave it out"));
    }
    if ["#[ignore]", "#[ignore =", "pytest.mark.skip("].iter().any(|mark| line.code.contains(mark)) {
        findings.push(finding("a test that never runs".to_owned(), "mend the test or remove it"));
    }
    for mark in MARKS.iter().filter(|mark| has_unreasoned_mark(&line.comment, mark)) {
        findings.push(finding(format!("{mark} without a reason"), "write `MARK(why it waits): what`, or do it now"));
    }
    findings
}

/// Whether `code` holds `word` with no name character before it.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| !code.get(..at).is_some_and(|before| before.ends_with(is_name_char)))
}

/// Whether `comment` holds `mark` as a word of its own that no `(reason)` follows.
fn has_unreasoned_mark(comment: &str, mark: &str) -> bool {
    comment.match_indices(mark).any(|(at, _)| {
        let before = comment.get(..at).unwrap_or_default();
        let behind = comment.get(at + mark.len()..).unwrap_or_default();
        let is_word = !before.ends_with(is_name_char) && !behind.starts_with(is_name_char);
        let reason = behind.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(reason, _)| reason);
        is_word && reason.trim().is_empty()
    })
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn count(path: &str, text: &str) -> usize {
        check(&source(path, text)).len()
    }

    #[test]
    fn placeholder_macros_are_refused_in_code_only() {
        assert_eq!(count("a.rs", "fn f() { todo!() }\nfn g() { dbg!(1); unimplemented!() }"), 3);
        assert_eq!(count("a.rs", "let s = \"todo!\"; // dbg! is banned\nmy_todo!()"), 0);
    }

    #[test]
    fn marks_need_a_reason() {
        assert_eq!(count("a.rs", "// TODO: later\n/* FIXME */\n// TODO(): x"), 3);
        assert_eq!(count("a.py", "x = 1  # TODO later"), 1);
        assert_eq!(count("a.rs", "// TODO(needs Linux 6.9): use it\nlet s = \"TODO\"; // TODOS are many"), 0);
    }

    #[test]
    fn switched_off_tests_are_refused() {
        assert_eq!(count("a.rs", "#[ignore]\n#[ignore = \"slow\"]"), 2);
        assert_eq!(count("a.py", "@pytest.mark.skip(reason='x')"), 1);
        assert_eq!(count("a.rs", "// #[ignore] is refused\n#[ignored]"), 0);
    }

    #[test]
    fn other_files_are_free() {
        assert_eq!(count("a.md", "TODO: todo!"), 0);
    }
}
