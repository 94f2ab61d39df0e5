//! What a rule has found: where, what, and how to mend it.

use std::fmt;

/// A breach of a house rule. Sorts by place.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Finding {
    /// File, relative to the root of the workspace.
    pub(crate) path: String,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.problem, self.remedy)
    }
}
