//! A machine made of strings, for the tests of this crate within and outside of it.

use forebay_adopt::{Found, Machine};
use std::collections::BTreeMap;

/// Files and environment for a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sandbox(BTreeMap<String, String>);

impl Sandbox {
    /// The name of a variable of the environment begins with `$`, the path of a file does not. `owner of PATH` names a user.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl Machine for Sandbox {
    fn environment(&self, name: &str) -> Option<String> {
        self.0.get(&format!("${name}")).cloned()
    }

    fn find(&self, path: &str) -> Result<Found, String> {
        if let Some(text) = self.0.get(path) {
            return Ok(Found::File(text.clone().into_bytes()));
        }
        let directory = format!("{}/", path.trim_end_matches('/'));
        let names = self.0.keys().filter_map(|path| path.strip_prefix(&directory));
        let names: Vec<_> = names.filter(|name| !name.contains('/')).map(str::to_owned).collect();
        Ok(if names.is_empty() { Found::Nothing } else { Found::Directory(names) })
    }

    fn owner(&self, path: &str) -> Option<String> {
        self.0.get(&format!("owner of {path}")).cloned()
    }
}
