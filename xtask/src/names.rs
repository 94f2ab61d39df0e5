//! The paths that a file names, outside of its tests.

use crate::imports::{flatten, is_test};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::{
    File, Item, ItemMod, ItemUse, Macro, Visibility,
    visit::{self, Visit},
};

/// Every path that begins with `crate`, `super`, `self`, or a name that a `use` item has brought in. Re-exports are left
/// out: they list names and use none.
pub(crate) fn used_in(file: &File) -> Vec<Vec<String>> {
    let mut names = Names::default();
    for item in &file.items {
        if let Item::Use(item) = item {
            names.note_aliases(item);
        }
    }
    names.visit_file(file);
    names.paths
}

#[derive(Default)]
struct Names {
    /// Names that `use` items bring in, and their whole paths.
    aliases: BTreeMap<String, Vec<String>>,
    paths: Vec<Vec<String>>,
}

impl Names {
    fn note_aliases(&mut self, item: &ItemUse) {
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        self.aliases.extend(leaves.into_iter().map(|(path, name)| (name, path)));
    }

    fn note(&mut self, path: Vec<String>) {
        let whole = match path.split_first() {
            Some((first, rest)) => match self.aliases.get(first) {
                Some(alias) => alias.iter().chain(rest).cloned().collect(),
                None => path,
            },
            None => return,
        };
        self.paths.push(whole);
    }

    /// Paths in the input of a macro, as far as they look like paths.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.note_if_path(&mut path);
                    path.push(name.to_string());
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.note_if_path(&mut path);
                    self.note_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.note_if_path(&mut path),
            }
            colons = 0;
        }
        self.note_if_path(&mut path);
    }

    fn note_if_path(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.note(path);
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !matches!(item.vis, Visibility::Inherited) {
            return;
        }
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        self.paths.extend(leaves.into_iter().map(|(path, _)| path));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        visit::visit_item_mod(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.note(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.note_tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }
}

/// The attributes of an item that a condition may stand at.
fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
