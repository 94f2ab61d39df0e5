//! Where settings were written, for messages.

use crate::base::Problem;
use std::{fmt, ops::Range, path::PathBuf};

/// Where settings were written.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File { path: PathBuf, text: String },
    Flags,
}

impl Source {
    /// The place of `setting`, whose value is at the bytes `span` of the file if it has one.
    pub(crate) fn place(&self, setting: &str, span: Option<&Range<usize>>) -> String {
        match (self, span) {
            (Self::File { path, text }, Some(span)) => {
                let (line, column) = line_and_column(text, span.start);
                format!("{}:{line}:{column}", path.display())
            }
            (Self::File { path, .. }, None) => path.display().to_string(),
            (Self::Flags, Some(_)) => self.name(setting).to_owned(),
            (Self::Flags, None) => "command line".to_owned(),
        }
    }

    /// The user's name of `setting`: the flag, or `table.key`.
    pub(crate) fn name<'a>(&self, setting: &'a str) -> &'a str {
        match self {
            Self::File { .. } => setting,
            Self::Flags => super::setting(&declared(setting)).and_then(|setting| setting.value.flag).unwrap_or(setting),
        }
    }

    /// The line of the file with the byte at `offset`; the header of a table with all lines up to the next one.
    pub(crate) fn passage(&self, offset: usize) -> Range<usize> {
        let Self::File { text, .. } = self else { return 0..0 };
        let start = text.get(..offset).unwrap_or(text).rfind('\n').map_or(0, |newline| newline + 1);
        let rest = text.get(start..).unwrap_or_default();
        let end = if rest.trim_start().starts_with('[') { "\n[" } else { "\n" };
        start..rest.find(end).map_or(text.len(), |length| start + length)
    }

    pub(crate) fn problem(&self, setting: &str, span: Option<&Range<usize>>, text: impl fmt::Display) -> Problem {
        Problem { place: self.place(setting, span), text: text.to_string() }
    }
}

/// The name under which a setting is declared: `export.path` for `export[0].path`.
pub(crate) fn declared(setting: &str) -> String {
    match (setting.split_once('['), setting.split_once("].")) {
        (Some((list, _)), Some((_, key))) => format!("{list}.{key}"),
        _ => setting.to_owned(),
    }
}

/// Line and column of the byte at `offset`, both counted from 1; the column in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a = 1\nü = \"b\"\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 6), (2, 1));
        assert_eq!(line_and_column(text, text.find('"').unwrap()), (2, 5));
        assert_eq!(line_and_column(text, 999), (3, 1));
    }
}
