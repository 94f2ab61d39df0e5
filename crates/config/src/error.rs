//! What is wrong with a configuration, and where.

use forebay_types::Side;
use std::fmt;

/// What is wrong with a configuration: one problem at least.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", Lines(problems))]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where: `FILE:LINE:COLUMN`, or the flag.
    pub place: String,
    /// What is wrong and what to write instead.
    pub text: String,
}

struct Lines<'a>(&'a [Problem]);

impl ConfigError {
    pub(crate) const fn new(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    /// Everything that is wrong, in the order of the file.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whose side the error is on: that of whoever runs this server.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Internal
    }

    /// Whether trying again can help: no, the configuration must change.
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
