//! The text files of the tree.

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// A text file under version control, or about to be.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path relative to the root, with `/` between components.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The file name's extension, or an empty text.
    pub(crate) fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether any folder on the way to the file has this name.
    pub(crate) fn is_below(&self, folder: &str) -> bool {
        self.path.rsplit_once('/').is_some_and(|(folders, _)| folders.split('/').any(|name| name == folder))
    }
}

/// Folders of generated things. Folders that begin with a dot are skipped too, except `.ci`.
const SKIPPED_FOLDERS: [&str; 7] =
    ["target", "demo-data", "corpus", "artifacts", "runs", "__pycache__", "node_modules"];

/// Kinds of files that have rules.
const EXTENSIONS: [&str; 5] = ["rs", "py", "toml", "md", "sh"];

/// Reads every file below `root` that a rule looks at, sorted by path.
pub(crate) fn read(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).with_context(|| format!("listing {folder}"))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && is_visited(&name) {
                folders.push(path);
            } else if kind.is_file() && Path::new(&name).extension().is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x))
            {
                let text = fs::read_to_string(root.join(&path)).with_context(|| format!("reading {path}"))?;
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn is_visited(folder: &str) -> bool {
    folder == ".ci" || (!folder.starts_with('.') && !SKIPPED_FOLDERS.contains(&folder))
}

#[cfg(test)]
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_extensions_are_told() {
        let source = source("crates/net/tests/accept.rs", "");
        assert_eq!(source.extension(), "rs");
        assert!(source.is_below("tests"));
        assert!(!source.is_below("accept.rs"));
        assert!(is_visited(".ci"));
        assert!(!is_visited(".git"));
        assert!(!is_visited("target"));
    }
}
