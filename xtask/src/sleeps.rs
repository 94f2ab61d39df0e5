//! Tests wait for conditions, not for time.

use crate::{finding::Finding, python_text, rust_text, rust_text::Line, sources::Source};

/// Comment that excuses a sleep, on its line or the one before, with the reason behind it.
const EXCUSE: &str = "sleep:";

const REMEDY: &str = "wait for the condition, pause the clock, or say why in a comment `sleep: …`";

/// Refuses sleeping in tests. Free are tests under a paused clock, and polling loops in Python, where the programs
/// under test offer nothing to wait for.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let (lines, is_free): (_, fn(&[Line], &Line) -> bool) = match source.extension() {
        "rs" => (rust_text::split(&source.text), has_paused_clock),
        "py" => (python_text::split(&source.text), is_in_python_loop),
        _ => return Vec::new(),
    };
    let is_test_file = source.is_below("tests");
    let tests_begin = lines.iter().position(|line| line.code.trim() == "#[cfg(test)]");
    let first = if is_test_file { Some(0) } else { tests_begin };
    let Some(first) = first else {
        return Vec::new();
    };
    (first..lines.len())
        .filter(|&at| {
            let (before, behind) = lines.split_at(at);
            behind.first().is_some_and(|line| is_sleep(line) && !is_excused(before, line) && !is_free(before, line))
        })
        .map(|at| Finding {
            path: source.path.clone(),
            line: at + 1,
            problem: "a test that sleeps".to_owned(),
            remedy: REMEDY,
        })
        .collect()
}

/// Whether the line calls a function named `sleep`.
fn is_sleep(line: &Line) -> bool {
    line.code.match_indices("sleep(").any(|(at, _)| {
        let before = line.code.get(..at).unwrap_or_default();
        let is_longer_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !is_longer_name && !before.ends_with("fn ") && !before.ends_with("def ")
    })
}

/// Whether the line, or the one before it, carries the excuse.
fn is_excused(before: &[Line], line: &Line) -> bool {
    [Some(line), before.last()].into_iter().flatten().any(|line| line.comment.contains(EXCUSE))
}

/// Whether the nearest test attribute above pauses tokio's clock.
fn has_paused_clock(before: &[Line], _line: &Line) -> bool {
    before
        .iter()
        .rev()
        .find(|line| line.code.contains("test]") || line.code.contains("test("))
        .is_some_and(|line| line.code.contains("start_paused"))
}

/// Whether the line sits in a loop of its function.
fn is_in_python_loop(before: &[Line], line: &Line) -> bool {
    let indent_of = |line: &Line| line.code.len() - line.code.trim_start().len();
    let mut indent_max = indent_of(line);
    for line in before.iter().rev() {
        let code = line.code.trim();
        let indent = indent_of(line);
        if code.is_empty() || indent >= indent_max {
            continue;
        }
        if code.starts_with("while ") || code.starts_with("for ") {
            return true;
        }
        if code.starts_with("def ") || code.starts_with("async def ") {
            return false;
        }
        indent_max = indent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&source(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn rust_tests_that_sleep_are_refused() {
        let text = "#[cfg(test)]\nmod tests {\n#[test]\nfn a() {\n    thread::sleep(x);\n}\n}\n";
        assert_eq!(lines("src/a.rs", text), [5]);
        assert_eq!(lines("crates/x/tests/a.rs", "#[tokio::test]\nfn a() { sleep(x).await }\n"), [2]);
    }

    #[test]
    fn product_code_paused_clocks_and_excuses_pass() {
        assert!(lines("src/a.rs", "fn a() { sleep(x) }\n#[cfg(test)]\nmod tests {}\n").is_empty());
        assert!(lines("tests/a.rs", "#[tokio::test(start_paused = true)]\nfn a() { sleep(x) }\n").is_empty());
        assert!(lines("tests/a.rs", "#[test]\nfn a() {\n// sleep: mtime has a grain of 1 s\nsleep(x)\n}\n").is_empty());
        assert!(lines("tests/a.rs", "fn slow_sleep(x: u8) {}\n// sleep( is refused\n").is_empty());
    }

    #[test]
    fn python_may_poll_but_not_nap() {
        let poll = "def wait():\n    while True:\n        if ready():\n            return\n        time.sleep(0.05)\n";
        assert!(lines("tests/a.py", poll).is_empty());
        assert_eq!(lines("tests/a.py", "def test_a():\n    start()\n    time.sleep(2)\n"), [3]);
        let nap_behind_loop = "def test_a():\n    for x in y:\n        z()\n    time.sleep(2)\n";
        assert_eq!(lines("tests/a.py", nap_behind_loop), [4]);
    }
}
