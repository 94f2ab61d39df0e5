//! A configuration file as it may be shown to others.

use toml::{Table, Value};

/// Replaces user names and passwords in URLs.
const HIDDEN: &str = "***";

/// The settings of a configuration file without comments, and without user names and passwords in URLs; `None` if it is not TOML.
///
/// Settings name files of secrets and hold no secrets themselves, but comments and URLs may.
#[must_use]
pub fn public_form(text: &str) -> Option<String> {
    let mut table: Table = text.parse().ok()?;
    table.iter_mut().for_each(|(_, value)| hide_users(value));
    toml::to_string(&table).ok()
}

fn hide_users(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(hidden) = without_user(text) {
                *text = hidden;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide_users),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| hide_users(value)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// A URL with its user replaced, if it has one.
fn without_user(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (_, host) = authority.rsplit_once('@')?;
    Some(format!("{scheme}://{HIDDEN}@{host}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_users_of_urls_are_not_shown() {
        let text = "# password: hunter2\n[opensearch]\nurls = [\"https://me:hunter2@h:9200/x@y\", \"https://h:9200/a@b\"]\n\n\
                    [[export]]\npath = \"/data\" # hunter2\norigins = [\"root://u@o:1094\"]\n";
        let public = public_form(text).unwrap();
        assert!(!public.contains("hunter2") && !public.contains("u@o"), "{public}");
        for kept in ["https://***@h:9200/x@y", "https://h:9200/a@b", "root://***@o:1094", "path = \"/data\""] {
            assert!(public.contains(kept), "{kept} in {public}");
        }
        assert_eq!(public_form("[export"), None);
    }
}
