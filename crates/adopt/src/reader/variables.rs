//! Variables: `set`, `setenv`, and their use in words.

use super::Machine;
use std::collections::BTreeMap;

/// Most variables a configuration may set, and longest value in bytes after replacement. xrootd allows 511 bytes.
const VARIABLES_MAX: usize = 1024;
const VALUE_LEN_MAX: usize = 4096;

/// Longest name of a variable in bytes, as in xrootd.
const NAME_LEN_MAX: usize = 63;

/// The variables of a configuration, and the environment it makes.
#[derive(Debug)]
pub(super) struct Variables<'m> {
    machine: &'m dyn Machine,
    set: BTreeMap<String, String>,
    exported: BTreeMap<String, String>,
}

impl<'m> Variables<'m> {
    pub(super) fn new(machine: &'m dyn Machine) -> Self {
        Self { machine, set: BTreeMap::new(), exported: BTreeMap::new() }
    }

    /// The value of a variable set by `set`.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }

    /// The value of a variable of the environment.
    pub(super) fn environment(&self, name: &str) -> Option<String> {
        self.exported.get(name).cloned().or_else(|| self.machine.environment(name))
    }

    /// Executes `set WORDS` or `setenv WORDS`: `NAME = VALUE` with or without blanks; returns the name of a variable of the
    /// environment. A value that begins with `$` is a variable of the environment for `set`, and one of ours for `setenv`;
    /// the rest of it is ignored.
    pub(super) fn assign(&mut self, is_environment: bool, words: &[String]) -> Result<Option<String>, String> {
        let malformed = || format!("`{}` is not an assignment: write NAME = VALUE", words.join(" "));
        let first = words.first().ok_or_else(malformed)?;
        if !is_environment && matches!(first.as_str(), "-q" | "-v" | "-V") {
            return Ok(None);
        }
        let mut rest = words.iter().skip(1);
        let (name, mut text) = match first.split_once('=') {
            Some(parts) => parts,
            None => (first.as_str(), rest.next().and_then(|word| word.strip_prefix('=')).ok_or_else(malformed)?),
        };
        if text.is_empty() {
            text = rest.next().map_or("", String::as_str);
        }
        if name.is_empty()
            || name.len() > NAME_LEN_MAX
            || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        {
            return Err(malformed());
        }
        if is_environment && name.starts_with("XRD") {
            return Err(format!("{name} may not be set by setenv: its name begins with XRD"));
        }
        let value = self.value(is_environment, text)?;
        if value.len() > VALUE_LEN_MAX {
            return Err(too_long());
        }
        if self.set.len() + self.exported.len() >= VARIABLES_MAX {
            return Err(format!("more than {VARIABLES_MAX} variables"));
        }
        let table = if is_environment { &mut self.exported } else { &mut self.set };
        table.insert(name.to_owned(), value);
        Ok(is_environment.then(|| name.to_owned()))
    }

    /// The value of a variable that `setenv` has set.
    pub(super) fn exported(&self, name: &str) -> Option<&str> {
        self.exported.get(name).map(String::as_str)
    }

    fn value(&self, is_environment: bool, text: &str) -> Result<String, String> {
        let Some(name) = text.strip_prefix('$') else { return Ok(text.to_owned()) };
        let close = closing(name);
        let name = match close.and_then(|close| name.get(1..)?.split_once(close)) {
            Some((name, _)) => name,
            None => name.trim_start_matches(['(', '{', '[']),
        };
        if name.is_empty() {
            return Err(malformed(text));
        }
        let value = if is_environment { self.variable(name).map(str::to_owned) } else { self.environment(name) };
        match value {
            Some(value) => Ok(value),
            None if close == Some(']') => Ok(String::new()),
            None => Err(undefined(name)),
        }
    }

    /// A word with its variables replaced: `$NAME`, `$(NAME)`, `${NAME}`, and `$[NAME]`, which may be undefined. A
    /// backslash protects the next letter. Names in use have letters and digits only: `$A_B` is `$A` and `_B`.
    pub(super) fn replace(&self, word: &str) -> Result<String, String> {
        let mut result = String::new();
        let mut rest = word;
        while let Some(at) = rest.find(['$', '\\']) {
            let (before, found) = rest.split_at(at);
            result.push_str(before);
            let mut letters = found.chars();
            let is_escape = letters.next() == Some('\\');
            let behind = letters.as_str();
            rest = if is_escape {
                result.extend(letters.next());
                letters.as_str()
            } else if behind.starts_with(|c: char| c.is_ascii_alphanumeric() || "({[".contains(c)) {
                self.replace_one(behind, &mut result)?
            } else {
                result.push('$');
                behind
            };
            if result.len() > VALUE_LEN_MAX {
                return Err(too_long());
            }
        }
        result.push_str(rest);
        Ok(result)
    }

