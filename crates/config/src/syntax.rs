//! The syntax of the file. An error does not end the reading, so that one run reports all of them.

use crate::{
    file::{SECTIONS, Source},
    value::Fault,
};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Most errors that are reported: more do not help, and each duplicate key is searched for in the text before it.
const ERRORS_MAX: usize = 100;

/// The parser's message about a key that a table has already.
const DUPLICATE: &str = "duplicate key";

/// The settings of a file, repeated keys, and violations of the syntax. The settings after a violation may be incomplete.
pub(crate) fn parse<'i>(text: &'i str, source: &Source) -> (DeTable<'i>, Vec<Fault>, Vec<Fault>) {
    let (file, errors) = DeTable::parse_recoverable(text);
    let (mut duplicates, mut broken) = (Vec::new(), Vec::new());
    for error in errors.into_iter().take(ERRORS_MAX) {
        let span = error.span().unwrap_or_default();
        let first = if error.message() == DUPLICATE { first_place(text, &span) } else { None };
        let Some(first) = first else {
            broken.push((span, error.message().replace('\n', ", ")));
            continue;
        };
        let (before, key) = text.split_at_checked(span.start).unwrap_or_default();
        let key = key.get(..span.len()).unwrap_or_default();
        // A single table in place of a list is a mistake of its own.
        if !(before.ends_with('[') && SECTIONS.iter().any(|section| section.is_list && section.name == key)) {
            let (key, place) = (key.escape_default(), source.place("", Some(&first)));
            duplicates.push((span, format!("duplicate key `{key}`, the first is at {place}: write it once")));
        }
    }
    (file.into_inner(), duplicates, broken)
}

/// The place of the last key of the same name before the one at `span`: in the same table, because nothing else is between them.
fn first_place(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let (before, name) = (text.get(..span.start)?, text.get(span.clone())?);
    let (file, _) = DeTable::parse_recoverable(before);
    let mut found = Vec::new();
    find(file.get_ref(), name.trim_matches(['"', '\'']), &mut found);
    found.into_iter().max_by_key(|place| place.start)
}

fn find(table: &DeTable<'_>, name: &str, found: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        if key.get_ref() == name {
            found.push(key.span());
        }
        match value.get_ref() {
            DeValue::Table(table) => find(table, name, found),
            DeValue::Array(list) => {
                list.iter()
                    .map(Spanned::get_ref)
                    .filter_map(DeValue::as_table)
                    .for_each(|table| find(table, name, found));
            }
            _ => {}
        }
    }
}
