//! A configuration together with where it was written.

use crate::{
    config::Config,
    convert::convert,
    declare::{Setting, TakesEffect},
    environment,
    error::{ConfigError, Problem},
    flags::Flags,
    old_keys,
    raw::{Raw, SECTIONS},
    source::Source,
};
use serde::Deserialize;
use std::{fmt, fs, io::Read, ops::Range, path::Path};
use toml::de::DeTable;

/// Longest configuration file in bytes; a longer one is something else.
pub const FILE_LEN_MAX: u64 = 4 << 20;

/// A configuration together with where it was written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What was configured.
    pub config: Config,
    source: Source,
    /// Name and place of what is written; settings of the list of exports as `export[0].path`.
    written: Vec<(String, Range<usize>)>,
    warnings: Vec<Problem>,
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read, or names all that is wrong in it with line and column.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable =
            |problem: String| ConfigError::new(vec![Problem { place: path.display().to_string(), text: problem }]);
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(unreadable(format!("longer than {FILE_LEN_MAX} bytes: this is no configuration file")));
        }
        Self::parse(path, text)
    }

    /// Understands the text of a configuration file; `path` serves for messages.
    ///
    /// # Errors
    /// Names all that is wrong with line and column.
    pub fn parse(path: &Path, text: String) -> Result<Self, ConfigError> {
        let read = read_file(&text);
        let source = Source::File { path: path.to_owned(), text };
        let (raw, warnings) = read.map_err(|(span, problem)| source.error("", span.as_ref(), problem))?;
        let warnings = warnings.into_iter().map(|(span, text)| source.problem("", Some(&span), text)).collect();
        Ok(Self { warnings, ..Self::from_raw(&raw, source)? })
    }

    /// Understands flags.
    ///
    /// # Errors
    /// Names all flags that are wrong.
    pub fn from_flags(flags: Flags) -> Result<Self, ConfigError> {
        Self::from_raw(&flags.into_raw(), Source::Flags)
    }

    fn from_raw(raw: &Raw, source: Source) -> Result<Self, ConfigError> {
        let config = convert(raw, &source)?;
        Ok(Self { config, source, written: raw.written(), warnings: Vec::new() })
    }

    /// Checks what lies outside of the file: that the store can be written and exported directories can be read.
    /// Changes nothing.
    ///
    /// # Errors
    /// Names all that is wrong with line and column.
    pub fn check_environment(&self) -> Result<(), ConfigError> {
        environment::check(self)
    }

    /// As [`Self::check_environment`], but for disks of several, without which a server starts.
    ///
    /// # Errors
    /// Names all that is wrong with line and column.
    pub fn check_needed(&self) -> Result<(), ConfigError> {
        environment::check_needed(self)
    }

    /// Settings that this release accepts and the next one refuses, each with its place and what to write instead.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// An error of `setting` (`table.key`, or `export[0].key`) that showed only when it was used.
    #[must_use]
    pub fn error_at(&self, setting: &str, text: impl fmt::Display) -> ConfigError {
        ConfigError::new(vec![self.problem_at(setting, text)])
    }

    pub(crate) fn problem_at(&self, setting: &str, text: impl fmt::Display) -> Problem {
        let span = self.written.iter().find(|(name, _)| name == setting).map(|(_, span)| span);
        self.source.problem(&declared(setting), span, text)
    }

    /// Settings that differ in `new` and take effect only at a start.
    #[must_use]
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let settings = SECTIONS.iter().flat_map(|section| section.settings);
        let fixed = settings.filter(|setting| setting.value.takes_effect == TakesEffect::AtStart);
        fixed
            .filter(|setting| self.value_texts(setting) != new.value_texts(setting))
            .map(|setting| setting.name)
            .collect()
    }

    /// The values of a setting as they are written; its default when it is not. A setting of a list may have several.
    fn value_texts(&self, setting: &Setting) -> Vec<&str> {
        let Source::File { text, .. } = &self.source else { return setting.value.default.into_iter().collect() };
        let spans = self.written.iter().filter(|(name, _)| declared(name) == setting.name).map(|(_, span)| span);
        let texts: Vec<&str> = spans.filter_map(|span| text.get(span.clone())).collect();
        if texts.is_empty() { setting.value.default.into_iter().collect() } else { texts }
    }
}

/// What is written, and warnings about keys of earlier releases.
fn read_file(text: &str) -> Result<(Raw, Vec<old_keys::Note>), (Option<Range<usize>>, String)> {
    let refused = |error: toml::de::Error| (error.span(), error.message().replace('\n', ", "));
    let mut file = DeTable::parse(text).map_err(refused)?;
    let warnings =
        old_keys::replace(file.get_mut(), old_keys::OLD_KEYS).map_err(|(place, problem)| (Some(place), problem))?;
    let raw = Raw::deserialize(toml::Deserializer::from(file)).map_err(refused)?;
    Ok((raw, warnings))
}

/// The name under which a setting is declared: `export.path` for `export[0].path`.
fn declared(setting: &str) -> String {
    match (setting.split_once('['), setting.split_once("].")) {
        (Some((list, _)), Some((_, key))) => format!("{list}.{key}"),
        _ => setting.to_owned(),
    }
}
