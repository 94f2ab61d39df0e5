//! The types, traits, functions and constants that a crate offers are documented. Fields, variants and methods are free: many
//! need no more than a good name.

use crate::{finding::Finding, imports::is_test, sources::Source};
use syn::{
    Attribute, Item, ItemConst, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStruct, ItemTrait, ItemType, TraitItemFn,
    Visibility,
    visit::{self, Visit},
};

/// Refuses public items of the product's crates that have no doc comment.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let is_product = source.path.starts_with("crates/") && source.path.contains("/src/");
    if !is_product || source.extension() != "rs" {
        return Vec::new();
    }
    let Ok(file) = syn::parse_file(&source.text) else { return Vec::new() };
    let mut items = Undocumented::default();
    items.visit_file(&file);
    let finding = |(line, name): (usize, String)| Finding {
        path: source.path.clone(),
        line,
        problem: format!("`{name}` is public and has no doc comment"),
        remedy: "say in a sentence what it does, with units, limits and errors, or make it pub(crate)",
    };
    items.found.into_iter().map(finding).collect()
}

#[derive(Default)]
struct Undocumented {
    found: Vec<(usize, String)>,
}

impl Undocumented {
    fn look(&mut self, visibility: &Visibility, attributes: &[Attribute], name: &syn::Ident) {
        let is_public = matches!(visibility, Visibility::Public(_));
        if is_public && !attributes.iter().any(|attribute| attribute.path().is_ident("doc")) {
            self.found.push((name.span().start().line, name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Undocumented {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(ItemConst { vis, attrs, ident, .. })
            | Item::Enum(ItemEnum { vis, attrs, ident, .. })
            | Item::Struct(ItemStruct { vis, attrs, ident, .. })
            | Item::Trait(ItemTrait { vis, attrs, ident, .. })
            | Item::Type(ItemType { vis, attrs, ident, .. }) => self.look(vis, attrs, ident),
            Item::Fn(ItemFn { vis, attrs, sig, .. }) => self.look(vis, attrs, &sig.ident),
            Item::Mod(ItemMod { attrs, .. }) if is_test(attrs) => return,
            Item::Impl(ItemImpl { trait_: Some(_), .. }) => return,
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        if matches!(item.vis, Visibility::Public(_)) {
            visit::visit_item_trait(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, method: &'ast TraitItemFn) {
        if !method.attrs.iter().any(|attribute| attribute.path().is_ident("doc")) {
            self.found.push((method.sig.ident.span().start().line, method.sig.ident.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::source;

    fn names(text: &str) -> Vec<String> {
        check(&source("crates/x/src/a.rs", text)).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn public_items_need_a_doc() {
        for text in [
            "pub fn f() {}",
            "pub struct S;",
            "pub enum E {}",
            "pub const LIMIT: u8 = 1;",
            "/// Doc of it.\npub trait T { fn f(&self); }",
        ] {
            assert_eq!(names(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn fields_tests_and_what_is_private_are_free() {
        for text in [
            "/// Doc of it.\npub struct S { pub field: u8 }",
            "/// Doc of it.\npub enum E { Variant }",
            "pub(crate) fn f() {} trait T { fn f(&self); }",
            "struct S; impl S { pub fn len(&self) -> usize { 0 } }",
            "#[cfg(test)] mod tests { pub fn f() {} }",
            "struct S; impl Default for S { fn default() -> Self { S } }",
        ] {
            assert!(names(text).is_empty(), "{text}");
        }
        assert!(check(&source("bench/src/a.rs", "pub fn f() {}")).is_empty());
    }
}
