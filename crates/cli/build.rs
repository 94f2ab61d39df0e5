//! Passes the commit that is built to the compiler, for `forebay --version`. Outside of git there is none.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    println!("cargo::rerun-if-changed=build.rs");
    for path in ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| changes_with_commits(workspace, name)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rustc-env=FOREBAY_VERSION={}", long_version(workspace));
}

/// The version, and the commit if there is one, with a form like that of `rustc --version`.
fn long_version(workspace: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = git(workspace, &["log", "-1", "--format=%H %cs"]);
    // Git's own abbreviation depends on the number of objects in the clone, and two builds would differ.
    match commit.as_deref().and_then(|line| Some((line.get(..12)?, line.split_once(' ')?.1))) {
        Some((revision, date)) => format!("{version} ({revision} {date})"),
        None => version.to_owned(),
    }
}

/// A file of git to watch; `None` if it is missing, for which cargo would run this at every build.
fn changes_with_commits(workspace: &Path, name: &str) -> Option<PathBuf> {
    let path = workspace.join(git(workspace, &["rev-parse", "--git-path", name])?);
    path.exists().then_some(path)
}

/// The output of git about the workspace. A repository around the workspace does not count.
fn git(workspace: &Path, arguments: &[&str]) -> Option<String> {
    let workspace = workspace.canonicalize().ok()?;
    let output = Command::new("git")
        .env("GIT_CEILING_DIRECTORIES", workspace.parent()?)
        .arg("-C")
        .arg(&workspace)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
