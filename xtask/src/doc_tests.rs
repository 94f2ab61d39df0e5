//! Documentation has no code blocks: no step runs them as tests, which would take a run of the compiler for each crate.

use crate::{finding::Finding, rust_text, sources::Source};

/// Refuses code blocks in documentation comments.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.extension() != "rs" {
        return Vec::new();
    }
    let lines = rust_text::split(&source.text);
    let is_doc = |comment: &str| ["///", "//!"].iter().any(|start| comment.starts_with(start));
    let blocks = lines.iter().enumerate().filter(|(_, line)| is_doc(&line.comment) && line.comment.contains("```"));
    let finding = |(at, _)| Finding {
        path: source.path.clone(),
        line: at + 1,
        problem: "a code block in documentation, which no test compiles".to_owned(),
        remedy: "show the use in a unit test",
    };
    blocks.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    #[test]
    fn code_blocks_of_documentation_are_refused_and_others_pass() {
        let text = "//! ```\n//! f();\n//! ```\n// ```\n/// Text.\nfn f() { \"```\"; }\n";
        let found: Vec<usize> = check(&source("src/a.rs", text)).into_iter().map(|finding| finding.line).collect();
        assert_eq!(found, [1, 3]);
        assert!(check(&source("docs/a.md", "```\n")).is_empty());
    }
}
