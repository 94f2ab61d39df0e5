//! Results of a simulation.

use std::fmt;

/// A run in which everything held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    pub compared_bytes: u64,
    pub opens: u64,
    /// Requests that failed with an error, as they may under faults.
    pub errors: u64,
    pub crashes: u64,
    /// How often a ROOT file was parsed with success, in all lives of the server together.
    pub structures: u64,
    /// A number that the order and outcome of all that clients did decides: equal for equal seeds.
    pub digest: u64,
}

/// A failed simulation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    pub seed: u64,
    /// The violations, in the order in which they were found.
    pub findings: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} findings", self.seed, self.findings.len())?;
        for finding in &self.findings {
            writeln!(f, "  {finding}")?;
        }
        write!(f, "replay: cargo run -p forebay-sim -- --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}
