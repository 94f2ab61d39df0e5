//! From the files of a configuration to the directives that one instance of xrootd would execute.

mod condition;
mod configuration;
mod lines;
mod pelican;
mod variables;

pub use configuration::{Directive, Found, Instance, Machine, Place, Problem};
pub use pelican::read_pelican;

use condition::holds;
use lines::{Line, lines};
use std::{collections::VecDeque, fmt, sync::Arc};
use variables::Variables;

/// Most files of a configuration.
const FILES_MAX: usize = 256;

/// Longest file in bytes.
pub const FILE_LEN_MAX: usize = 1 << 20;

/// Most directives in all files.
pub const DIRECTIVES_MAX: usize = 20_000;

/// Most problems that are reported; a file of another kind has one per line.
pub const PROBLEMS_MAX: usize = 50;

/// Directives whose arguments may end in `if CONDITION`.
const CONDITIONAL: [&str; 5] = ["xrd.port", "all.role", "ofs.role", "all.manager", "all.subcluster"];

/// A configuration that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ReadError {
    /// At most 50.
    pub problems: Vec<Problem>,
}

/// Reads the configuration at `path` as xrootd 5 does for `instance`.
///
/// # Errors
/// When a file cannot be read, exceeds a limit, or has directives that xrootd would not accept.
pub fn read(path: &str, instance: &Instance, machine: &dyn Machine) -> Result<Vec<Directive>, ReadError> {
    let mut reader = Reader {
        instance,
        machine,
        variables: Variables::new(machine),
        branch: Branch::Outside,
        begun: None,
        files: 0,
        directives: Vec::new(),
        problems: Vec::new(),
    };
    reader.read_all(path);
    if reader.problems.is_empty() {
        Ok(reader.directives)
    } else {
        reader.problems.truncate(PROBLEMS_MAX);
        Err(ReadError { problems: reader.problems })
    }
}

/// Position within `if`, `else if`, `else`, `fi`, which do not nest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Branch {
    Outside,
    /// The condition held: directives count.
    Taken,
    /// No condition has held so far.
    NotYet,
    /// An earlier condition held.
    Done,
    /// After an `else` without a condition, whose directives count.
    Last,
}

