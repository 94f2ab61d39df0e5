//! Errors of settings that cannot be used.

use anyhow::anyhow;
use forebay_config::Settings;
use std::fmt;

/// An error of an unusable setting: a configuration error, unless a retry may succeed.
pub(super) fn unusable(
    settings: &Settings,
    setting: &str,
    problem: impl fmt::Display,
    is_passing: bool,
) -> anyhow::Error {
    let error = settings.error_at(setting, problem);
    if is_passing { anyhow!("{error}") } else { error.into() }
}
