//! Which file of a crate uses which, read from `use` items and paths.
//!
//! Names are followed through re-exports to the file that defines them, so a `mod.rs` that only lists its folder's names
//! ties nothing together. Code under `#[cfg(test)]` does not count.

use crate::{names, sources::Source};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item, UseTree, Visibility};

/// The files of one crate and the arrows between them.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// Paths of the files, relative to the crate's `src`.
    pub(crate) files: Vec<String>,
    /// By file number: the files that it uses, each with one name that it takes from there.
    pub(crate) uses: Vec<BTreeMap<usize, String>>,
}

/// A module path from the crate's root; empty for `lib.rs`.
type ModulePath = Vec<String>;

/// What the files of a crate declare.
#[derive(Default)]
struct Modules {
    /// The file of each module.
    files: BTreeMap<ModulePath, usize>,
    /// By module: each name that it re-exports, and where that leads.
    exports: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
    /// By module: modules whose names it re-exports as a whole.
    globs: BTreeMap<ModulePath, Vec<ModulePath>>,
}

/// Re-exports that are followed for one name: more would be a circle.
const HOPS_MAX: usize = 16;

impl Imports {
    /// Reads the files of the crate in `folder`, for example `crates/engine`.
    ///
    /// # Errors
    /// When a file is not Rust.
    pub(crate) fn read(folder: &str, sources: &[Source]) -> Result<Self, (String, syn::Error)> {
        let prefix = format!("{folder}/src/");
        let mut parsed = Vec::new();
        for source in sources {
            let Some(file) = source.path.strip_prefix(&prefix).filter(|file| file.ends_with(".rs")) else { continue };
            let syntax = syn::parse_file(&source.text).map_err(|error| (source.path.clone(), error))?;
            parsed.push((file.to_owned(), module_of(file), syntax));
        }
        let mut modules = Modules::default();
        for (number, (_, module, syntax)) in parsed.iter().enumerate() {
            modules.files.insert(module.clone(), number);
            modules.note_exports(module, &syntax.items);
        }
        let mut imports = Self::default();
        for (number, (file, module, syntax)) in parsed.iter().enumerate() {
            let mut uses = BTreeMap::new();
            for path in names::used_in(syntax) {
                let Some(absolute) = absolute(module, &path, &modules) else { continue };
                let target = modules.file_of(&absolute, HOPS_MAX);
                if let Some(target) = target.filter(|target| *target != number) {
                    uses.entry(target).or_insert_with(|| absolute.join("::"));
                }
            }
            imports.files.push(file.clone());
            imports.uses.push(uses);
        }
        Ok(imports)
    }

    /// Files that use one another in circles, the largest circle first.
    pub(crate) fn cycles(&self) -> Vec<BTreeSet<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|file| self.reachable(file)).collect();
        let mut cycles = BTreeSet::new();
        for (file, reached) in reach.iter().enumerate() {
            let is_mutual = |other: &&usize| reach.get(**other).is_some_and(|back| back.contains(&file));
            let cycle: BTreeSet<usize> = reached.iter().filter(is_mutual).copied().collect();
            if cycle.len() > 1 {
                cycles.insert(cycle);
            }
        }
        let mut cycles: Vec<_> = cycles.into_iter().collect();
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }

    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            let uses = self.uses.get(file).into_iter().flat_map(BTreeMap::keys);
            next.extend(uses.filter(|used| reached.insert(**used)));
        }
        reached
    }
}

impl Modules {
    fn note_exports(&mut self, module: &ModulePath, items: &[Item]) {
        for item in items {
            let Item::Use(item) = item else { continue };
            if matches!(item.vis, Visibility::Inherited) || is_test(&item.attrs) {
                continue;
            }
            let mut leaves = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut leaves);
            for (path, name) in leaves {
                let target = from_here(module, &path);
                if name == "*" {
                    self.globs.entry(module.clone()).or_default().push(target);
                } else {
                    self.exports.entry(module.clone()).or_default().insert(name, target);
                }
            }
        }
    }

    /// The file that defines what `path` names; `None` when that is outside of the crate.
    fn file_of(&self, path: &[String], hops: usize) -> Option<usize> {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| path.get(..*depth).is_some_and(|head| self.files.contains_key(head)))?;
        let (module, rest) = path.split_at(depth);
        let Some((name, behind)) = rest.split_first() else { return self.files.get(module).copied() };
        let onward = |target: &ModulePath| -> ModulePath { target.iter().chain(behind).cloned().collect() };
        if hops > 0 {
            if let Some(target) = self.exports.get(module).and_then(|exports| exports.get(name)) {
                // A name of another crate that passes through ties no files of this one.
                return self.file_of(&onward(target), hops - 1).filter(|_| self.is_ours(target));
            }
            for target in self.globs.get(module).into_iter().flatten() {
                let path: ModulePath = target.iter().chain(rest).cloned().collect();
                if let Some(file) = self.file_of(&path, hops - 1).filter(|file| self.files.get(module) != Some(file)) {
                    return Some(file);
                }
            }
        }
        self.files.get(module).copied()
    }

    fn is_ours(&self, path: &[String]) -> bool {
        path.first().is_some_and(|first| self.files.contains_key(std::slice::from_ref(first)))
    }
}

