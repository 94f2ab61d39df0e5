//! Folders of a crate stand in floors: a file uses its own folder and lower floors, and circles stay small.

use crate::{finding::Finding, imports::Imports, sources::Source};

/// A crate whose folders stand in floors.
struct House {
    /// Folder of the crate.
    crate_folder: &'static str,
    /// Folders of `src` from the lowest floor up. Folders on one floor do not know each other. Files that lie in `src` itself
    /// stand above all of them.
    floors: &'static [&'static [&'static str]],
}

/// Every crate that is divided into floors.
const HOUSES: &[House] = &[
    House {
        crate_folder: "crates/engine",
        floors: &[
            &["base"],
            &["catalog", "link", "namespace"],
            &["accounting"],
            &["entries"],
            &["freshness", "transfer"],
            &["upkeep"],
            &["api"],
        ],
    },
    House { crate_folder: "crates/server", floors: &[&["base"], &["answers"], &["requests"], &["connection"]] },
    House {
        crate_folder: "crates/config",
        floors: &[
            &["base"],
            &["value", "config"],
            &["file", "old_keys", "public_form"],
            &["convert", "documents", "flags", "manual", "syntax"],
            &["settings"],
            &["environment", "doubts"],
        ],
    },
];

/// Files that may use one another in a circle.
const CYCLE_FILES_MAX: usize = 3;

/// Refuses imports that lead upwards or sideways between floors, folders without a floor, and large circles.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in crate_folders(sources) {
        match Imports::read(&folder, sources) {
            Ok(imports) => {
                findings.extend(check_cycles(&folder, &imports));
                if let Some(house) = HOUSES.iter().find(|house| house.crate_folder == folder) {
                    findings.extend(check_floors(house, &imports));
                }
            }
            Err((path, error)) => findings.push(Finding {
                path,
                line: error.span().start().line,
                problem: format!("not parsed: {error}"),
                remedy: "write Rust that compiles",
            }),
        }
    }
    findings
}

/// One line for each crate: its files, and the files in its largest circle.
pub(crate) fn report(sources: &[Source]) -> Vec<String> {
    let line = |folder: String| {
        let imports = Imports::read(&folder, sources).ok()?;
        let largest = imports.cycles().first().map_or(0, std::collections::BTreeSet::len);
        Some(format!("{folder}: {} files, largest import cycle {largest}", imports.files.len()))
    };
    crate_folders(sources).into_iter().filter_map(line).collect()
}

/// The circles of one crate with the arrows that make them, and the arrows between its folders.
pub(crate) fn report_crate(folder: &str, sources: &[Source]) -> Vec<String> {
    let Ok(imports) = Imports::read(folder, sources) else { return vec![format!("{folder} is not parsed")] };
    let mut lines = Vec::new();
    let file = |number: &usize| imports.files.get(*number).map_or("", String::as_str);
    for cycle in imports.cycles() {
        lines.push(format!("a circle of {} files:", cycle.len()));
        for from in &cycle {
            let used = imports.uses.get(*from).into_iter().flatten().filter(|(to, _)| cycle.contains(to));
            lines.extend(used.map(|(to, name)| format!("  {} -> {}: {name}", file(from), file(to))));
        }
    }
    let mut arrows = std::collections::BTreeMap::<(&str, &str), usize>::new();
    for (from, uses) in imports.files.iter().zip(&imports.uses) {
        for to in uses.keys().map(file) {
            let ends = (folder_of(from).unwrap_or("(root)"), folder_of(to).unwrap_or("(root)"));
            *arrows.entry(ends).or_default() += 1;
        }
    }
    lines.push("arrows between folders, and how many:".to_owned());
    lines.extend(
        arrows.iter().filter(|((from, to), _)| from != to).map(|((from, to), n)| format!("  {from} -> {to}: {n}")),
    );
    lines
}

fn crate_folders(sources: &[Source]) -> Vec<String> {
    let folder = |source: &Source| {
        let root = source.path.strip_suffix("/src/lib.rs").or_else(|| source.path.strip_suffix("/src/main.rs"))?;
        root.starts_with("crates/").then(|| root.to_owned())
    };
    let mut folders: Vec<String> = sources.iter().filter_map(folder).collect();
    folders.dedup();
    folders
}

