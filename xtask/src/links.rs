//! Links between documents: their files and headings exist.

use crate::{finding::Finding, sources::Source};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Refuses links of documents to files and headings that do not exist.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Vec<Finding> {
    let documents: BTreeMap<&str, BTreeSet<String>> = sources
        .iter()
        .filter(|source| source.extension() == "md")
        .map(|source| (source.path.as_str(), headings(&source.text)))
        .collect();
    let exists = |path: &str| root.join(path).exists();
    sources
        .iter()
        .filter(|source| source.extension() == "md")
        .flat_map(|source| check_one(source, &documents, &exists))
        .collect()
}

fn check_one(
    source: &Source,
    documents: &BTreeMap<&str, BTreeSet<String>>,
    exists: &impl Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in prose(&source.text) {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { source.path.clone() } else { resolve(&source.path, file) };
            let problem = match documents.get(path.as_str()) {
                Some(headings) if heading.is_empty() || headings.contains(heading) => continue,
                Some(_) => format!("{path} has no heading #{heading}"),
                None if exists(&path) => continue,
                None => format!("{path} does not exist"),
            };
            findings.push(Finding { path: source.path.clone(), line: number, problem, remedy: "correct the link" });
        }
    }
    findings
}

/// Lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut is_code = false;
    text.lines().zip(1..).filter(move |(line, _)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links of a line: `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchors of the headings of a document, as GitHub forms them: lower case, spaces as hyphens, no punctuation.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (line, _) in prose(text) {
        let title = line.trim_start_matches('#');
        if let (true, Some(title)) = (line.starts_with('#'), title.strip_prefix(' ')) {
            anchors.insert(anchor(title));
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path relative to the folder of a document.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    #[test]
    fn links_to_absent_files_and_headings_are_found() {
        let guide = source("docs/guide.md", "# The `[guide]`, v2\n```\n# no heading\n```\n## A-b c_d\n");
        let text = "[a](docs/guide.md#the-guide-v2) [b](docs/guide.md#a-b-c_d)\n[c](docs/guide.md#no-heading)\n\
                    [d](https://x/y) [e](Makefile) [f](absent.txt)\n```\n[g](absent)\n```\n";
        let readme = source("README.md", text);
        let documents = [&guide, &readme].map(|source| (source.path.as_str(), headings(&source.text))).into();
        let findings = check_one(&readme, &documents, &|path| path == "Makefile");
        let found: Vec<_> = findings.iter().map(|finding| (finding.line, finding.problem.as_str())).collect();
        assert_eq!(found, [(2, "docs/guide.md has no heading #no-heading"), (3, "absent.txt does not exist")]);
    }

    #[test]
    fn targets_are_relative_to_their_document() {
        assert_eq!(resolve("docs/a.md", "../README.md"), "README.md");
        assert_eq!(resolve("docs/decisions/1.md", "./2.md"), "docs/decisions/2.md");
        assert_eq!(resolve("README.md", "docs/"), "docs");
    }
}
