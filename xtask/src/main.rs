//! House checks that no lint can see: `cargo xtask tidy`.

mod finding;
mod imports;
mod layers;
mod levels;
mod manifest;
mod modules;
mod names;
mod python_text;
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

const USAGE: &str = "usage: cargo xtask tidy | cargo xtask structure [CRATE]";

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
    findings.extend(manifest::check(&metadata.packages, &sources));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", sources.len(), findings.len());
    Ok(findings.is_empty())
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

/// What the rules that look at one file at a time have to say.
fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let rules: [fn(&Source) -> Vec<Finding>; 5] =
        [size::check, words::check, modules::check, sleeps::check, whitespace::check];
    sources.iter().flat_map(|source| rules.iter().flat_map(|rule| rule(source))).collect()
}