fn check_cycles(folder: &str, imports: &Imports) -> Vec<Finding> {
    let too_large = imports.cycles().into_iter().filter(|cycle| cycle.len() > CYCLE_FILES_MAX);
    too_large
        .map(|cycle| {
            let names: Vec<&str> =
                cycle.iter().filter_map(|file| imports.files.get(*file)).map(String::as_str).collect();
            Finding {
                path: format!("{folder}/src/{}", names.first().unwrap_or(&"")),
                line: 1,
                problem: format!("{} files import one another in a circle: {}", names.len(), names.join(", ")),
                remedy: "move what both sides need to a file below them",
            }
        })
        .collect()
}

fn check_floors(house: &House, imports: &Imports) -> Vec<Finding> {
    let mut findings = Vec::new();
    let finding = |file: &str, problem: String, remedy| Finding {
        path: format!("{}/src/{file}", house.crate_folder),
        line: 1,
        problem,
        remedy,
    };
    for (file, uses) in imports.files.iter().zip(&imports.uses) {
        let Some(folder) = folder_of(file) else { continue };
        let Some(floor) = house.floor_of(folder) else {
            let problem = format!("the folder {folder} has no floor");
            findings.push(finding(file, problem, "give it one in the table of xtask/src/layers.rs"));
            continue;
        };
        for (used, name) in uses {
            let Some(target) = imports.files.get(*used) else { continue };
            let target_floor = match folder_of(target) {
                Some(other) if other == folder => continue,
                Some(other) => house.floor_of(other).unwrap_or(usize::MAX),
                None => usize::MAX,
            };
            if target_floor >= floor {
                let problem = format!("uses {name} of {target}, which is not on a lower floor");
                findings.push(finding(file, problem, "take what is needed as a parameter, or move it down"));
            }
        }
    }
    findings
}

fn folder_of(file: &str) -> Option<&str> {
    let (folder, _) = file.split_once('/').or_else(|| Some((file.strip_suffix(".rs")?, "")))?;
    (!matches!(folder, "lib" | "main")).then_some(folder)
}

impl House {
    fn floor_of(&self, folder: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.contains(&folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    const HOUSE: House = House { crate_folder: "crates/x", floors: &[&["base"], &["left", "right"], &["api"]] };

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| source(&format!("crates/x/src/{path}"), text)).collect();
        let imports = Imports::read("crates/x", &sources).unwrap();
        check_floors(&HOUSE, &imports).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn imports_lead_down() {
        let files = [
            ("lib.rs", "mod api; mod base; mod left; mod right; use api::A;"),
            ("api/mod.rs", "use crate::{base::B, left::L}; pub struct A;"),
            ("base/mod.rs", "pub struct B;"),
            ("left/mod.rs", "use crate::base::B; pub struct L;"),
            ("right/mod.rs", ""),
        ];
        assert!(problems(&files).is_empty());
        for (path, text) in [
            ("base/up.rs", "use crate::left::L;"),
            ("right/sideways.rs", "use crate::left::L;"),
            ("left/to_the_root.rs", "use crate::Thing;"),
            ("attic/mod.rs", ""),
        ] {
            let mut files = files.to_vec();
            files.push((path, text));
            assert_eq!(problems(&files).len(), 1, "{path}");
        }
    }

    #[test]
    fn circles_of_four_files_are_refused() {
        let file = |name: &str, next: &str| {
            source(&format!("crates/x/src/{name}.rs"), &format!("use crate::{next}::T; pub struct T;"))
        };
        let root = source("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;");
        let three = [root, file("a", "b"), file("b", "c"), file("c", "a"), file("d", "a")];
        assert!(check(&three).is_empty());
        let root = source("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;");
        let four = [root, file("a", "b"), file("b", "c"), file("c", "d"), file("d", "a")];
        assert_eq!(check(&four).len(), 1);
    }
}
