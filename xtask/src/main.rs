//! House checks that no lint can see: `cargo xtask tidy`.

mod commit_message;
mod doc_tests;
mod documented;
mod finding;
mod imports;
mod language;
mod layers;
mod levels;
mod links;
mod manifest;
mod modules;
mod names;
mod python_text;
mod reasons;
mod rust_text;
mod size;
mod sleeps;
mod sources;
mod whitespace;
mod words;
mod workspace;

use anyhow::{Context, Result, bail};
use finding::Finding;
use sources::Source;
use std::{path::Path, process::ExitCode};

const USAGE: &str = "usage: cargo xtask tidy [--commit-msg FILE] | cargo xtask structure [CRATE] | cargo xtask language [--accept | AREA HABIT]";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command named on the command line; says whether the tree is clean.
fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["tidy", "--commit-msg", file] => tidy_commit_message(Path::new(file)),
        ["language"] => language_counts(),
        ["language", "--accept"] => accept_language(),
        ["language", area, habit] => language_places(area, habit),
        ["structure"] => structure(None),
        ["structure", name] => structure(Some(name)),
        _ => bail!("{USAGE}"),
    }
}

fn tidy() -> Result<bool> {
    let metadata = workspace::read()?;
    let sources = sources::read(Path::new(&metadata.workspace_root)).context("reading the tree")?;
    for notice in sources.iter().filter_map(size::notice) {
        println!("note: {notice}");
    }
    let mut findings = check_sources(&sources);
    findings.extend(levels::check(&metadata.packages, &sources));
    let limits = language::read_limits(Path::new(&metadata.workspace_root))?;
    findings.extend(language::check(&sources, &limits));
    findings.extend(reasons::check(&sources));
    findings.extend(links::check(Path::new(&metadata.workspace_root), &sources));
    findings.extend(layers::check(&sources));
    findings.extend(manifest::check(&metadata.packages, &sources));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", sources.len(), findings.len());
    Ok(findings.is_empty())
}

/// Checks the subject of a commit message, as the hook `commit-msg` gives it.
fn tidy_commit_message(file: &Path) -> Result<bool> {
    let message = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let problems = commit_message::check(&message);
    for problem in &problems {
        eprintln!("commit message: {problem}");
    }
    Ok(problems.is_empty())
}

fn read_tree() -> Result<(std::path::PathBuf, Vec<Source>)> {
    let root = std::path::PathBuf::from(workspace::read()?.workspace_root);
    let sources = sources::read(&root).context("reading the tree")?;
    Ok((root, sources))
}

/// Prints how often each habit occurs in each area, and in all.
fn language_counts() -> Result<bool> {
    let (_, sources) = read_tree()?;
    let mut totals = std::collections::BTreeMap::<String, usize>::new();
    for (area, habits) in language::count(&sources) {
        let counts: Vec<String> = habits.iter().map(|(habit, count)| format!("{habit} {count}")).collect();
        println!("{area}: {}", counts.join(", "));
        for (habit, count) in habits {
            *totals.entry(habit).or_default() += count;
        }
    }
    let totals: Vec<String> = totals.iter().map(|(habit, count)| format!("{habit} {count}")).collect();
    println!("all: {}", totals.join(", "));
    for (name, ratio) in reasons::ratios(&sources) {
        println!("crates/{name}: {ratio:.1} lines of comments for 100 lines of code");
    }
    Ok(true)
}

fn accept_language() -> Result<bool> {
    let (root, sources) = read_tree()?;
    language::accept(&root, &sources, &language::read_limits(&root)?)?;
    Ok(true)
}

fn language_places(area: &str, habit: &str) -> Result<bool> {
    for (path, line) in language::places(&read_tree()?.1, area, habit) {
        println!("{path}:{line}");
    }
    Ok(true)
}

/// Prints the import structure of each crate, or of one in detail.
fn structure(name: Option<&str>) -> Result<bool> {
    let metadata = workspace::read()?;
    let sources = sources::read(Path::new(&metadata.workspace_root)).context("reading the tree")?;
    let lines = match name {
        Some(name) => layers::report_crate(&format!("crates/{name}"), &sources),
        None => layers::report(&sources),
    };
    for line in lines {
        println!("{line}");
    }
    Ok(true)
}

/// Findings of the rules that look at one file at a time.
fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let rules: [fn(&Source) -> Vec<Finding>; 7] = [
        documented::check,
        doc_tests::check,
        size::check,
        words::check,
        modules::check,
        sleeps::check,
        whitespace::check,
    ];
    sources.iter().flat_map(|source| rules.iter().flat_map(|rule| rule(source))).collect()
}
