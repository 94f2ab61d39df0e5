//! Dependency direction: a crate knows lower levels only, and pure crates know no world.

use crate::{
    finding::Finding,
    manifest,
    sources::Source,
    workspace::{Dependency, Package},
};

/// Where a package of ours stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Part of the product; may use lower levels.
    Level(u8),
    /// Used by tests only; may use any product crate but the binary.
    Testkit,
    /// A program beside the product; nobody uses it, and it uses no binary.
    Tool,
}

/// Every package of the workspace.
const PLACES: &[(&str, Place)] = &[
    ("forebay-types", Place::Level(0)),
    ("forebay-proto", Place::Level(1)),
    ("forebay-cache", Place::Level(1)),
    ("forebay-adopt", Place::Level(1)),
    ("forebay-auth", Place::Level(1)),
    ("forebay-structure", Place::Level(1)),
    ("forebay-sizing", Place::Level(2)),
    ("forebay-http-proto", Place::Level(1)),
    ("forebay-monitoring", Place::Level(1)),
    ("forebay-cms", Place::Level(1)),
    ("forebay-records", Place::Level(1)),
    ("forebay-dcap-proto", Place::Level(1)),
    ("forebay-record-outputs", Place::Level(3)),
    ("forebay-store", Place::Level(2)),
    ("forebay-index", Place::Level(3)),
    ("forebay-net", Place::Level(2)),
    ("forebay-telemetry", Place::Level(2)),
    ("forebay-origin", Place::Level(3)),
    ("forebay-trust", Place::Level(3)),
    ("forebay-engine", Place::Level(4)),
    ("forebay-origin-root", Place::Level(4)),
    ("forebay-origin-http", Place::Level(4)),
    ("forebay-manager", Place::Level(5)),
    ("forebay-front", Place::Level(6)),
    ("forebay-server", Place::Level(7)),
    ("forebay-http", Place::Level(7)),
    ("forebay-dcap", Place::Level(7)),
    ("forebay-cluster", Place::Level(6)),
    ("forebay-admin", Place::Level(7)),
    ("forebay-config", Place::Level(8)),
    ("forebay", Place::Level(9)),
    ("forebay-testkit", Place::Testkit),
    ("forebay-bench", Place::Tool),
    ("forebay-sim", Place::Tool),
    ("forebay-xtask", Place::Tool),
];

/// Highest level of pure crates: no socket, no file, no clock, no task.
const PURE_LEVEL_MAX: u8 = 1;

/// Other crates that pure crates may use: containers, errors, numbers as text, hashing, and cryptography and decompression of bytes in memory.
const PURE_ALLOWED: [&str; 20] = [
    "blowfish",
    "bytes",
    "cfb-mode",
    "crc32c",
    "httparse",
    "httpdate",
    "itoa",
    "lz4_flex",
    "lzma-rust2",
    "md-5",
    "miniz_oxide",
    "openssl",
    "parking_lot",
    "percent-encoding",
    "ruzstd",
    "serde",
    "serde_json",
    "simd-adler32",
    "thiserror",
    "zeroize",
];

/// What tests of pure crates may use besides.
const PURE_ALLOWED_DEV: [&str; 2] = ["divan", "proptest"];

/// Refuses dependencies that point upwards or sideways, and impure ones of pure crates.
pub(crate) fn check(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = manifest::of(package, sources);
        let finding = |needle: &str, problem, remedy| Finding {
            path: manifest.map_or_else(|| package.manifest_path.clone(), |source| source.path.clone()),
            line: manifest.map_or(1, |source| line_of(&source.text, needle)),
            problem,
            remedy,
        };
        let Some(place) = place_of(&package.name) else {
            let problem = format!("{} has no level", package.name);
            findings.push(finding("name", problem, "give it one in the table of xtask/src/levels.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some((problem, remedy)) = breach(place, dependency) {
                findings.push(finding(&dependency.name, format!("{} {problem}", package.name), remedy));
            }
        }
    }
    findings
}

