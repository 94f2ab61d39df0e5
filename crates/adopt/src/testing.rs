//! A machine made of strings.

use crate::reader::{Found, Machine};
use std::collections::BTreeMap;

/// Files and environment for a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sandbox {
    environment: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
}

impl Sandbox {
    pub(crate) fn with_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }
}

impl Machine for Sandbox {
    fn environment(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn find(&self, path: &str) -> Result<Found, String> {
        if let Some(text) = self.files.get(path) {
            return Ok(Found::File(text.clone().into_bytes()));
        }
        let directory = format!("{}/", path.trim_end_matches('/'));
        let names = self.files.keys().filter_map(|path| path.strip_prefix(&directory));
        let names: Vec<_> = names.filter(|name| !name.contains('/')).map(str::to_owned).collect();
        Ok(if names.is_empty() { Found::Nothing } else { Found::Directory(names) })
    }
}
