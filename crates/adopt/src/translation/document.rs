//! The generated file: tables, settings, comments.

use super::note::Note;
use forebay_types::ByteSize;
use std::fmt::{self, Write as _};

/// Width to which comments are filled, in characters.
const COMMENT_WIDTH: usize = 120;

/// A file of settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Document {
    head: Vec<String>,
    tables: Vec<Table>,
    tail: Vec<String>,
}

/// A table of settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Table {
    /// Its header, as `[server]` or `[[export]]`.
    header: String,
    settings: Vec<(Vec<String>, String)>,
}

impl Document {
    /// Adds a comment to the top of the file.
    pub(super) fn head(&mut self, comment: impl Into<String>) {
        self.head.push(comment.into());
    }

    /// Adds a comment to the end of the file.
    pub(super) fn tail(&mut self, comment: impl Into<String>) {
        self.tail.push(comment.into());
    }

    /// Adds a table, unless it is empty.
    pub(super) fn add(&mut self, table: Table) {
        if !table.settings.is_empty() {
            self.tables.push(table);
        }
    }
}

impl Table {
    pub(super) fn new(header: &str) -> Self {
        Self { header: header.to_owned(), settings: Vec::new() }
    }

    /// Adds `key = value` after comments with the directives that set it. `value` is TOML.
    pub(super) fn set<'n>(&mut self, key: &str, value: impl fmt::Display, from: impl IntoIterator<Item = &'n Note>) {
        self.settings.push((from.into_iter().map(origin_of).collect(), format!("{key} = {value}")));
    }

    /// Adds `key = value` after a comment.
    pub(super) fn set_because(&mut self, key: &str, value: impl fmt::Display, why: &str) {
        self.settings.push((vec![why.to_owned()], format!("{key} = {value}")));
    }
}

/// A comment with the directive of a setting.
fn origin_of(note: &Note) -> String {
    let Note { place, directive, text, .. } = note;
    if text.is_empty() { format!("{directive} ({place})") } else { format!("{directive} ({place}): {text}") }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head.iter().try_for_each(|comment| write_comment(f, comment))?;
        for table in &self.tables {
            writeln!(f, "\n{}", table.header)?;
            for (comments, setting) in &table.settings {
                comments.iter().try_for_each(|comment| write_comment(f, comment))?;
                writeln!(f, "{setting}")?;
            }
        }
        if !self.tail.is_empty() {
            writeln!(f)?;
        }
        self.tail.iter().try_for_each(|comment| write_comment(f, comment))
    }
}

/// Writes a comment in lines of at most 120 characters, where its words allow that. Control characters are escaped.
fn write_comment(f: &mut fmt::Formatter<'_>, comment: &str) -> fmt::Result {
    let mut line = String::from("#");
    for word in comment.split(' ') {
        let is_full = line.chars().count() + 1 + word.chars().count() > COMMENT_WIDTH;
        if is_full && line.len() > CONTINUED.len() {
            writeln!(f, "{line}")?;
            line = CONTINUED.to_owned();
        }
        line.push(' ');
        for letter in word.chars() {
            if letter.is_control() { write!(line, "{}", letter.escape_default())? } else { line.push(letter) }
        }
    }
    writeln!(f, "{}", line.trim_end())
}

/// Prefix of the second and later lines of a comment.
const CONTINUED: &str = "#  ";

/// `text` as a TOML string.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A size as a TOML string.
pub(super) fn size_value(bytes: u64) -> String {
    string(&ByteSize(bytes).to_string())
}

/// `texts` as a TOML array of strings.
pub(super) fn strings<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<_> = texts.into_iter().map(|text| string(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(strings(["a", "b\"c\\d\n\u{7f}é"]), "[\"a\", \"b\\\"c\\\\d\\u000a\\u007fé\"]");
        assert_eq!(strings::<&str>([]), "[]");
    }

    #[test]
    fn comments_are_filled_and_cannot_be_left() {
        let mut document = Document::default();
        document.head("word ".repeat(40).trim_end());
        document.tail("one\nport = 1\r");
        let text = document.to_string();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COMMENT_WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn empty_tables_are_left_out() {
        let mut document = Document::default();
        document.add(Table::new("[server]"));
        let mut table = Table::new("[store]");
        table.set_because("path", string("/a"), "why");
        document.add(table);
        assert_eq!(document.to_string(), "\n[store]\n# why\npath = \"/a\"\n");
    }
}
