//! Keys of earlier releases. A renamed or removed key is accepted with a warning for one release, then it is an error like
//! any other unknown key.

use crate::value::Fault;
use std::borrow::Cow;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key that an earlier release had.
#[derive(Debug)]
pub(crate) struct OldKey {
    pub(crate) table: &'static str,
    pub(crate) key: &'static str,
    pub(crate) now: Now,
}

/// The treatment of the value of an old key.
#[derive(Debug)]
pub(crate) enum Now {
    /// The value is used for this key of the same table.
    #[cfg_attr(not(test), expect(dead_code, reason = "no key has been renamed yet"))]
    Renamed(&'static str),
    /// The value is ignored. The text gives the reason, as the end of the sentence "`table.key` is ignored: ...".
    Removed(&'static str),
}

/// All keys of the last release that this one does not have. Entries are deleted one release later.
pub(crate) const OLD_KEYS: &[OldKey] = &[OldKey {
    table: "origin",
    key: "streams",
    now: Now::Removed("parallel streams to origins were slower than one connection"),
}];

/// Takes old keys out of the file, and puts values under their new keys.
///
/// # Errors
/// When a table has both the old and the new key.
pub(crate) fn replace(file: &mut DeTable<'_>, old_keys: &[OldKey]) -> Result<Vec<Fault>, Fault> {
    let mut warnings = Vec::new();
    for old in old_keys {
        match file.get_mut(old.table).map(Spanned::get_mut) {
            Some(DeValue::Table(table)) => warnings.extend(replace_in(table, old)?),
            Some(DeValue::Array(list)) => {
                for table in list.iter_mut() {
                    if let DeValue::Table(table) = table.get_mut() {
                        warnings.extend(replace_in(table, old)?);
                    }
                }
            }
            _ => {}
        }
    }
    warnings.sort_by_key(|(place, _)| place.start);
    Ok(warnings)
}

fn replace_in(table: &mut DeTable<'_>, old: &OldKey) -> Result<Option<Fault>, Fault> {
    let OldKey { table: section, key, now } = old;
    let Some((written, value)) = table.remove_entry(*key) else { return Ok(None) };
    let place = written.span();
    let text = match now {
        Now::Removed(reason) => format!("`{section}.{key}` is ignored: {reason}"),
        Now::Renamed(new) if table.contains_key(*new) => {
            return Err((place, format!("both `{section}.{new}` and its old name `{section}.{key}`: delete this one")));
        }
        Now::Renamed(new) => {
            table.insert(Spanned::new(place.clone(), Cow::Borrowed(*new)), value);
            format!("`{section}.{key}` has a new name, write `{section}.{new}`: the next release refuses the old one")
        }
    };
    Ok(Some((place, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[OldKey] = &[
        OldKey { table: "origin", key: "tries", now: Now::Renamed("attempts") },
        OldKey { table: "export", key: "mode", now: Now::Removed("exports are read-only") },
    ];

    fn replaced(text: &str) -> Result<(String, Vec<(usize, String)>), String> {
        let mut file = DeTable::parse(text).unwrap();
        let warnings = replace(file.get_mut(), KEYS).map_err(|(_, text)| text)?;
        let file: toml::Table = serde::Deserialize::deserialize(toml::Deserializer::from(file)).unwrap();
        Ok((file.to_string(), warnings.into_iter().map(|(place, text)| (place.start, text)).collect()))
    }

    #[test]
    fn a_renamed_key_keeps_its_value() {
        let (file, warnings) = replaced("[origin]\ntries = 3\n").unwrap();
        assert_eq!(file, "[origin]\nattempts = 3\n");
        let [(9, text)] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(text.contains("`origin.tries` has a new name, write `origin.attempts`"), "{text}");
    }

    #[test]
    fn a_removed_key_is_ignored_in_each_table_of_a_list() {
        let (file, warnings) = replaced("[[export]]\nmode = 1\n[[export]]\npath = \"/a\"\nmode = 2\n").unwrap();
        assert_eq!(file, "[[export]]\n\n[[export]]\npath = \"/a\"\n");
        let text = "`export.mode` is ignored: exports are read-only".to_owned();
        assert_eq!(warnings, [(11, text.clone()), (43, text)]);
    }

    #[test]
    fn an_old_key_beside_its_new_one_is_refused() {
        let error = replaced("[origin]\ntries = 3\nattempts = 4\n").unwrap_err();
        assert!(error.contains("both `origin.attempts` and its old name"), "{error}");
    }

    #[test]
    fn other_files_are_left_alone() {
        for text in ["", "[origin]\nattempts = 3\n", "origin = 1\n"] {
            assert_eq!(replaced(text), Ok((text.to_owned(), Vec::new())), "{text}");
        }
    }
}
