//! Comments that give reasons: in the crates whose code has the hard branches, there are some.

use crate::{finding::Finding, rust_text, sources::Source};
use std::collections::BTreeMap;

/// Crates that are looked at, and how many lines of comments there are at least for 100 lines of code.
const MINIMA: &[(&str, f64)] =
    &[("engine", 4.0), ("front", 3.5), ("origin", 4.0), ("origin-root", 4.0), ("server", 3.5), ("store", 3.5)];

/// Refuses crates with too few comments that are not documentation.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let ratios = ratios(sources);
    let short = |(name, minimum): &(&str, f64)| {
        let ratio = ratios.get(*name).copied().unwrap_or_default();
        (ratio < *minimum).then(|| Finding {
            path: format!("crates/{name}"),
            line: 1,
            problem: format!("{ratio:.1} lines of comments for 100 lines of code (at least {minimum})"),
            remedy: "give the reason where a branch is not obvious",
        })
    };
    MINIMA.iter().filter_map(short).collect()
}

/// By crate: lines of `//` comments, documentation aside, for 100 lines of code. Tests do not count.
pub(crate) fn ratios(sources: &[Source]) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::<String, (usize, usize)>::new();
    for source in sources {
        let Some((name, file)) = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        if !file.ends_with(".rs") {
            continue;
        }
        let (comments, code) = sums.entry(name.to_owned()).or_default();
        for line in rust_text::split(&source.text) {
            if line.code.trim() == "#[cfg(test)]" {
                break;
            }
            let is_doc = ["///", "//!"].iter().any(|start| line.comment.starts_with(start));
            *comments += usize::from(line.comment.starts_with("//") && !is_doc);
            *code += usize::from(!line.code.trim().is_empty());
        }
    }
    let ratio = |(name, (comments, code)): (String, (usize, usize))| {
        let comments = u32::try_from(comments).unwrap_or(u32::MAX);
        let code = u32::try_from(code).unwrap_or(u32::MAX).max(1);
        (name, 100.0 * f64::from(comments) / f64::from(code))
    };
    sums.into_iter().map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    #[test]
    fn comments_count_but_documentation_and_tests_do_not() {
        let text = "//! Doc.\n/// Doc.\nfn f() {\n// Why.\n}\n#[cfg(test)]\nmod tests {\n// Why.\n}\n";
        let ratios = ratios(&[source("crates/x/src/a.rs", text)]);
        assert_eq!(ratios.get("x").map(|ratio| ratio.round()), Some(50.0));
    }
}
