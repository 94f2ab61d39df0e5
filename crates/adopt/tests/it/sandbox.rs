//! A machine made of strings, and a cache on it.

use forebay_adopt::{Found, Instance, Machine, Translation, read, translate};
use std::collections::BTreeMap;

/// Files and environment for a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sandbox {
    environment: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
}

impl Sandbox {
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

/// The translation of `text` after the directives that every cache has.
pub(crate) fn translated(text: &str) -> Translation {
    let text = format!("pss.cachelib default\noss.localroot /c\nall.export /\npss.origin origin.example\n{text}\n");
    translated_whole(&text)
}

/// The translation of `text`.
pub(crate) fn translated_whole(text: &str) -> Translation {
    translated_on(Sandbox::default().with_file("a.cfg", text))
}

/// The translation of `a.cfg` on a machine.
pub(crate) fn translated_on(sandbox: Sandbox) -> Translation {
    let instance = Instance { host: "xc1.site.org".into(), name: "anon".into(), program: "xrootd".into() };
    translate(&read("a.cfg", &instance, &sandbox).unwrap(), &instance, "a.cfg", &sandbox)
}

/// The lines of the file that are no comments.
pub(crate) fn settings(translation: &Translation) -> Vec<&str> {
    let lines = translation.file.as_deref().unwrap_or_default().lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}
