//! Problems of a configuration, and their places.

use forebay_types::Side;
use std::fmt;

/// Problems of a configuration: at least one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", Lines(problems))]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// One problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// `FILE:LINE:COLUMN`, or the flag.
    pub place: String,
    /// The problem, and what to write instead.
    pub text: String,
}

struct Lines<'a>(&'a [Problem]);

impl ConfigError {
    pub(crate) const fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// In the order of the file.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The operator of this server must act.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Internal
    }

    /// A retry cannot help: the configuration must change.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}
