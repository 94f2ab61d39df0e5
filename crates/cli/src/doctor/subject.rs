//! The subject of the checks.

use forebay_auth::UnixTime;
use forebay_config::Settings;

/// The settings under examination, and the time of the examination.
pub(super) struct Subject<'a> {
    pub(super) settings: &'a Settings,
    pub(super) now: UnixTime,
}
