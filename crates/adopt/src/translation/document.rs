//! The generated file: tables, settings, comments.

use forebay_types::ByteSize;
use std::fmt::Display;

/// Width to which comments are filled, in characters.
const COMMENT_WIDTH: usize = 120;

/// Prefix of the second and later lines of a comment.
const CONTINUED: &str = "#  ";

/// A file of settings. Its parts are added from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) text: String,
    /// Header of a table that has no settings yet.
    header: &'static str,
}

impl Document {
    /// Begins a table, such as `[server]` or `[[export]]`. It is left out if no setting follows.
    pub(super) fn table(&mut self, header: &'static str) {
        self.header = header;
    }

    /// Adds `key = value` after comments. `value` is TOML.
    pub(super) fn set(&mut self, key: &str, value: impl Display, comments: impl IntoIterator<Item = String>) {
        let header = std::mem::take(&mut self.header);
        if !header.is_empty() {
            self.push(&format!("\n{header}"));
        }
        comments.into_iter().for_each(|comment| self.comment(&comment));
        self.push(&format!("{key} = {value}"));
    }

    /// Adds a comment in lines of at most 120 characters, where its words allow that. Control characters are escaped.
    pub(super) fn comment(&mut self, comment: &str) {
        let mut line = String::from("#");
        for word in comment.split(' ') {
            let is_full = line.chars().count() + 1 + word.chars().count() > COMMENT_WIDTH;
            if is_full && line.len() > CONTINUED.len() {
                self.push(&line);
                line = CONTINUED.to_owned();
            }
            line.push(' ');
            for letter in word.chars() {
                if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
            }
        }
        self.push(line.trim_end());
    }

    pub(super) fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

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
        document.comment("word ".repeat(40).trim_end());
        document.comment("one\nport = 1\r");
        let text = document.text;
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COMMENT_WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn empty_tables_are_left_out() {
        let mut document = Document::default();
        document.table("[server]");
        document.table("[store]");
        document.set("path", string("/a"), ["why".to_owned()]);
        assert_eq!(document.text, "\n[store]\n# why\npath = \"/a\"\n");
    }
}
