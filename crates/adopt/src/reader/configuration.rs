//! A configuration as it is read: its machine, its instance, its directives and their faults.

use std::{fmt, sync::Arc};

/// A line of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    pub file: Arc<str>,
    /// The first one has number 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The files and the environment of a configuration.
pub trait Machine: fmt::Debug {
    /// The value of a variable of the environment.
    fn environment(&self, name: &str) -> Option<String>;

    /// # Errors
    /// If `path` cannot be examined.
    fn find(&self, path: &str) -> Result<Found, String>;

    /// The user other than root that owns the files of the directory `path`, by name or as `UID:GID`.
    fn owner(&self, path: &str) -> Option<String>;
}

/// The content of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    File(Vec<u8>),
    /// The names in it.
    Directory(Vec<String>),
    Nothing,
}

/// The xrootd whose directives are read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Instance {
    /// Fully qualified.
    pub host: String,
    /// The argument of `-n`; default: `anon`.
    pub name: String,
    /// `xrootd`, for conditions.
    pub program: String,
}

/// A directive with its variables replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Directive {
    pub place: Place,
    /// Such as `pfc.ram`; `setenv NAME` for an assignment to the environment.
    pub name: String,
    pub words: Vec<String>,
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

/// A fault at which xrootd would stop as well.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {text}")]
pub struct Problem {
    pub place: Place,
    pub text: String,
}

impl Problem {
    pub(super) fn new(place: &Place, text: impl fmt::Display) -> Self {
        Self { place: place.clone(), text: text.to_string() }
    }
}
