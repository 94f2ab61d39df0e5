//! Modules: each has a doc that says what it is, and a name that says something.

use crate::{finding::Finding, sources::Source};

/// Names under which anything could hide.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "misc", "part2"];

/// Refuses modules without a doc, and modules or folders with names that say nothing.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let has_doc = match source.extension() {
        "rs" => has_rust_doc(&source.text),
        "py" => has_python_doc(&source.text),
        _ => return Vec::new(),
    };
    let finding = |problem, remedy| Finding { path: source.path.clone(), line: 1, problem, remedy };
    let mut findings = Vec::new();
    if !has_doc {
        findings.push(finding("no module doc".to_owned(), "say in its first line what the module is"));
    }
    for name in source.path.split('/').map(|component| component.split('.').next().unwrap_or_default()) {
        if EMPTY_NAMES.contains(&name) {
            findings.push(finding(format!("a module named `{name}`"), "name it after the one idea it holds"));
        }
    }
    findings
}

/// Whether the first thing in the file, apart from inner attributes and a shebang, is a `//!` doc.
fn has_rust_doc(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!"))
        .is_some_and(|line| line.starts_with("//!") && line.len() > "//! ".len())
}

/// Whether a docstring comes first. An empty file marks a package and needs none.
fn has_python_doc(text: &str) -> bool {
    text.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .is_none_or(|line| line.starts_with("\"\"\"") || line.starts_with("r\"\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&source(path, text)).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_module_begins_with_its_doc() {
        assert!(problems("a.rs", "//! What it is.\n").is_empty());
        assert!(problems("a.rs", "#![no_main]\n\n//! What it is.\n").is_empty());
        assert!(problems("a.py", "#!/usr/bin/env python3\n\"\"\"What it is.\"\"\"\n").is_empty());
        assert!(problems("__init__.py", "").is_empty());
        for (path, text) in [("a.rs", "use x;\n"), ("a.rs", "//!\nuse x;\n"), ("a.rs", ""), ("a.py", "import x\n")] {
            assert_eq!(problems(path, text), ["no module doc"], "{text}");
        }
    }

    #[test]
    fn names_say_something() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "tests/helpers.py"] {
            let text = if path.ends_with("py") { "\"\"\"Doc.\"\"\"\n" } else { "//! Doc.\n" };
            assert_eq!(problems(path, text).len(), 1, "{path}");
        }
        assert!(problems("src/commonly.rs", "//! Doc.\n").is_empty());
    }
}
