//! Keys of earlier releases. A removed key is accepted with a warning for one release, then it is an error like any other
//! unknown key.

use crate::value::Fault;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key that the last release had and this one ignores: table, key, and the reason, as the end of the sentence
/// "`table.key` is ignored: ...". Entries are deleted one release later.
pub(crate) const OLD_KEYS: &[(&str, &str, &str)] =
    &[("origin", "streams", "parallel streams to origins were slower than one connection")];

/// Takes old keys out of the file; returns a warning for each.
pub(crate) fn remove(file: &mut DeTable<'_>, old_keys: &[(&str, &str, &str)]) -> Vec<Fault> {
    let mut warnings = Vec::new();
    for (section, key, reason) in old_keys {
        let mut remove_from = |value: &mut DeValue<'_>| {
            if let DeValue::Table(table) = value
                && let Some((written, _)) = table.remove_entry(*key)
            {
                warnings.push((written.span(), format!("`{section}.{key}` is ignored: {reason}")));
            }
        };
        match file.get_mut(*section).map(Spanned::get_mut) {
            Some(DeValue::Array(list)) => list.iter_mut().for_each(|table| remove_from(table.get_mut())),
            Some(value) => remove_from(value),
            None => {}
        }
    }
    warnings.sort_by_key(|(place, _)| place.start);
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(text: &str) -> (String, Vec<(usize, String)>) {
        let mut file = DeTable::parse(text).unwrap();
        let warnings = remove(file.get_mut(), &[("export", "mode", "exports are read-only")]);
        let file: toml::Table = serde::Deserialize::deserialize(toml::Deserializer::from(file)).unwrap();
        (file.to_string(), warnings.into_iter().map(|(place, text)| (place.start, text)).collect())
    }

    #[test]
    fn a_removed_key_is_ignored_in_each_table_of_a_list() {
        let (file, warnings) = removed("[[export]]\nmode = 1\n[[export]]\npath = \"/a\"\nmode = 2\n");
        assert_eq!(file, "[[export]]\n\n[[export]]\npath = \"/a\"\n");
        let text = "`export.mode` is ignored: exports are read-only".to_owned();
        assert_eq!(warnings, [(11, text.clone()), (43, text.clone())]);
        assert_eq!(removed("[export]\nmode = 1\n"), ("[export]\n".to_owned(), vec![(9, text)]));
    }

    #[test]
    fn other_files_are_left_alone() {
        for text in ["", "[origin]\nattempts = 3\n", "origin = 1\n", "export = 1\n"] {
            assert_eq!(removed(text), (text.to_owned(), Vec::new()), "{text}");
        }
    }
}
