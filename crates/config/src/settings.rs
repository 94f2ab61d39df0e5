//! A configuration with the place of each setting.

use crate::{
    base::{ConfigError, Problem},
    config::Config,
    convert::convert,
    file::{Raw, Setting, Source, declared, settings},
    flags::file_of,
    old_keys, syntax,
};
use std::{fmt, fs, io::Read, ops::Range, path::Path};

/// The configuration file of commands that name none.
pub const DEFAULT_FILE: &str = "/etc/forebay/forebay.toml";

/// Longest configuration file in bytes.
pub const FILE_LEN_MAX: u64 = 4 << 20;

/// A configuration with the place of each setting.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config: Config,
    source: Source,
    /// Name and place of each setting of the file; those of lists as `export[0].path`.
    written: Vec<(String, Range<usize>)>,
    warnings: Vec<Problem>,
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read; otherwise all problems of the file, with line and column.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable =
            |text: String| ConfigError { problems: vec![Problem { place: path.display().to_string(), text }] };
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(format!("cannot be read: {error}; write it, or name another file")))?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(unreadable(format!("longer than {FILE_LEN_MAX} bytes: this is not a configuration file")));
        }
        Self::parse(path, text)
    }

    /// Reads the text of a configuration file; `path` appears in messages.
    ///
    /// # Errors
    /// All problems of the file, with line and column.
    pub fn parse(path: &Path, text: String) -> Result<Self, ConfigError> {
        let source = Source::File { path: path.to_owned(), text: text.clone() };
        Self::convert(&text, source)
    }

    /// Reads the values of flags of `forebay serve`, each by the name of its setting.
    ///
    /// # Errors
    /// All wrong flags.
    pub fn from_flags(values: &[(&str, Vec<String>)]) -> Result<Self, ConfigError> {
        Self::convert(&file_of(values), Source::Flags)
    }

    fn convert(text: &str, source: Source) -> Result<Self, ConfigError> {
        let (mut file, duplicates, broken) = syntax::parse(text, &source);
        let warnings = old_keys::remove(&mut file, old_keys::OLD_KEYS);
        let raw = Raw::read(file, duplicates, broken);
        let warnings = warnings.into_iter().map(|(span, text)| source.problem("", Some(&span), text)).collect();
        let config = convert(&raw, &source)?;
        let written = raw.written().into_iter().map(|setting| (setting.name, setting.span.clone())).collect();
        Ok(Self { config, source, written, warnings })
    }

    /// The text of the file; `None` if the settings are flags.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.source {
            Source::File { text, .. } => Some(text),
            Source::Flags => None,
        }
    }

    /// Settings that this release accepts and the next one refuses, each with its place and what to write instead.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// An error of `setting` (`table.key`, or `export[0].key`) that was found only when it was used.
    #[must_use]
    pub fn error_at(&self, setting: &str, text: impl fmt::Display) -> ConfigError {
        ConfigError { problems: vec![self.problem_at(setting, text)] }
    }

    pub(crate) fn problem_at(&self, setting: &str, text: impl fmt::Display) -> Problem {
        let span = self.written.iter().find(|(name, _)| name == setting).map(|(_, span)| span);
        self.source.problem(&declared(setting), span, text)
    }

    /// Settings that differ in `new` and take effect only after a restart.
    #[must_use]
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        settings()
            .filter(|setting| !setting.value.is_live && self.value_texts(setting) != new.value_texts(setting))
            .map(|setting| setting.name)
            .collect()
    }

    /// The values of a setting in the file, otherwise its default. A setting of a list may have several.
    fn value_texts(&self, setting: &Setting) -> Vec<&str> {
        let Source::File { text, .. } = &self.source else { return setting.value.default.into_iter().collect() };
        let spans = self.written.iter().filter(|(name, _)| declared(name) == setting.name).map(|(_, span)| span);
        let texts: Vec<&str> = spans.filter_map(|span| text.get(span.clone())).collect();
        if texts.is_empty() { setting.value.default.into_iter().collect() } else { texts }
    }
}
