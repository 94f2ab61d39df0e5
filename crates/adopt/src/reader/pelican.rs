//! The configuration of a cache of Pelican: the part of YAML that such files use.

use super::{
    DIRECTIVES_MAX, FILE_LEN_MAX, PROBLEMS_MAX, ReadError,
    configuration::{Directive, Found, Machine, Place, Problem},
};
use std::sync::Arc;

/// Reads the settings of the file at `path`, each as a directive with the names of its tables and its own: `Cache.Port`. Elements of
/// lists are its words; lines of values that have a structure of their own are kept as they are.
///
/// # Errors
/// When the file cannot be read, exceeds a limit, or has lines of another form.
pub fn read_pelican(path: &str, machine: &dyn Machine) -> Result<Vec<Directive>, ReadError> {
    let start = Place { file: path.into(), line: 0 };
    let failed = |text: String| ReadError { problems: vec![Problem::new(&start, text)] };
    let bytes = match machine.find(path) {
        Ok(Found::File(bytes)) if bytes.len() <= FILE_LEN_MAX => bytes,
        Ok(Found::File(_)) => return Err(failed(format!("{path} is longer than {FILE_LEN_MAX} bytes"))),
        Ok(Found::Directory(_)) => return Err(failed(format!("{path} is a directory"))),
        Ok(Found::Nothing) => return Err(failed(format!("{path} does not exist"))),
        Err(reason) => return Err(failed(format!("{path} cannot be read: {reason}"))),
    };
    let text = String::from_utf8(bytes).map_err(|_| failed(format!("{path} is not UTF-8")))?;
    let mut reader = Reader { file: path.into(), tables: Vec::new(), inner: None, directives: Vec::new() };
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Err(what) = reader.read_line(line, number + 1) {
            problems.push(Problem::new(&reader.place(number + 1), what));
        }
        if reader.directives.len() > DIRECTIVES_MAX {
            return Err(failed(format!("more than {DIRECTIVES_MAX} settings")));
        }
    }
    // Keys of tables have no value of their own.
    reader.directives.retain(|directive| !directive.words.is_empty());
    problems.truncate(PROBLEMS_MAX);
    if problems.is_empty() { Ok(reader.directives) } else { Err(ReadError { problems }) }
}

struct Reader {
    file: Arc<str>,
    /// The open tables, each with its indentation and its key.
    tables: Vec<(usize, String)>,
    /// Indentation of the key whose value is a list or a text of several lines.
    inner: Option<usize>,
    directives: Vec<Directive>,
}

impl Reader {
    fn place(&self, line: usize) -> Place {
        Place { file: Arc::clone(&self.file), line }
    }

    fn read_line(&mut self, line: &str, number: usize) -> Result<(), &'static str> {
        let content = without_comment(line).trim_end();
        let text = content.trim_start_matches(' ');
        let indentation = content.len() - text.len();
        if text.is_empty() || matches!(text, "---" | "...") {
            return Ok(());
        }
        if text.starts_with('\t') {
            return Err("a tab at the beginning of a line");
        }
        if self.continues(text, indentation) {
            let element = text.strip_prefix("- ").unwrap_or(text);
            if let Some(directive) = self.directives.last_mut() {
                directive.words.push(unquoted(element));
            }
            return Ok(());
        }
        let (key, value) = text.split_once(':').ok_or("neither a key with a value nor an element of a list")?;
        if !value.is_empty() && !value.starts_with(' ') {
            return Err("a key is followed by a colon and a blank");
        }
        self.tables.retain(|(outer, _)| *outer < indentation);
        self.tables.push((indentation, unquoted(key)));
        let name = self.tables.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        let value = value.trim();
        let is_text = value.starts_with(['|', '>']);
        self.inner = is_text.then_some(indentation);
        let words = if is_text { Vec::new() } else { words_of(value) };
        self.directives.push(Directive { place: self.place(number), name, words });
        Ok(())
    }

    /// Whether a line belongs to the value of the last key.
    fn continues(&mut self, text: &str, indentation: usize) -> bool {
        let Some((of_key, _)) = self.tables.last() else { return false };
        let is_element = text.starts_with("- ") && indentation >= *of_key;
        if is_element {
            self.inner = Some(*of_key);
        }
        is_element || self.inner.is_some_and(|outer| indentation > outer)
    }
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, '#') if line.get(..at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t'])) => {
                return line.get(..at).unwrap_or_default();
            }
            _ => {}
        }
    }
    line
}

fn words_of(value: &str) -> Vec<String> {
    match value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        Some(list) => list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(unquoted).collect(),
        None if value.is_empty() => Vec::new(),
        None => vec![unquoted(value)],
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Sandbox;

    fn lines(text: &str) -> Result<Vec<String>, ReadError> {
        let directives = read_pelican("p.yaml", &Sandbox::default().with("p.yaml", text))?;
        Ok(directives.iter().map(|directive| format!("{}: {directive}", directive.place.line)).collect())
    }

    #[test]
    fn settings_have_the_names_of_their_tables() {
        let text = "---\n# a comment\nCache:\n  Port: 8443 # the port\n  StorageLocation: \"/data #1\"\n  Spaces:\n  - /a\n  - '/b'\n  \
                    More: [x, 'y']\n\nFederation:\n    DiscoveryUrl: https://osg-htc.org\nOrigin:\n  Exports:\n    - Prefix: /x\n      \
                    Path: /y\n  Port: 1\nText: |\n  one\n    two: 3\nCache.Concurrency: 4\nEmpty:\n";
        assert_eq!(
            lines(text).unwrap(),
            [
                "4: Cache.Port 8443",
                "5: Cache.StorageLocation /data #1",
                "6: Cache.Spaces /a /b",
                "9: Cache.More x y",
                "12: Federation.DiscoveryUrl https://osg-htc.org",
                "14: Origin.Exports Prefix: /x Path: /y",
                "17: Origin.Port 1",
                "18: Text one two: 3",
                "21: Cache.Concurrency 4",
            ]
        );
    }

    #[test]
    fn other_lines_are_problems() {
        for text in ["a", "a:b", "a:\n\tb: c", "- a"] {
            assert_eq!(lines(text).unwrap_err().problems.len(), 1, "{text}");
        }
        assert!(read_pelican("none", &Sandbox::default()).is_err());
        assert!(lines(&"#".repeat(FILE_LEN_MAX + 1)).is_err());
        assert_eq!(lines(&"#".repeat(FILE_LEN_MAX)).unwrap().len(), 0);
    }
}