#[derive(Debug)]
struct Reader<'r> {
    instance: &'r Instance,
    machine: &'r dyn Machine,
    variables: Variables<'r>,
    branch: Branch,
    /// Place of the open `if`.
    begun: Option<Place>,
    files: usize,
    directives: Vec<Directive>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn read_all(&mut self, path: &str) {
        let start = Place { file: path.into(), line: 0 };
        let mut files = VecDeque::from([(path.to_owned(), start)]);
        while let Some((path, from)) = files.pop_front() {
            self.files += 1;
            if self.files > FILES_MAX {
                return self.refuse(&from, format!("more than {FILES_MAX} files: a file may continue with itself"));
            }
            let bytes = match self.machine.find(&path) {
                Ok(Found::File(bytes)) => bytes,
                Ok(Found::Directory(_)) => return self.refuse(&from, format!("{path} is a directory")),
                Ok(Found::Nothing) => return self.refuse(&from, format!("{path} does not exist")),
                Err(reason) => return self.refuse(&from, format!("{path} cannot be read: {reason}")),
            };
            if bytes.len() > FILE_LEN_MAX {
                return self.refuse(&from, format!("{path} is longer than {FILE_LEN_MAX} bytes"));
            }
            if let Some(next) = self.read_file(&path.as_str().into(), &bytes) {
                files = next.into();
            }
        }
        if let Some(place) = self.begun.take() {
            self.refuse(&place, "no `fi` ends this `if`");
        }
    }

    /// Reads a file to its end, or to the `continue` that replaces the rest.
    fn read_file(&mut self, file: &Arc<str>, bytes: &[u8]) -> Option<Vec<(String, Place)>> {
        for line in lines(file, bytes, &mut self.problems) {
            if self.problems.len() >= PROBLEMS_MAX || self.directives.len() > DIRECTIVES_MAX {
                self.refuse(&line.place, format!("more than {DIRECTIVES_MAX} directives or {PROBLEMS_MAX} problems"));
                return Some(Vec::new());
            }
            if let Some(paths) = self.read_line(&line) {
                return Some(paths.into_iter().map(|path| (path, line.place.clone())).collect());
            }
        }
        None
    }

    /// Returns the files that replace the rest of this one, if the line is a `continue`.
    fn read_line(&mut self, line: &Line) -> Option<Vec<String>> {
        let (first, rest) = line.words.split_first()?;
        match first.as_str() {
            "else" => self.read_else(&line.place, rest),
            "fi" if self.branch == Branch::Outside => self.refuse(&line.place, "no `if` precedes this `fi`"),
            "fi" => (self.branch, self.begun) = (Branch::Outside, None),
            _ if matches!(self.branch, Branch::NotYet | Branch::Done) => {}
            "if" if self.branch != Branch::Outside => {
                self.refuse(&line.place, "an `if` within an `if`: they do not nest")
            }
            "if" => {
                self.begun = Some(line.place.clone());
                self.read_if(&line.place, rest);
            }
            "continue" if self.branch != Branch::Outside => self.refuse(&line.place, "a `continue` within an `if`"),
            "continue" => return self.read_continue(&line.place, rest),
            "set" | "setenv" => self.read_assignment(line, first, rest),
            _ => {
                let words = self.replaced(&line.place, &line.words);
                self.read_directive(&line.place, &words);
            }
        }
        None
    }

    fn read_directive(&mut self, place: &Place, words: &[String]) {
        let Some((name, mut words)) = words.split_first() else { return };
        if CONDITIONAL.contains(&name.as_str())
            && let Some(at) = words.iter().position(|word| word == "if")
        {
            let (before, condition) = words.split_at(at);
            if !self.holds(place, condition.get(1..).unwrap_or_default()) {
                return;
            }
            words = before;
        }
        self.directives.push(Directive { place: place.clone(), name: name.clone(), words: words.to_vec() });
    }

    fn read_if(&mut self, place: &Place, condition: &[String]) {
        self.branch = if self.holds(place, condition) { Branch::Taken } else { Branch::NotYet };
    }

    fn read_else(&mut self, place: &Place, rest: &[String]) {
        match (self.branch, rest.split_first()) {
            (Branch::Outside | Branch::Last, _) => self.refuse(place, "no `if` precedes this `else`"),
            (Branch::Taken | Branch::Done, _) => self.branch = Branch::Done,
            (Branch::NotYet, None) => self.branch = Branch::Last,
            (Branch::NotYet, Some((word, condition))) if word == "if" => self.read_if(place, condition),
            (Branch::NotYet, Some((word, _))) => self.refuse(place, format!("`{word}` follows `else`")),
        }
    }

    fn holds(&mut self, place: &Place, condition: &[String]) -> bool {
        let words = self.replaced(place, condition);
        holds(&words, self.instance, &self.variables).unwrap_or_else(|error| {
            self.refuse(place, error);
            false
        })
    }

    fn read_assignment(&mut self, line: &Line, first: &str, rest: &[String]) {
        match self.variables.assign(first == "setenv", rest) {
            // The value may be a secret, and is not reported, unless it is a path.
            Ok(Some(name)) => {
                let is_path = name.starts_with("X509_") || name == "BEARER_TOKEN_FILE";
                let value = if is_path { self.variables.exported(&name) } else { None };
                let words = value.map(str::to_owned).into_iter().collect();
                let (place, name) = (line.place.clone(), format!("setenv {name}"));
                self.directives.push(Directive { place, name, words });
            }
            Ok(None) => {}
            Err(error) => self.refuse(&line.place, error),
        }
    }

    /// `continue [?]PATH [*SUFFIX...] [if CONDITION]`: continues with a file, or with the files of a directory in the order
    /// of their names, and does not return. A `?` permits an absent file.
    fn read_continue(&mut self, place: &Place, words: &[String]) -> Option<Vec<String>> {
        let words = self.replaced(place, words);
        let condition = words.iter().position(|word| word == "if");
        let (named, condition) = words.split_at(condition.unwrap_or(words.len()));
        if condition.get(1..).is_some_and(|condition| !self.holds(place, condition)) {
            return None;
        }
        let (path, suffixes) = named.split_first()?;
        let (path, is_optional) = path.strip_prefix('?').map_or((path.as_str(), false), |path| (path, true));
        let suffixes: Option<Vec<_>> = suffixes.iter().map(|suffix| suffix.strip_prefix('*')).collect();
        let Some(suffixes) = suffixes else {
            self.refuse(place, "only *SUFFIX and `if` may follow the path of a `continue`");
            return None;
        };
        match self.machine.find(path) {
            Ok(Found::Nothing) if is_optional => None,
            Ok(Found::Directory(mut names)) => {
                names.retain(|name| !name.starts_with('.'));
                names.retain(|name| suffixes.is_empty() || suffixes.iter().any(|suffix| name.ends_with(suffix)));
                names.sort();
                let directory = path.trim_end_matches('/');
                Some(names.into_iter().map(|name| format!("{directory}/{name}")).collect())
            }
            Ok(Found::File(_) | Found::Nothing) | Err(_) => Some(vec![path.to_owned()]),
        }
    }

    /// Words with their variables replaced, without those that become empty.
    fn replaced(&mut self, place: &Place, words: &[String]) -> Vec<String> {
        let mut replaced = Vec::with_capacity(words.len());
        for word in words {
            match self.variables.replace(word) {
                Ok(word) if word.is_empty() => {}
                Ok(word) => replaced.push(word),
                Err(error) => self.refuse(place, error),
            }
        }
        replaced
    }

    fn refuse(&mut self, place: &Place, text: impl fmt::Display) {
        self.problems.push(Problem::new(place, text));
    }
}
