//! Problems of a configuration, and their places.

use std::fmt;

/// Problems of a configuration: at least one. The operator of this server must act; a retry cannot help.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

/// One problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// `FILE:LINE:COLUMN`, or the flag.
    pub place: String,
    /// The problem, and what to write instead.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}