    /// Appends the value of the variable that `text` begins with, and returns the text after it.
    fn replace_one<'t>(&self, text: &'t str, result: &mut String) -> Result<&'t str, String> {
        let close = closing(text);
        let name = if close.is_some() { text.get(1..).unwrap_or_default() } else { text };
        let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        let (name, mut rest) = name.split_at(end);
        if let Some(close) = close {
            rest = rest.strip_prefix(close).ok_or_else(|| malformed(&format!("${text}")))?;
        }
        match self.variable(name) {
            Some(value) => result.push_str(value),
            None if close == Some(']') => {}
            None => return Err(undefined(name)),
        }
        Ok(rest)
    }
}

fn malformed(text: &str) -> String {
    format!("`{text}` is not a use of a variable: a bracket is open, or a letter is not allowed in a name")
}

fn undefined(name: &str) -> String {
    format!("the variable {name} is not defined")
}

fn too_long() -> String {
    format!("a value is longer than {VALUE_LEN_MAX} bytes")
}

/// The bracket that closes the one `text` begins with.
fn closing(text: &str) -> Option<char> {
    [('(', ')'), ('{', '}'), ('[', ']')].into_iter().find(|(open, _)| text.starts_with(*open)).map(|(_, close)| close)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Sandbox;

    fn assign(variables: &mut Variables<'_>, is_environment: bool, text: &str) -> Result<Option<String>, String> {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        variables.assign(is_environment, &words)
    }

    #[test]
    fn values_are_assigned_in_every_spelling() {
        let sandbox = Sandbox::default().with("$HOME", "/root");
        let mut variables = Variables::new(&sandbox);
        for (text, value) in [
            ("a = one", "one"),
            ("a=one", "one"),
            ("a= one", "one"),
            ("a =one", "one"),
            ("a = one two", "one"),
            ("a =", ""),
            ("a = $HOME", "/root"),
            ("a = ${HOME}/behind", "/root"),
            ("a = $[NONE]", ""),
        ] {
            assert_eq!(assign(&mut variables, false, text), Ok(None), "{text}");
            assert_eq!(variables.variable("a"), Some(value), "{text}");
        }
        assert_eq!(assign(&mut variables, false, "-v"), Ok(None));
    }

    #[test]
    fn wrong_assignments_are_errors() {
        let sandbox = Sandbox::default();
        let mut variables = Variables::new(&sandbox);
        for text in ["a", "a b", "a-b = c", "= c", "a = $NONE", "a = $()", "a = $", &format!("{} = c", "n".repeat(64))]
        {
            assert!(assign(&mut variables, false, text).is_err(), "{text}");
        }
        assert!(assign(&mut variables, false, &format!("{} = c", "n".repeat(63))).is_ok());
        assert!(assign(&mut variables, false, &format!("a = {}", "v".repeat(VALUE_LEN_MAX))).is_ok());
        let longer = format!("a = {}", "v".repeat(VALUE_LEN_MAX + 1));
        assert_eq!(assign(&mut variables, false, &longer), Err(too_long()));
        assert_eq!(
            assign(&mut variables, true, "XRDX = 1"),
            Err("XRDX may not be set by setenv: its name begins with XRD".into())
        );
    }

    #[test]
    fn the_environment_and_the_variables_are_two_things() {
        let sandbox = Sandbox::default();
        let mut variables = Variables::new(&sandbox);
        assign(&mut variables, false, "a = one").unwrap();
        assert_eq!(assign(&mut variables, true, "B = $a"), Ok(Some("B".into())));
        assert_eq!(variables.variable("B"), None);
        assert_eq!(variables.environment("B").as_deref(), Some("one"));
        assert_eq!(assign(&mut variables, false, "c = $B"), Ok(None));
        assert_eq!(variables.variable("c"), Some("one"));
    }

    #[test]
    fn words_get_the_values_of_variables() {
        let sandbox = Sandbox::default();
        let mut variables = Variables::new(&sandbox);
        assign(&mut variables, false, "B = two").unwrap();
        for (word, replaced) in [
            ("/x/$B-x${B}x/$(B)/$[Q]/", "/x/two-xtwox/two//"),
            ("$B_C", "two_C"),
            ("\\$B$", "$B$"),
            ("$/$-a\\", "$/$-a"),
            ("é$Bé", "étwoé"),
            ("", ""),
        ] {
            assert_eq!(variables.replace(word), Ok(replaced.to_owned()), "{word}");
        }
        for word in ["$C", "$(B", "${B)", "$(B-C)"] {
            assert!(variables.replace(word).is_err(), "{word}");
        }
    }

    #[test]
    fn replacement_and_the_number_of_variables_have_limits() {
        let sandbox = Sandbox::default();
        let mut variables = Variables::new(&sandbox);
        assign(&mut variables, false, &format!("a = {}", "v".repeat(VALUE_LEN_MAX / 2))).unwrap();
        assert!(variables.replace("$a$a").is_ok());
        assert_eq!(variables.replace("$a$a$a"), Err(too_long()));
        for index in 1..VARIABLES_MAX {
            assign(&mut variables, false, &format!("b{index} = c")).unwrap();
        }
        assert_eq!(assign(&mut variables, false, "last = c"), Err("more than 1024 variables".into()));
    }
}
