//! Reporting of errors, and exit statuses.

use crate::admin::error::AdminError;
use forebay_config::ConfigError;
use std::{io, process::ExitCode};

/// Exit status of invalid arguments and configurations, the same as that of the argument parser.
const EXIT_USAGE: u8 = 2;

/// Invalid or conflicting arguments.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Prints the error to standard error and returns the exit status: 2 for invalid arguments and configurations, those of
/// [`AdminError`], otherwise 1. A closed pipe on standard output is not an error.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let is_reader_gone = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if is_reader_gone {
        return ExitCode::SUCCESS;
    }
    eprintln!("forebay: {error:#}");
    if let Some(error) = error.downcast_ref::<AdminError>() {
        return ExitCode::from(error.exit_status());
    }
    if error.is::<UsageError>() || error.is::<ConfigError>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}
