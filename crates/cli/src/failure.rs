//! Errors with an exit status of their own, and the reporting of errors.

use forebay_config::ConfigError;
use std::{io, process::ExitCode};

/// Exit status of invalid arguments and configurations, the same as that of the argument parser.
const EXIT_USAGE: u8 = 2;

/// Invalid or conflicting arguments.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The failure of a command that talks to the server.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct AdminError {
    exit_status: u8,
    text: String,
    /// The name of the API's problem, if it is one.
    pub(crate) problem: Option<String>,
}

impl AdminError {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const UNREACHABLE: u8 = 3;
    pub(crate) const DENIED: u8 = 4;
    const PARTLY: u8 = 5;
    const INTERRUPTED: u8 = 130;

    pub(crate) const fn new(exit_status: u8, text: String) -> Self {
        Self { exit_status, text, problem: None }
    }

    pub(crate) fn partly(done: u64, total: u64, advice: &str) -> anyhow::Error {
        Self::new(Self::PARTLY, format!("{done} of {total} done: {advice}")).into()
    }

    pub(crate) fn interrupted(advice: &str) -> anyhow::Error {
        Self::new(Self::INTERRUPTED, format!("interrupted: {advice}")).into()
    }
}

/// Prints the error to standard error and returns the exit status: 2 for invalid arguments and configurations, those of
/// [`AdminError`], otherwise 1. A closed pipe on standard output is not an error.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    if causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    for line in format!("{error:#}").lines() {
        eprintln!("forebay: {line}");
    }
    if let Some(error) = error.downcast_ref::<AdminError>() {
        return ExitCode::from(error.exit_status);
    }
    if error.is::<UsageError>() || error.is::<ConfigError>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}
