//! How a subcommand ends that did not succeed.

use crate::admin::AdminError;
use forebay_config::ConfigError;
use std::{io, process::ExitCode};

/// Exit status of wrong arguments and wrong configurations, as that of the argument parser.
const EXIT_USAGE: u8 = 2;

/// Arguments that do not fit together, or cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Tells the user what went wrong, on standard error, and chooses the exit status: 2 for wrong arguments and
/// configurations, those of [`AdminError`], else 1. A reader of our output that has gone away is no failure.
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