/// What is wrong with one dependency, and the remedy.
fn breach(place: Place, dependency: &Dependency) -> Option<(String, &'static str)> {
    let name = &dependency.name;
    let Some(other) = place_of(name) else {
        let Place::Level(0..=PURE_LEVEL_MAX) = place else {
            return None;
        };
        let is_allowed =
            PURE_ALLOWED.contains(&name.as_str()) || (dependency.is_dev() && PURE_ALLOWED_DEV.contains(&name.as_str()));
        return (!is_allowed)
            .then(|| (format!("is pure but depends on {name}"), "move what needs it to a higher level"));
    };
    match (place, other) {
        (Place::Level(level), Place::Level(lower)) if lower < level => None,
        (Place::Level(level), Place::Level(_)) => {
            Some((format!("is on level {level} but depends on {name}"), "depend on lower levels only"))
        }
        // No tool is delivered: the simulator shares its faulty disk with the tests.
        (Place::Tool, Place::Testkit) => None,
        (Place::Level(_), Place::Testkit) if dependency.is_dev() => None,
        (_, Place::Testkit) => Some((format!("depends on {name} outside its tests"), "move it to [dev-dependencies]")),
        (Place::Testkit | Place::Tool, Place::Level(level)) if level < BINARY_LEVEL => None,
        (_, Place::Tool) => {
            Some((format!("depends on the tool {name}"), "nothing may: move the shared part to a crate"))
        }
        (Place::Testkit | Place::Tool, Place::Level(_)) => {
            Some((format!("depends on the binary {name}"), "drive the program as a process"))
        }
    }
}

fn place_of(name: &str) -> Option<Place> {
    PLACES.iter().find(|(known, _)| *known == name).map(|&(_, place)| place)
}

/// Line of a manifest that begins with `key`, or 1.
fn line_of(manifest: &str, key: &str) -> usize {
    manifest
        .lines()
        .position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '='])))
        .map_or(1, |at| at + 1)
}

/// The level that only wires: the command line.
const BINARY_LEVEL: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: format!("/root/crates/{name}/Cargo.toml"),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) })
                .collect(),
        }
    }

    fn is_clean(name: &str, dependency: &str, kind: Option<&str>) -> bool {
        check(&[package(name, &[(dependency, kind)])], &[]).is_empty()
    }

    #[test]
    fn dependencies_point_downwards() {
        assert!(is_clean("forebay-engine", "forebay-store", None));
        assert!(is_clean("forebay", "forebay-config", None));
        assert!(!is_clean("forebay-store", "forebay-engine", None));
        assert!(!is_clean("forebay-net", "forebay-telemetry", None));
        assert!(!is_clean("forebay-proto", "forebay-cache", Some("dev")));
    }

    #[test]
    fn pure_crates_use_what_is_listed() {
        assert!(is_clean("forebay-proto", "bytes", None));
        assert!(is_clean("forebay-proto", "proptest", Some("dev")));
        assert!(is_clean("forebay-net", "tokio", None));
        assert!(!is_clean("forebay-proto", "tokio", None));
        assert!(!is_clean("forebay-cache", "proptest", None));
        assert!(!is_clean("forebay-types", "rand", Some("build")));
    }

    #[test]
    fn the_testkit_is_for_tests_and_tools_are_for_nobody() {
        assert!(is_clean("forebay-engine", "forebay-testkit", Some("dev")));
        assert!(is_clean("forebay-testkit", "forebay-server", None));
        assert!(is_clean("forebay-bench", "forebay-proto", None));
        assert!(is_clean("forebay-sim", "forebay-testkit", None));
        assert!(!is_clean("forebay-engine", "forebay-testkit", None));
        assert!(!is_clean("forebay-testkit", "forebay", None));
        assert!(!is_clean("forebay-server", "forebay-bench", Some("dev")));
    }

    #[test]
    fn unknown_packages_need_a_level() {
        let findings = check(&[package("forebay-new", &[])], &[]);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn the_place_of_a_breach_is_told() {
        let manifest =
            source("crates/forebay-net/Cargo.toml", "[dependencies]\nbytes = \"1\"\nforebay-origin.workspace = true\n");
        let findings = check(&[package("forebay-net", &[("forebay-origin", None)])], &[manifest]);
        let places: Vec<_> = findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
        assert_eq!(places, [("crates/forebay-net/Cargo.toml", 3)]);
    }
}
