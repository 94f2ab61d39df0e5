//! Settings from the command line alone.

use crate::file::setting;
use std::fmt::Write as _;
use toml::Value;

/// A flag of `forebay serve`.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Name of its setting, `table.key`.
    pub setting: &'static str,
    /// Such as `--listen`.
    pub name: &'static str,
    /// Stands for the value in the help.
    pub placeholder: &'static str,
    /// Whether it may be repeated.
    pub is_list: bool,
}

/// The settings that have a flag, in the order of the help, with placeholders for their values.
const FLAGS: [(&str, &str); 17] = [
    ("server.listen", "ADDR:PORT"),
    ("export.origins", "URL"),
    ("store.path", "DIR"),
    ("forwarding.allow", "PATTERN"),
    ("store.block_size", "SIZE"),
    ("memory.budget", "SIZE"),
    ("purge.budget", "SIZE"),
    ("admin.listen", "ADDR:PORT"),
    ("admin.socket", "FILE"),
    ("export.directory", "DIR"),
    ("export.direct", "never|complete"),
    ("export.miss", "proxy|redirect"),
    ("export.fill", "on-demand-blocks|while-open|to-end"),
    ("export.writes", "refuse|redirect"),
    ("cluster.managers", "HOST:PORT"),
    ("cluster.members", "HOST:PORT"),
    ("logging.filter", "FILTER"),
];

/// All flags of settings.
pub fn flags() -> impl Iterator<Item = Flag> {
    FLAGS.into_iter().filter_map(|(name, placeholder)| {
        let declared = setting(name)?;
        let (name, is_list) = (declared.value.flag?, declared.is_list);
        Some(Flag { setting: declared.name, name, placeholder, is_list })
    })
}

/// The file with the values of flags, each by the name of its setting, and one export.
pub(crate) fn file_of(values: &[(&str, Vec<String>)]) -> String {
    let (mut text, mut export) = (String::new(), String::new());
    for (name, values) in values {
        let is_list = setting(name).is_some_and(|setting| setting.is_list);
        let mut values = values.iter().cloned().map(Value::String);
        let value =
            if is_list { Value::Array(values.collect()) } else { values.next_back().unwrap_or_else(|| "".into()) };
        // Writing to a string cannot fail.
        let _ = match name.strip_prefix("export.") {
            Some(key) => writeln!(export, "{key} = {value}"),
            None => writeln!(text, "{name} = {value}"),
        };
    }
    if export.is_empty() { text } else { format!("{text}[[export]]\n{export}") }
}
