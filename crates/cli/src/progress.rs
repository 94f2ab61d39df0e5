//! Progress bars.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Most redraws per second.
const REDRAWS_HZ: u8 = 8;

const TEMPLATE: &str =
    "{msg:.bold} [{bar:30}] {percent:>3}%  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  ETA {eta}";

const FILES_TEMPLATE: &str = "[{bar:30}] {percent:>3}%  {pos} of {len} files  {msg}  ETA {eta}";

/// A bar of `total` bytes on standard error, named `name`. It is drawn on terminals only.
pub(crate) fn bar(name: &str, total: u64, is_quiet: bool) -> ProgressBar {
    let bar = drawn(Some((total, TEMPLATE)), is_quiet);
    bar.set_message(crate::text::printable(name).into_owned());
    bar
}

/// A bar of `total` files on standard error, with the number of bytes as its message. It is drawn on terminals only.
pub(crate) fn files_bar(total: u64, is_quiet: bool) -> ProgressBar {
    drawn(Some((total, FILES_TEMPLATE)), is_quiet)
}

/// A spinner with a message on standard error. It is drawn on terminals only.
pub(crate) fn spinner(is_quiet: bool) -> ProgressBar {
    drawn(None, is_quiet)
}

fn drawn(bar: Option<(u64, &str)>, is_quiet: bool) -> ProgressBar {
    if is_quiet {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
    let Some((total, template)) = bar else { return ProgressBar::with_draw_target(None, target) };
    let style = ProgressStyle::with_template(template).expect("the template is a constant, and a test makes it");
    ProgressBar::with_draw_target(Some(total), target).with_style(style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        assert_eq!(bar("a", 10, false).length(), Some(10));
        assert!(bar("a", 10, true).is_hidden());
        assert_eq!(files_bar(10, false).length(), Some(10));
    }
}
