//! Manifests: each crate takes the workspace's lints.

use crate::{finding::Finding, sources::Source, workspace::Package};

/// The manifest of a package among the files of the tree.
pub(crate) fn of<'s>(package: &Package, sources: &'s [Source]) -> Option<&'s Source> {
    sources
        .iter()
        .filter(|source| package.manifest_path.strip_suffix(&source.path).is_some_and(|root| root.ends_with('/')))
        .max_by_key(|source| source.path.len())
}

/// Refuses a crate that does not say `lints.workspace = true`.
pub(crate) fn check(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    packages
        .iter()
        .filter_map(|package| of(package, sources))
        .filter(|source| !has_workspace_lints(&source.text))
        .map(|source| Finding {
            path: source.path.clone(),
            line: 1,
            problem: "the workspace's lints are not taken".to_owned(),
            remedy: "add `lints.workspace = true`",
        })
        .collect()
}

fn has_workspace_lints(manifest: &str) -> bool {
    manifest.parse::<toml::Table>().is_ok_and(|table| {
        table.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    #[test]
    fn each_crate_takes_the_lints_of_the_workspace() {
        assert!(has_workspace_lints("[lints]\nworkspace = true\n"));
        assert!(has_workspace_lints("lints.workspace = true\n"));
        assert!(!has_workspace_lints("[package]\nname = \"x\"\n"));
        assert!(!has_workspace_lints("[lints]\nworkspace = false\n"));
    }

    #[test]
    fn a_breach_is_found_in_the_manifest_of_its_package() {
        let package = Package {
            name: "forebay-net".to_owned(),
            manifest_path: "/root/crates/net/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
        };
        let sources = [source("Cargo.toml", ""), source("crates/net/Cargo.toml", "")];
        let findings = check(&[package], &sources);
        assert_eq!(findings.first().map(|finding| finding.path.as_str()), Some("crates/net/Cargo.toml"));
    }
}