/// The module that a file holds: `a/mod.rs` and `a.rs` are `a`.
fn module_of(file: &str) -> ModulePath {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") {
        return Vec::new();
    }
    stem.split('/').map(str::to_owned).collect()
}

/// A path as written in `module`, from the crate's root; `None` when it leads out of the crate.
fn absolute(module: &ModulePath, path: &[String], modules: &Modules) -> Option<ModulePath> {
    let first = path.first()?;
    if matches!(first.as_str(), "crate" | "super" | "self") {
        return Some(from_here(module, path));
    }
    let child: ModulePath = module.iter().chain([first]).cloned().collect();
    let is_child = modules.files.contains_key(&child);
    is_child.then(|| module.iter().chain(path).cloned().collect())
}

/// A path as written in `module`, from the crate's root. One that begins with neither keyword is taken as relative.
fn from_here(module: &ModulePath, path: &[String]) -> ModulePath {
    let mut base = module.clone();
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "super" => drop(base.pop()),
            "self" => {}
            _ => break,
        }
        rest = behind;
    }
    base.extend_from_slice(rest);
    base
}

/// The leaves of a `use` tree: the whole path, and the name that it gets (`*` for all names).
pub(crate) fn flatten(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(ModulePath, String)>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, leaves)),
        UseTree::Glob(_) => leaves.push((prefix.clone(), "*".to_owned())),
        UseTree::Name(name) => push_leaf(prefix, &name.ident.to_string(), None, leaves),
        UseTree::Rename(name) => push_leaf(prefix, &name.ident.to_string(), Some(name.rename.to_string()), leaves),
    }
}

fn push_leaf(prefix: &[String], name: &str, alias: Option<String>, leaves: &mut Vec<(ModulePath, String)>) {
    let mut path = prefix.to_vec();
    // `use a::b::{self}` names `b` itself.
    if name != "self" || path.is_empty() {
        path.push(name.to_owned());
    }
    let own_name = path.last().cloned().unwrap_or_default();
    leaves.push((path, alias.unwrap_or(own_name)));
}

/// Whether an item is compiled for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut is_test = attribute.path().is_ident("test");
        if attribute.path().is_ident("cfg") {
            let note = |meta: syn::meta::ParseNestedMeta<'_>| {
                is_test |= meta.path.is_ident("test");
                Ok(())
            };
            // Other conditions are of no interest, in whatever form.
            let _ = attribute.parse_nested_meta(note);
        }
        is_test
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn arrows(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let sources: Vec<_> = files.iter().map(|(path, text)| source(&format!("crates/x/src/{path}"), text)).collect();
        let imports = Imports::read("crates/x", &sources).unwrap();
        let mut arrows = Vec::new();
        for (from, uses) in imports.uses.iter().enumerate() {
            arrows.extend(uses.keys().map(|to| (imports.files[from].clone(), imports.files[*to].clone())));
        }
        arrows
    }

    fn arrow(from: &str, to: &str) -> (String, String) {
        (from.to_owned(), to.to_owned())
    }

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::inner::Thing; pub use bytes::Bytes;"),
            ("a/mod.rs", "mod inner; pub(crate) use inner::Thing as Renamed;"),
            ("a/inner.rs", "pub struct Thing;"),
            ("b.rs", "use crate::{Thing, a::Renamed, Bytes};"),
        ];
        assert_eq!(arrows(&files), [arrow("b.rs", "a/inner.rs")]);
    }

    #[test]
    fn paths_in_code_and_macros_count() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub fn f() {} pub fn g() {}"),
            ("b.rs", "fn x() { crate::a::f() }"),
            ("c.rs", "use super::a; fn x() { select! { y = a::g() => crate::b::z() } }"),
        ];
        assert_eq!(arrows(&files), [arrow("b.rs", "a.rs"), arrow("c.rs", "a.rs"), arrow("c.rs", "b.rs")]);
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] use crate::b::B;"),
            ("b.rs", "pub struct B;"),
        ];
        assert!(arrows(&files).is_empty());
    }

    #[test]
    fn circles_are_found_whole() {
        let sources = [
            source("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;"),
            source("crates/x/src/a.rs", "use crate::b::B; pub struct A;"),
            source("crates/x/src/b.rs", "use crate::c::C; pub struct B;"),
            source("crates/x/src/c.rs", "use crate::a::A; pub struct C;"),
            source("crates/x/src/d.rs", "use crate::a::A;"),
        ];
        let cycles = Imports::read("crates/x", &sources).unwrap().cycles();
        assert_eq!(cycles.iter().map(BTreeSet::len).collect::<Vec<_>>(), [3]);
    }
}
